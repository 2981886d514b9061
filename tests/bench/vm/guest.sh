#!/bin/bash
# guest.sh PEER BUILD SECONDS: measures one peer of peers.py inside a virtual machine. Makes the peer's block device,
# fills it, runs fio on it, and swaps to it. Prints "name value" lines, and fio's reports as "fio_JOB {...}".
set -euo pipefail
. tests/vm/guest.sh
peer=$1
build=$2
seconds=$3
. tests/bench/vm/devices.sh

SIZE_MIB=256 # of the device
WORK_MIB=192
LOCAL_MIB=64

nbd_device() {
	modprobe nbd
	nbdkit --foreground --ipaddr "$address" memory "${SIZE_MIB}M" &
	device=/dev/nbd0
	wait_for 10 nbd-client "$address" "$device" >/run/nbd.out 2>&1 || guest_fail "no NBD device: $(cat /run/nbd.out)"
}

# rnbd_device Y|N: a RAM disk of this machine over rtrs from this machine. With Y the server withdraws the client's right
# to a buffer after each request, which is rtrs's default.
rnbd_device() {
	local modules=$VM_IMAGE/rnbd
	modprobe rdma_cm
	modprobe brd rd_nr=1 rd_size=$((SIZE_MIB * 1024))
	insmod "$modules/rtrs-core.ko"
	insmod "$modules/rtrs-server.ko" always_invalidate="$1"
	insmod "$modules/rtrs-client.ko"
	insmod "$modules/rnbd-server.ko"
	insmod "$modules/rnbd-client.ko"
	echo "sessname=bench path=ip:$address device_path=/dev/ram0" >/sys/class/rnbd-client/ctl/map_device ||
		guest_fail "no RNBD device"
	device=/dev/rnbd0
}

zram_device() {
	modprobe zram
	echo lz4 >/sys/block/zram0/comp_algorithm
	echo "${SIZE_MIB}M" >/sys/block/zram0/disksize
	device=/dev/zram0
}

null_device() {
	modprobe ublk_drv
	"$build/tests/bench/vm/null_ublk" "${SIZE_MIB}M" >/run/null.out 2>/run/null.err &
	wait_for 10 grep -q '^/dev/' /run/null.out || guest_fail "no null target: $(cat /run/null.err)"
	device=$(tail -1 /run/null.out)
}

# far_device OPTION...: attaches a disk of farpage.
far_device() {
	modprobe ublk_drv
	"$build/bin/farpage" disk attach --name bench --size "${SIZE_MIB}M" --frontend ublk "$@" >/run/attach.out ||
		guest_fail "no farpage disk"
	device=$(tail -1 /run/attach.out)
}

device_up() {
	case $peer in
	nvme-rdma | nvme-tcp) nvme_device "${peer#nvme-}" "$SIZE_MIB" ;;
	nbd) nbd_device ;;
	rnbd) rnbd_device Y ;;
	rnbd-trusting) rnbd_device N ;;
	zram) zram_device ;;
	null) null_device ;;
	farpage-memory) far_device --memory ;;
	farpage-rdma | farpage-tcp)
		donor "${peer#farpage-}://$address:0" 512M
		far_device --donor "$donor_uri"
		;;
	*) guest_fail "no peer $peer" ;;
	esac
}

# fio_on OPTION...
fio_on() {
	fio --name=bench --filename="$device" --direct=1 --buffer_compress_percentage=50 --output-format=json "$@" |
		sed -n '/^{/,$p' | tr -d '\n'
}

fio_job() {
	local job=$1
	shift
	say "fio_$job" "$(fio_on --bs=4k --time_based --runtime="$seconds" "$@")"
}

# Some peers read pages that were never written at no cost, so all pages are written first.
measure_fio() {
	fio_on --rw=write --bs=64k --ioengine=io_uring --iodepth=4 >/dev/null
	fio_job qd1_read --rw=randread --ioengine=psync
	fio_job qd32_read --rw=randread --ioengine=io_uring --iodepth=32
	fio_job qd1_write --rw=randwrite --ioengine=psync
	fio_job qd32_write --rw=randwrite --ioengine=io_uring --iodepth=32
}

measure_swap() {
	local threads
	swap_to "$device"
	for threads in 1 4; do
		with_local "$LOCAL_MIB" "$build/tests/bench/rdma/touch" "$WORK_MIB" "$seconds" "$threads" | sed "s/^/touch${threads}_/"
	done
}

say kernel "$(uname -r)"
say processor "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
case $peer in *-rdma | *-tcp | nbd | rnbd*) rxe_up ;; esac
device_up
measure_fio
# The null target stores nothing, so it cannot be swap space.
[ "$peer" = null ] || measure_swap
