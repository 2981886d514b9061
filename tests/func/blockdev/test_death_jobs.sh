#!/bin/bash
# test_death_jobs.sh: a donor dies under fio, another under mkfs and a copy of files: the jobs end, with errors or well, and
# none hangs; the device goes on, and what is written then is right. On FUSE then the daemon dies under each: the same,
# but for the device, which is removed.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require fio mkfs.ext4 fsck.ext4
grep -qw ext4 /proc/filesystems || modprobe ext4 2>/dev/null || skip_all "the kernel has no ext4"

mib=64
folder=$DONORS_DIRECTORY/mnt
tree=$DONORS_DIRECTORY/tree
mkdir "$folder" "$tree"
cp -a blockdev client fabric tests "$tree"
head -c 9000001 /dev/urandom >"$tree/random"
trap 'umount -l "$folder" 2>/dev/null; device_cleanup' EXIT

job_ended() {
	! kill -0 "$job" 2>/dev/null
}

device_written() {
	awk '{ print $5 }' "/sys/block/${DEVICE#/dev/}/stat"
}

# Waits until so many more writes than it had have gone to the device.
writes_wait() {
	wait_for 10 eval "[ \$(device_written) -gt $(($(device_written) + $1)) ]"
}

# Writes and checks the device until it is stopped; errors are counted, and do not stop it.
fio_start() {
	timeout 40 fio --name=busy --filename="$DEVICE" --size=${mib}M --direct=1 --ioengine=libaio --iodepth=8 --rw=randrw --bs=4k \
		--verify=xxhash --verify_state_save=0 --verify_backlog=64 --time_based --runtime=2 --continue_on_error=all --thread \
		>"$DONORS_DIRECTORY/fio" 2>&1 &
	job=$!
	writes_wait 200
	ok $? "fio writes and reads back"
}

# A file system made anew and anew, files copied to it, and that read, until something fails.
files_start() {
	(
		while mkfs.ext4 -q -F -E nodiscard "$DEVICE" && mount -o errors=continue "$DEVICE" "$folder"; do
			cp -a "$tree" "$folder/" && sync -f "$folder" && cp -a "$folder/tree" "$folder/again"
			status=$?
			umount "$folder" || umount -l "$folder"
			[ $status -eq 0 ] && [ ! -e "$DONORS_DIRECTORY/enough" ] || break
		done
	) >"$DONORS_DIRECTORY/files" 2>&1 &
	job=$!
	writes_wait 50
	ok $? "a file system is made and filled"
}

expect_ended() {
	wait_for 20 job_ended
	ok $? "$1" || note "$(cat "$DONORS_DIRECTORY/fio" "$DONORS_DIRECTORY/files" 2>/dev/null | tail -n 20)"
	kill -KILL "$job" 2>/dev/null
	wait "$job" 2>/dev/null
}

# Every page is written anew and right, and so are files.
expect_usable() {
	blkdiscard -f "$DEVICE" 2>/dev/null && "$FARPAGE_BLOCKS" "$DEVICE" $mib fill check >"$DONORS_DIRECTORY/blocks"
	expect "$1: all of the device can be written, and is right" "0 0 0" "$? $(blocks_of failed "$DONORS_DIRECTORY/blocks" fill) \
$(blocks_of failed "$DONORS_DIRECTORY/blocks" check)"
	mkfs.ext4 -q -F -E nodiscard "$DEVICE" && mount "$DEVICE" "$folder" && cp -a "$tree" "$folder/" && umount "$folder" &&
		fsck.ext4 -fn "$DEVICE" >"$OUTPUT" 2>&1 && mount "$DEVICE" "$folder" &&
		diff -r --no-dereference "$tree" "$folder/tree" >>"$OUTPUT" 2>&1
	ok $? "... and files can be kept on it" || note "$(head -5 "$OUTPUT")"
	umount "$folder"
}

donors_start 3 $((mib * 3 / 2))M --slab 2M --grace 2
device_attach jobs ${mib}M
ok $? "a device over three donors" || note "$(cat "$OUTPUT")"
fio_start
donor_kill 0
expect_ended "a donor is killed: fio comes to its end"
expect_usable "after fio"
files_start
donor_kill 1
touch "$DONORS_DIRECTORY/enough"
expect_ended "another is killed: mkfs and cp come to their end"
expect_usable "after files"
rm "$DONORS_DIRECTORY/enough"

if [ "$FRONTEND" = fuse ]; then
	fio_start
	mapfile -t pids < <(device_pids jobs)
	kill -KILL "${pids[@]}"
	expect_ended "the daemon is killed: fio comes to its end"
	device_detach jobs
	ok $? "... and the device is removed" || note "$(cat "$OUTPUT")"
	wait_for 10 donors_idle
	ok $? "... what it leased is given back"
	device_attach jobs ${mib}M
	ok $? "a device of the same name" || note "$(cat "$OUTPUT")"
	files_start
	mapfile -t pids < <(device_pids jobs)
	kill -KILL "${pids[@]}"
	touch "$DONORS_DIRECTORY/enough"
	expect_ended "the daemon is killed: mkfs and cp come to their end"
	wait_for 10 eval '! grep -q "$folder" /proc/self/mounts || umount "$folder" 2>/dev/null'
	ok $? "... the file system is unmounted"
fi
wait_for 10 device_detach jobs
ok $? "it is detached" || note "$(cat "$OUTPUT")"
expect_nothing_left 10
tap_done
