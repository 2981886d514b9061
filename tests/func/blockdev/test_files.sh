#!/bin/bash
# test_files.sh: two devices at once, each with a file system and a tree of files that is the same after it was unmounted,
# checked, and mounted again. A device in use is not detached.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require mkfs.ext4 fsck.ext4
grep -qw ext4 /proc/filesystems || modprobe ext4 2>/dev/null || skip_all "the kernel has no ext4"

# What there is to copy: this checkout's sources, and files with holes and of odd lengths.
tree=$DONORS_DIRECTORY/tree
mkdir -p "$tree"
cp -a blockdev client common docs fabric tests "$tree"
truncate -s 3000001 "$tree/hole"
head -c 5000001 /dev/urandom >"$tree/random"
ln -s random "$tree/link"

mounted=()
unmount_all() {
	local folder
	for folder in "${mounted[@]}"; do
		umount "$folder" 2>/dev/null
	done
}
trap 'unmount_all; device_cleanup' EXIT

# file_system DEVICE FOLDER: made, filled, and away from the page cache
file_system() {
	mkdir -p "$2"
	mkfs.ext4 -q -E nodiscard "$1" && mount -o discard "$1" "$2" && mounted+=("$2") && cp -a "$tree" "$2/" && umount "$2"
}

# compared DEVICE FOLDER
compared() {
	fsck.ext4 -fn "$1" >"$OUTPUT" 2>&1 && mount -o discard "$1" "$2" && diff -r --no-dereference "$tree" "$2/tree" >>"$OUTPUT" 2>&1
}

donors_start 2 192M --slab 16M
device_attach one 128M
ok $? "a device" || note "$(cat "$OUTPUT")"
one=$DEVICE
device_attach two 96M
ok $? "and another at the same time" || note "$(cat "$OUTPUT")"
two=$DEVICE
[ -n "$two" ] && [ "$one" != "$two" ]
ok $? "which is another"
timeout 10 "$FARPAGE" disk list >"$OUTPUT"
ok $? "both are listed"
expect "... with their paths" "1 1" "$(grep -c "$one\b" "$OUTPUT") $(grep -c "$two\b" "$OUTPUT")"

file_system "$one" "$DONORS_DIRECTORY/mnt1" &
copying=$!
file_system "$two" "$DONORS_DIRECTORY/mnt2"
ok $? "a file system with files on each"
wait $copying
ok $? "... at the same time"
compared "$one" "$DONORS_DIRECTORY/mnt1"
ok $? "the first's is whole" || note "$(head -5 "$OUTPUT")"
compared "$two" "$DONORS_DIRECTORY/mnt2"
ok $? "the second's, too" || note "$(head -5 "$OUTPUT")"

device_detach one
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "a mounted device is not detached"
expect "... and one line says why" 1 "$(wc -l <"$OUTPUT")"
note "$(cat "$OUTPUT")"
rm -r "$DONORS_DIRECTORY/mnt1/tree" && sync
ok $? "it is used on"

umount "$DONORS_DIRECTORY/mnt1" && umount "$DONORS_DIRECTORY/mnt2"
ok $? "both are unmounted"
device_detach one
ok $? "and detached: one" || note "$(cat "$OUTPUT")"
"$FARPAGE" disk list >"$OUTPUT"
expect "... the other stays" "0 1" "$(grep -cw one "$OUTPUT") $(grep -cw two "$OUTPUT")"
device_detach two
ok $? "and the other" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
