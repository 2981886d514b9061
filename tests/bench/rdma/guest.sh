#!/bin/bash
# guest.sh PART BUILD [WORD...]: one part of rdma.py's measurements, inside a virtual machine. Prints "name value" lines.
#   fabric ROUNDS      perftest's ib_read_lat and ib_read_bw, and the fabric's own reads and writes, alternately
#   far ROUNDS         far faults over rdma:// without any eviction, and their parts: ib_read_lat and the bare
#                      userfaultfd, alternately
#   touch DEVICE LOCAL_MIB SIZE_MIB SECONDS THREADS
#                      the same program with LOCAL_MIB: on farpage-rdma, farpage-tcp, or swap on nvme-rdma, nvme-tcp
set -euo pipefail
. tests/vm/guest.sh
part=$1
build=$2
shift 2
. tests/bench/vm/devices.sh
program=$build/tests/bench/rdma

# perftest TOOL OPTION...: runs both sides. The last line of the table has the figures.
perftest() {
	local tool=$1 server
	shift
	"$tool" -d rxe0 -R -F "$@" >/dev/null 2>&1 &
	server=$!
	wait_for 5 listening_on 18515 || sleep 1
	"$tool" -d rxe0 -R -F "$@" "$address" 2>/dev/null | grep -v '^-' | tail -1
	wait $server
}

# perftest's server listens through the RDMA CM, which /proc/net does not show.
listening_on() {
	rdma resource show cm_id | grep -q "src-addr [^ ]*:$1 \|src-port $1\|:$1"
}

fabric() {
	local line round
	for ((round = 0; round < $1; round++)); do
		line=$(perftest ib_read_lat -s 4096 -n 5000)
		say perftest_read_us "$(awk '{print $5}' <<<"$line")"
		"$program/bench_verbs" "rdma://$address:0" 2 "$([ "$round" = 0 ] && echo 100000 || echo 1)"
		# Prints reads of 4 KiB in MiB a second: 256 pages are a MiB.
		line=$(perftest ib_read_bw -s 4096 -n 20000 -t 32 -q 1)
		say perftest_read32_pages_s "$(awk '{print $4 * 256}' <<<"$line")"
	done
}

# Prints the donor's utime plus stime, in ms.
donor_cpu_ms() {
	awk '{sub(/.*\) /, ""); print ($12 + $13) * 10}' "/proc/$donor_pid/stat"
}

far() {
	local line round
	donor "rdma://$address:0" 512M
	for ((round = 0; round < $1; round++)); do
		line=$(perftest ib_read_lat -s 4096 -n 5000)
		say perftest_read_us "$(awk '{print $5}' <<<"$line")"
		"$build/tests/bench/pager/bench_far" --faults "$donor_uri"
	done
}

touch_on() {
	local device=$1 local_mib=$2 size=$3 seconds=$4 threads=$5 before
	case $device in
	farpage-*)
		donor "${device#farpage-}://$address:0" 512M
		before=$(donor_cpu_ms)
		"$build/bin/farpage" run --local "${local_mib}M" --donor "$donor_uri" -- \
			"$program/touch" "$size" "$seconds" "$threads"
		say donor_cpu_ms $(($(donor_cpu_ms) - before))
		;;
	nvme-*)
		nvme_device "${device#nvme-}" 400
		swap_to "$device"
		with_local "$local_mib" "$program/touch" "$size" "$seconds" "$threads"
		;;
	esac
}

ulimit -l unlimited
rxe_up
case $part in
fabric) fabric "$@" ;;
far) far "$@" ;;
touch) touch_on "$@" ;;
*) guest_fail "no part $part" ;;
esac
