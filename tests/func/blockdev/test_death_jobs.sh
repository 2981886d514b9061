#!/bin/bash
# test_death_jobs.sh: kills a donor under fio, and another donor under mkfs and a copy of files. The jobs end, with
# errors or without, and none hangs. The device continues, and data that is written later is right. With FUSE the test
# then kills the daemon under each job. The jobs end as well, and the device is removed.
. tests/func/blockdev/device.sh
device_require fio mkfs.ext4 fsck.ext4
grep -qw ext4 /proc/filesystems || modprobe ext4 2>/dev/null || skip_all "the kernel has no ext4"

mib=64
folder=$FOLDER/mnt
tree=$FOLDER/tree
mkdir "$folder" "$tree"
cp -a blockdev client fabric tests "$tree"
head -c 9000001 /dev/urandom >"$tree/random"
at_exit 'umount -l "$folder" 2>/dev/null'

device_written() {
	awk '{ print $5 }' "/sys/block/${DEVICE#/dev/}/stat"
}

# writes_wait COUNT: waits until the device has had more than COUNT further writes.
writes_wait() {
	wait_for 10 eval "[ \$(device_written) -gt $(($(device_written) + $1)) ]"
}

# Starts fio, which writes and checks the device for two seconds. fio counts errors and goes on.
fio_start() {
	timeout 40 fio --name=busy --filename="$DEVICE" --size=${mib}M --direct=1 --ioengine=libaio --iodepth=8 --rw=randrw --bs=4k \
		--verify=xxhash --verify_state_save=0 --verify_backlog=64 --time_based --runtime=2 --continue_on_error=all --thread \
		>"$FOLDER/fio" 2>&1 &
	job=$!
	check "fio writes to the device more than 200 times" writes_wait 200
}

# Starts a job that makes a file system and copies files to and on it, over and over, until a step fails.
files_start() {
	(
		while mkfs.ext4 -q -F -E nodiscard "$DEVICE" && mount -o errors=continue "$DEVICE" "$folder"; do
			cp -a "$tree" "$folder/" && sync -f "$folder" && cp -a "$folder/tree" "$folder/again"
			status=$?
			umount "$folder" || umount -l "$folder"
			[ $status -eq 0 ] && [ ! -e "$FOLDER/enough" ] || break
		done
	) >"$FOLDER/files" 2>&1 &
	job=$!
	check "mkfs and cp write to the device more than 50 times" writes_wait 50
}

expect_ended() {
	check "$1" wait_for 20 ended "$job" || note "$(cat "$FOLDER/fio" "$FOLDER/files" 2>/dev/null | tail -n 20)"
	kill -KILL "$job" 2>/dev/null
	wait "$job" 2>/dev/null
}

# Checks that every page can be written and read right, and that files can be kept on the device.
expect_usable() {
	blkdiscard -f "$DEVICE" 2>/dev/null && "$FARPAGE_BLOCKS" "$DEVICE" $mib fill check >"$said"
	expect "$1: every page of the device is written and read right" "0 0 0" "$? $(blocks_of failed "$said" fill) \
$(blocks_of failed "$said" check)"
	mkfs.ext4 -q -F -E nodiscard "$DEVICE" && mount "$DEVICE" "$folder" && cp -a "$tree" "$folder/" && umount "$folder" &&
		fsck.ext4 -fn "$DEVICE" >"$OUTPUT" 2>&1 && mount "$DEVICE" "$folder" &&
		diff -r --no-dereference "$tree" "$folder/tree" >>"$OUTPUT" 2>&1
	ok $? "$1: a file system on the device keeps its files" || note "$(head -5 "$OUTPUT")"
	umount "$folder"
}

donors_start 3 $((mib * 3 / 2))M --slab 2M --grace 2
check "a device attaches to three donors" device_attach jobs ${mib}M || note "$(cat "$OUTPUT")"
fio_start
donor_kill 0
expect_ended "fio ends after a donor is killed"
expect_usable "a donor was killed under fio"
files_start
donor_kill 1
touch "$FOLDER/enough"
expect_ended "mkfs and cp end after a second donor is killed"
expect_usable "a donor was killed under mkfs and cp"
rm "$FOLDER/enough"

if [ "$FRONTEND" = fuse ]; then
	fio_start
	mapfile -t pids < <(device_pids jobs)
	kill -KILL "${pids[@]}"
	expect_ended "fio ends after the daemon is killed"
	check "detach removes the device of the killed daemon" device_detach jobs || note "$(cat "$OUTPUT")"
	check "donors get the killed daemon's slabs back" wait_for 10 donors_idle
	check "a device of the removed device's name attaches" device_attach jobs ${mib}M || note "$(cat "$OUTPUT")"
	files_start
	mapfile -t pids < <(device_pids jobs)
	kill -KILL "${pids[@]}"
	touch "$FOLDER/enough"
	expect_ended "mkfs and cp end after the daemon is killed"
	wait_for 10 eval '! grep -q "$folder" /proc/self/mounts || umount "$folder" 2>/dev/null'
	ok $? "the file system of the killed daemon's device is unmounted"
fi
check "detach removes the device at the end" wait_for 10 device_detach jobs || note "$(cat "$OUTPUT")"
expect_nothing_left 10
tap_done
