#!/bin/bash
# test_files.sh: two devices at once, each with a file system and a tree of files. After unmount, fsck and mount the
# files are the same. A device in use is not detached.
. tests/func/blockdev/device.sh
device_require mkfs.ext4 fsck.ext4
grep -qw ext4 /proc/filesystems || modprobe ext4 2>/dev/null || skip_all "the kernel has no ext4"

# The tree of files: this checkout's sources, and files with holes and of odd lengths.
tree=$FOLDER/tree
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
at_exit unmount_all

# file_system DEVICE FOLDER: makes a file system, copies the tree to it, and unmounts it, which empties the page cache
file_system() {
	mkdir -p "$2"
	mkfs.ext4 -q -E nodiscard "$1" && mount -o discard "$1" "$2" && mounted+=("$2") && cp -a "$tree" "$2/" && umount "$2"
}

# compared DEVICE FOLDER: checks and mounts the file system, and compares its files with the tree
compared() {
	fsck.ext4 -fn "$1" >"$OUTPUT" 2>&1 && mount -o discard "$1" "$2" && diff -r --no-dereference "$tree" "$2/tree" >>"$OUTPUT" 2>&1
}

donors_start 2 192M --slab 16M
check "a first device attaches" device_attach one 128M || note "$(cat "$OUTPUT")"
one=$DEVICE
check "a second device attaches beside the first" device_attach two 96M || note "$(cat "$OUTPUT")"
two=$DEVICE
[ -n "$two" ] && [ "$one" != "$two" ]
ok $? "the second device has another path"
timeout 10 "$FARPAGE" disk list >"$OUTPUT"
ok $? "disk list succeeds with two devices"
expect "disk list has each device's path once" "1 1" "$(grep -c "$one\b" "$OUTPUT") $(grep -c "$two\b" "$OUTPUT")"

file_system "$one" "$FOLDER/mnt1" &
copying=$!
file_system "$two" "$FOLDER/mnt2"
ok $? "the second device takes a file system with files"
wait $copying
ok $? "the first device takes a file system with files at the same time"
check "the first device's files are the same after fsck and mount" compared "$one" "$FOLDER/mnt1" || note "$(head -5 "$OUTPUT")"
compared "$two" "$FOLDER/mnt2"
ok $? "the second device's files are the same after fsck and mount" || note "$(head -5 "$OUTPUT")"

fails "detach refuses a mounted device" device_detach one
expect "detach of a mounted device prints one line" 1 "$(wc -l <"$OUTPUT")"
note "$(cat "$OUTPUT")"
rm -r "$FOLDER/mnt1/tree" && sync
ok $? "a mounted device can be used after a refused detach"

umount "$FOLDER/mnt1" && umount "$FOLDER/mnt2"
ok $? "both file systems can be unmounted"
check "detach removes the first device" device_detach one || note "$(cat "$OUTPUT")"
"$FARPAGE" disk list >"$OUTPUT"
expect "disk list has only the second device" "0 1" "$(grep -cw one "$OUTPUT") $(grep -cw two "$OUTPUT")"
check "detach removes the second device" device_detach two || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
