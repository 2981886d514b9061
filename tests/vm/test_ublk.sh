#!/bin/bash
# test_ublk.sh UBLK_DISK: in one machine, ublk devices over pages in a file (ublk_disk.c). Checks their properties and
# contents. Checks devices and requests under way when their server dies or leaves.
. tests/vm/guest.sh
. tests/lib/tap.sh
ublk=$1

# server NAME VERB...: starts ublk_disk in the background. Sets pid, device and number.
server() {
	local name=$1
	shift
	"$ublk" "$@" >"/run/$name.out" 2>"/run/$name.err" &
	pid=$!
	wait_for 20 grep -q ublkb "/run/$name.out" || guest_fail "$name: $(cat "/run/$name.err")"
	read -r device <"/run/$name.out"
	number=${device#/dev/ublkb}
}

# fio_start DEVICE [IODEPTH [OPTION...]]: starts verified writes in the background. When a server is killed, some of
# these writes are in flight, and they must not be lost.
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

# --- Without driver or rights
"$ublk" start 64M /dev/shm/pages >/run/refused 2>&1
expect "ublk_disk start fails without the driver" 1 $?
matches "ublk_disk start without the driver says how to load it" "modprobe ublk_drv" "$(head -1 /run/refused)"
modprobe -a ublk_drv ext4 || guest_fail "the kernel has no ublk"
setpriv --reuid 65534 --regid 65534 --clear-groups "$ublk" clear 0 >/run/refused 2>&1
expect "ublk_disk clear fails without rights" 1 $?
matches "ublk_disk clear says that it takes root" "takes root" "$(head -1 /run/refused)"
"$ublk" adopt 0 64M /dev/shm/pages >/run/refused 2>&1
matches "ublk_disk adopt names a device that does not exist" "no ublk device 0" "$(head -1 /run/refused)"
"$ublk" clear 0 >/run/refused 2>&1
matches "ublk_disk clear reports a device that does not exist" "No such file" "$(cat /run/refused)"

# --- One device
server one start 64M /dev/shm/pages
limits=$(cd "/sys/block/ublkb$number/queue" && cat logical_block_size physical_block_size discard_granularity rotational fua \
	write_cache scheduler nr_requests | xargs)
expect "the device has the block sizes, cache and queue limits that it should have" \
	"4096 4096 4096 0 0 write through [none] mq-deadline 63" "$limits"
expect "the device has a size of 64 MiB" $((64 << 20)) "$(blockdev --getsize64 "$device")"

for pattern in randwrite randtrimwrite; do
	fio --output=/run/fio --name=mixed --filename="$device" --direct=1 --ioengine=io_uring --verify=crc32c --verify_fatal=1 \
		--rw=$pattern --bsrange=4k-512k --size=40M --iodepth=32
	ok $? "fio verifies $pattern of 4 KiB to 512 KiB on a device" || note "$(tail -20 /run/fio)"
done
blkdiscard -o 1M -l 2M "$device" && cmp -i 1M -n 2M "$device" /dev/zero
ok $? "a discarded part of the device reads as zeroes"
cmp -s -i 4K -n 1M "$device" /dev/zero
expect "the part before a discarded part does not read as zeroes" 1 $?
blkdiscard "$device"
expect "a wholly discarded device takes no memory" 0 "$(du -k /dev/shm/pages | cut -f1)"

mkfs.ext4 -q "$device" && mount -o discard "$device" /mnt
cp -a tests /mnt/tree
kill -TERM $pid
check "the server of a mounted device says busy and does not remove the device" wait_for 5 grep -q busy /run/one.out
diff -r tests /mnt/tree >/run/diff
ok $? "a busy device still serves its files" || note "$(head /run/diff)"
umount /mnt && fsck.ext4 -fn "$device" >/run/fsck 2>&1
ok $? "fsck finds the file system in order" || note "$(cat /run/fsck)"
kill -TERM $pid
wait $pid
ok $? "the server removes a device that is not in use"
check "no device file is left of a removed device" no_devices || note "$(cat /run/left)"

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
ok $? "fio finds every write when the server is killed three times and adopted" || note "$(tail -20 /run/fio)"
"$ublk" adopt "$number" 64M /dev/shm/pages >/run/refused 2>&1
matches "ublk_disk adopt refuses a device that is served" "is served by process $pid" "$(head -1 /run/refused)"
kill -KILL $pid
wait $pid 2>/dev/null
"$ublk" adopt "$number" 32M /dev/shm/other >/run/refused 2>&1
matches "ublk_disk adopt refuses a device of another size" "it is another one" "$(head -1 /run/refused)"
rm -f /dev/shm/other

mkdir /run/folder
touch /run/folder/fetching
UBLK_FOLDER=/run/folder "$ublk" adopt "$number" 64M /dev/shm/pages >/run/refused 2>&1
matches "ublk_disk adopt refuses a device whose last server died while it adopted" \
	"died while it was adopting.*detach" "$(head -1 /run/refused)"
rm /run/folder/fetching
export UBLK_FOLDER=/run/folder

# The server dies while it has all tags of a queue.
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
ok $? "a device whose server died with a full queue is adopted within 8 s ($took ms)"
expect "no note of the adopt is left in the folder" "" "$(ls /run/folder)"
wait $fio
ok $? "all requests of a full queue are answered after the adopt" || note "$(tail -20 /run/fio)"

mkfs.ext4 -q "$device" && mount "$device" /mnt
kill -KILL $pid
wait $pid 2>/dev/null
"$ublk" clear "$number" 2>/run/refused
matches "ublk_disk clear refuses a mounted device without a server" "busy" "$(cat /run/refused)"
server last adopt "$number" 64M /dev/shm/pages
umount /mnt
kill -KILL $pid
wait $pid 2>/dev/null
check "ublk_disk clear removes a device without a server" "$ublk" clear "$number"
check "no device file is left of a cleared device" no_devices || note "$(cat /run/left)"

# The server dies at several moments of adopting. Uses one queue. With more queues, kernels before 6.16 have a moment
# after which no server can adopt the device.
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
ok $? "fio finds every write when servers are killed at five moments of adopting" || note "$(tail -20 /run/fio)"
kill -TERM $pid
wait $pid
ok $? "the last server removes the device that it adopted"

# --- Its server leaves and comes back, while another server has a second device
server one start 64M /dev/shm/other
pid_one=$pid device_one=$device
fio --output=/run/fio.one --name=one --filename="$device_one" --direct=1 --ioengine=psync --rw=randwrite --bs=4k --size=16M \
	--verify=crc32c --verify_fatal=1 &
fio_one=$!
server two upgrades 64M /dev/shm/pages 10
fio_start "$device"
wait $fio
ok $? "fio finds every write when the server leaves and adopts its device" || note "$(tail -20 /run/fio)"
wait_for 30 grep -q upgraded /run/two.out
ok $? "the server leaves and adopts its device ten times" || note "$(cat /run/two.err)"
wait $fio_one
ok $? "fio finds every write on another device at the same time" || note "$(tail -20 /run/fio.one)"
mkswap "$device" >/run/swap && swapon "$device"
kill -TERM $pid
check "the server of a swap device says busy and does not remove the device" wait_for 5 grep -q busy /run/two.out
swapoff "$device"
kill -TERM $pid $pid_one
wait $pid && wait $pid_one
ok $? "two servers remove their devices when they are not in use"

# --- Leaks
matches "25 devices, one after the other, leak no descriptor and no memory" \
	"25 cycles, 0 descriptors and 0 KiB more" "$("$ublk" cycles 25 2>&1)"
check "no device file is left of 25 devices" no_devices || note "$(cat /run/left)"
expect "the kernel log has no warning, hang or I/O error" \
	"" "$(dmesg | grep -E 'WARNING|BUG|Oops|hung|I/O error|lost' | head -5)"
tap_done
