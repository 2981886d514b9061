#!/bin/bash
# test_ublk.sh UBLK_DISK: in one machine, ublk devices over pages in a file (ublk_disk.c): what they say, what they keep,
# what becomes of them and of what is under way when their server dies or leaves.
. tests/vm/guest.sh
. tests/func/preload/tap.sh
ublk=$1

# server NAME VERB...: an ublk_disk, in the background; sets pid and device.
server() {
	local name=$1
	shift
	"$ublk" "$@" >"/run/$name.out" 2>"/run/$name.err" &
	pid=$!
	wait_for 20 grep -q ublkb "/run/$name.out" || guest_fail "$name: $(cat "/run/$name.err")"
	read -r device <"/run/$name.out"
	number=${device#/dev/ublkb}
}

# Under way at its end are some of the writes, and they must not be lost.
fio_start() {
	fio --output=/run/fio --name=job --filename="$1" --direct=1 --ioengine=io_uring --verify=crc32c --verify_fatal=1 \
		--rw=randwrite --bsrange=4k-64k --size=32M --iodepth="${2:-128}" "${@:3}" &
	fio=$!
}

written() {
	[ "$(awk '{ print $7 }' "/sys/block/${device#/dev/}/stat")" -gt "$1" ]
}

busy() {
	[ "$(awk '{ print $1 + $2 }' "/sys/block/${device#/dev/}/inflight")" -ge "$1" ]
}

no_devices() {
	! ls /dev/ublk[bc]* >/run/left 2>&1
}

# --- Without what it takes
"$ublk" start 64M /dev/shm/pages >/run/refused 2>&1
expect "no driver: refused" 1 $?
matches "... with the next step" "modprobe ublk_drv" "$(head -1 /run/refused)"
modprobe -a ublk_drv ext4 || guest_fail "the kernel has no ublk"
setpriv --reuid 65534 --regid 65534 --clear-groups "$ublk" clear 0 >/run/refused 2>&1
expect "no rights: refused" 1 $?
matches "... with the next step" "takes root" "$(head -1 /run/refused)"
"$ublk" adopt 0 64M /dev/shm/pages >/run/refused 2>&1
matches "no such device to adopt" "no ublk device 0" "$(head -1 /run/refused)"
"$ublk" clear 0 >/run/refused 2>&1
matches "no such device to remove" "No such file" "$(cat /run/refused)"

# --- One device
server one start 64M /dev/shm/pages
limits=$(cd "/sys/block/ublkb$number/queue" && cat logical_block_size physical_block_size discard_granularity rotational fua \
	write_cache scheduler nr_requests | xargs)
expect "what the device says of itself" "4096 4096 4096 0 0 write through [none] mq-deadline 63" "$limits"
expect "its size" $((64 << 20)) "$(blockdev --getsize64 "$device")"

for pattern in randwrite randtrimwrite; do
	fio --output=/run/fio --name=mixed --filename="$device" --direct=1 --ioengine=io_uring --verify=crc32c --verify_fatal=1 \
		--rw=$pattern --bsrange=4k-512k --size=40M --iodepth=32
	ok $? "$pattern in mixed sizes, verified" || note "$(tail -20 /run/fio)"
done
blkdiscard -o 1M -l 2M "$device" && cmp -i 1M -n 2M "$device" /dev/zero
ok $? "discarded in part, that reads as zeroes"
cmp -s -i 4K -n 1M "$device" /dev/zero
expect "... and nothing else does" 1 $?
blkdiscard "$device"
expect "discarded, it takes no memory" 0 "$(du -k /dev/shm/pages | cut -f1)"

mkfs.ext4 -q "$device" && mount -o discard "$device" /mnt
cp -a tests /mnt/tree
kill -TERM $pid
wait_for 5 grep -q busy /run/one.out
ok $? "mounted: it is not removed"
diff -r tests /mnt/tree >/run/diff
ok $? "... and still serves its files" || note "$(head /run/diff)"
umount /mnt && fsck.ext4 -fn "$device" >/run/fsck 2>&1
ok $? "the file system is in order" || note "$(cat /run/fsck)"
kill -TERM $pid
wait $pid
ok $? "not in use: it is removed"
no_devices
ok $? "... and nothing is left" || note "$(cat /run/left)"

# --- Its server dies
server dying start 64M /dev/shm/pages 300
fio_start "$device"
for death in 1 2 3; do
	wait_for 20 written $((death * 6000))
	kill -KILL $pid
	wait $pid 2>/dev/null
	server "adopted$death" adopt "$number" 64M /dev/shm/pages 300
done
wait $fio
ok $? "killed three times under writes: nothing is lost" || note "$(tail -20 /run/fio)"
"$ublk" adopt "$number" 64M /dev/shm/pages >/run/refused 2>&1
matches "a device that is served is not adopted" "is served by process $pid" "$(head -1 /run/refused)"
kill -KILL $pid
wait $pid 2>/dev/null
"$ublk" adopt "$number" 32M /dev/shm/other >/run/refused 2>&1
matches "one of another size neither" "it is another one" "$(head -1 /run/refused)"
rm -f /dev/shm/other

mkdir /run/folder
touch /run/folder/fetching
UBLK_FOLDER=/run/folder "$ublk" adopt "$number" 64M /dev/shm/pages >/run/refused 2>&1
matches "nor one that would break this kernel" "died while it was adopting.*detach" "$(head -1 /run/refused)"
rm /run/folder/fetching
export UBLK_FOLDER=/run/folder

# All tags of a queue are with the server when it dies.
server stuck adopt "$number" 64M /dev/shm/pages 60000000
fio --output=/run/fio --name=stuck --filename="$device" --direct=1 --ioengine=io_uring --rw=randwrite --bs=4k --size=4M \
	--iodepth=200 --verify=crc32c --cpus_allowed=0 &
fio=$!
wait_for 20 busy 60
kill -KILL $pid
wait $pid 2>/dev/null
begin=${EPOCHREALTIME/./}
server quick adopt "$number" 64M /dev/shm/pages
took=$(((${EPOCHREALTIME/./} - begin) / 1000))
[ $took -lt 8000 ]
ok $? "killed with a queue full: adopted in $took ms, not after the requests' time is out"
expect "... nothing is noted any more" "" "$(ls /run/folder)"
wait $fio
ok $? "... and all of them are answered" || note "$(tail -20 /run/fio)"

mkfs.ext4 -q "$device" && mount "$device" /mnt
kill -KILL $pid
wait $pid 2>/dev/null
"$ublk" clear "$number" 2>/run/refused
matches "mounted and without server: it is not removed" "busy" "$(cat /run/refused)"
server last adopt "$number" 64M /dev/shm/pages
umount /mnt
kill -KILL $pid
wait $pid 2>/dev/null
"$ublk" clear "$number"
ok $? "without server, not mounted: it is removed"
no_devices
ok $? "... and nothing is left" || note "$(cat /run/left)"

# At whatever moment of adopting. (One queue: for several, kernels before 6.16 have a moment when none can follow.)
UBLK_QUEUES=1 server fresh start 64M /dev/shm/pages 300
fio_start "$device" 32
wait_for 20 written 2000
for moment in 0.01 0.03 0.06 0.1 0.15; do
	kill -KILL $pid
	wait $pid 2>/dev/null
	"$ublk" adopt "$number" 64M /dev/shm/pages 300 >/run/killed 2>&1 &
	pid=$!
	sleep $moment
done
kill -KILL $pid
wait $pid 2>/dev/null
server settled adopt "$number" 64M /dev/shm/pages
wait $fio
ok $? "killed while it adopts, at five moments: nothing is lost" || note "$(tail -20 /run/fio)"
kill -TERM $pid
wait $pid
ok $? "... and it is removed"

# --- Its server leaves and comes back; and a second device
server one start 64M /dev/shm/other
pid_one=$pid device_one=$device
fio --output=/run/fio.one --name=one --filename="$device_one" --direct=1 --ioengine=psync --rw=randwrite --bs=4k --size=16M \
	--verify=crc32c --verify_fatal=1 &
fio_one=$!
server two upgrades 64M /dev/shm/pages 10
fio_start "$device"
wait $fio
ok $? "left and adopted again under writes: nothing is lost" || note "$(tail -20 /run/fio)"
wait_for 30 grep -q upgraded /run/two.out
ok $? "... ten times" || note "$(cat /run/two.err)"
wait $fio_one
ok $? "another device at the same time" || note "$(tail -20 /run/fio.one)"
mkswap "$device" >/run/swap && swapon "$device"
kill -TERM $pid
wait_for 5 grep -q busy /run/two.out
ok $? "swapped to: it is not removed"
swapoff "$device"
kill -TERM $pid $pid_one
wait $pid && wait $pid_one
ok $? "not in use: both are removed"

# --- Leaks
matches "25 devices, one after the other" "25 cycles, 0 descriptors and 0 KiB more" "$("$ublk" cycles 25 2>&1)"
no_devices
ok $? "nothing is left of all that" || note "$(cat /run/left)"
expect "... and the kernel has not complained" "" "$(dmesg | grep -E 'WARNING|BUG|Oops|hung|I/O error|lost' | head -5)"
tap_done
