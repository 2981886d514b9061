# devices.sh: functions of the benchmarks in virtual machines. Sourced after tests/vm/guest.sh and rxe_up.
#
#   say NAME VALUE             a figure, for machines.py
#   donor URI SIZE             starts a donor of $build; sets donor_uri and donor_pid
#   nvme_device TRANSPORT MIB  a RAM disk of this machine over NVMe-oF (rdma, tcp) from this machine; sets device
#   swap_to DEVICE             it becomes the machine's swap space, read page by page
#   with_local MIB COMMAND...  in a control group with so much memory
#
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of this file, and of the script that sources it

. tests/lib/donor.sh

address=${RXE_ADDRESSES[0]%/*}

say() { echo "$1 $2"; }

donor() {
	FARPAGE_MEMSERVER=$build/bin/farpage-memserver donor_run 0 "$1" --donate "$2" --insecure
	donor_uri=${DONOR_URIS[0]} donor_pid=${DONOR_PIDS[0]}
}

nvme_device() {
	local transport=$1 subsystem=/sys/kernel/config/nvmet/subsystems/farpage port=/sys/kernel/config/nvmet/ports/1
	modprobe -a "nvmet-$transport" "nvme-$transport"
	modprobe brd rd_nr=1 rd_size=$(($2 * 1024))
	mount -t configfs none /sys/kernel/config 2>/dev/null || true
	mkdir "$subsystem" "$subsystem/namespaces/1" "$port"
	echo 1 >"$subsystem/attr_allow_any_host"
	echo -n /dev/ram0 >"$subsystem/namespaces/1/device_path"
	echo 1 >"$subsystem/namespaces/1/enable"
	echo ipv4 >"$port/addr_adrfam"
	echo "$transport" >"$port/addr_trtype"
	echo 4420 >"$port/addr_trsvcid"
	echo "$address" >"$port/addr_traddr"
	ln -s "$subsystem" "$port/subsystems/farpage"
	nvme connect -t "$transport" -a "$address" -s 4420 -n farpage >&2
	device=/dev/nvme0n1
	wait_for 10 test -b "$device" || guest_fail "no NVMe device over $transport"
}

swap_to() {
	mkswap "$1" >/dev/null
	swapon "$1"
	sysctl -qw vm.page-cluster=0
}

# With memory.max alone the kernel would kill the job while its pages are on their way out. So memory.max is a little
# above memory.high.
with_local() {
	local group=/sys/fs/cgroup/local
	mkdir -p "$group"
	echo "$1M" >"$group/memory.high"
	echo "$(($1 + 16))M" >"$group/memory.max"
	shift
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
}
