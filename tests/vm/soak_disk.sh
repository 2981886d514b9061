#!/bin/bash
# soak_disk.sh KILLS: in one machine, kills processes of a ublk device with --replicas 2 on four donors over tcp:// at
# random. A kill hits the worker, keeper and worker (then the device is adopted), a donor, or a donor and the worker. A
# killed donor starts anew and empty, at once or after some seconds. Before each kill every slab has two replicas.
#
# The device has three parts. Meanwhile fio writes and verifies one part, and the program `blocks` reads, writes,
# discards and checks another part. The third part is written once, and read at the end. No byte is wrong, no request
# fails. ./dev bench soak disk kills two hundred times.
. tests/vm/guest.sh
export FARPAGE_TEST_FRONTEND=ublk
. tests/vm/swap.sh
swap_modules ublk_drv
kills=$1
log=/run/device.log
said=/run/blocks
declare -A counts=([worker]=0 [keeper]=0 [donor]=0 [both]=0)
# The parts of the device, in MiB and in this order.
BLOCKS=8 FIO=8 COLD=8
# Other programs also load the processors of this emulated machine. The device must not give up a donor because of this
# load.
PATIENCE_MS=100000
GRACE=110

# --- Donors, numbers 1 to 4 -----------------------------------------------------------------------------------------

# Draws a donor that holds slabs of the device. Sets dead to its number.
donor_draw() {
	local first=$((RANDOM % 4)) i
	device_look
	for i in 0 1 2 3; do
		dead=$((1 + (first + i) % 4))
		[[ $status =~ \"${DONOR_URIS[$dead]}\"[^}]*\"leased_bytes\":\ *([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -gt 0 ] && return
	done
}

# --- The device -----------------------------------------------------------------------------------------------------

# Sets status to the output of disk list. Sleeps first, because an emulated processor starts programs slowly.
device_look() {
	sleep 0.2
	status=$(timeout 20 "$FARPAGE" disk list --json 2>&1)
}

# device_is WORD VALUE: succeeds if the last output has that value.
device_is() {
	[[ $status =~ \"$1\":\ *$2[^0-9] ]]
}

# device_number WORD: prints a number of the last output.
device_number() {
	[[ $status =~ \"$1\":\ *([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

device_whole() {
	device_look
	device_is slabs_lacking 0
}

# device_served_anew PID: succeeds if a worker other than PID serves the device.
device_served_anew() {
	device_look
	device_is pid '[0-9]+' && ! device_is pid "$1"
}

# Succeeds if the device has connected to the new donor, so it knows that it has no slab there, and each slab has its
# replicas.
device_rebuilt() {
	grep -q " has come" "$FOLDER/donor.$dead.err" && device_whole
}

device_writes() {
	awk '{ print $5 }' "/sys/block/${DEVICE#/dev/}/stat"
}

device_written() {
	[ "$(device_writes)" -ge "$1" ] || ! load_runs
}

# --- The load -------------------------------------------------------------------------------------------------------

# fio_part OFFSET SIZE OPTION...: runs fio on a part of the device, in MiB.
fio_part() {
	fio --name=part --filename="$DEVICE" --direct=1 --ioengine=libaio --offset="$1M" --size="$2M" --verify=crc32c \
		--verify_fatal=1 --verify_state_save=0 "${@:3}"
}

# Each round writes every block with new contents. It verifies a block soon after the write, and again at the end.
fio_rounds() {
	local round=0
	until [ -e /run/enough ]; do
		fio_part $BLOCKS $FIO --rw=randwrite --bssplit=4k/40:8k/15:20k/10:64k/25:256k/10 --iodepth=16 \
			--verify_backlog=100 --randseed=$((++round)) >/run/fio 2>&1 || return 1
		echo $round >/run/rounds
	done
}

# Starts the load with a fifth of a processor, because donors and device need more of an emulated one.
load_start() {
	mkdir /sys/fs/cgroup/load
	echo "20000 100000" >/sys/fs/cgroup/load/cpu.max
	mkfifo /run/go
	"$FARPAGE_BLOCKS" "$DEVICE" $BLOCKS fill until check >$said </run/go &
	blocks=$!
	exec 9>/run/go
	wait_for 60 said "^fill " $said $blocks
	fio_rounds &
	fio=$!
	echo $fio >/sys/fs/cgroup/load/cgroup.procs
	echo $blocks >/sys/fs/cgroup/load/cgroup.procs
}

load_runs() {
	kill -0 "$fio" 2>/dev/null && kill -0 "$blocks" 2>/dev/null
}

# --- Kills ----------------------------------------------------------------------------------------------------------

worker_dies() {
	local worker
	device_look
	worker=$(device_number pid)
	daemon_kill "$worker"
	wait_for 300 device_served_anew "$worker"
}

keeper_dies() {
	device_look
	daemon_kill "$(device_number keeper)" "$(device_number pid)"
	timeout 300 "$FARPAGE" disk adopt disk >"$OUTPUT" 2>&1 || note "$(cat "$OUTPUT")"
}

# kill_one KIND: kills, and waits until each slab has two replicas again.
kill_one() {
	case $1 in
	worker) worker_dies ;;
	keeper) keeper_dies ;;
	*)
		donor_draw
		donor_kill "$dead"
		[ "$1" != both ] || worker_dies
		sleep $((RANDOM % 2 * (RANDOM % 10))) # half of the donors start anew at once
		donor_again "$dead"
		wait_for 300 device_rebuilt || return 1
		;;
	esac
	wait_for 300 device_whole
}

# kill_next NUMBER: draws a kind of kill and carries it out. Returns 1 if the test cannot go on.
kill_next() {
	local kinds=(worker keeper donor both) kind begin
	kind=${kinds[RANDOM % 4]}
	# A keeper gives up if its worker dies six times in a row. A new keeper counts anew.
	[ $row -lt 4 ] || kind=keeper
	case $kind in
	worker | both) row=$((row + 1)) ;;
	keeper) row=0 ;;
	esac
	wait_for 300 device_written $(($(device_writes) + RANDOM % 200))
	begin=$SECONDS
	if ! kill_one "$kind" || ! load_runs; then
		note "kill $1, $kind: not whole after $((SECONDS - begin)) s, or the load has ended; lacking: $(device_number slabs_lacking)"
		return 1
	fi
	counts[$kind]=$((counts[$kind] + 1))
	[ $((SECONDS - begin)) -le "$longest" ] || longest=$((SECONDS - begin))
	note "$1 kills, the last of $kind in $((SECONDS - begin)) s; $SECONDS s, $(cat /run/rounds) rounds of fio"
}

donors_make tcp://127.0.0. --slab 1M --donate 48M --reserve 16M --grace "$GRACE"
DEVICE=$(timeout 300 "$FARPAGE" disk attach --name disk --size $((BLOCKS + FIO + COLD))M --frontend ublk "${DONORS[@]}" \
	--replicas 2 --log $log --timeout-ms $PATIENCE_MS 2>"$OUTPUT")
ok $? "disk attach attaches a device with two replicas" || { note "$(cat "$OUTPUT")" && tap_done; }
echo 0 >/run/rounds
fio_part $((BLOCKS + FIO)) $COLD --rw=write --bs=64k --do_verify=0 >/run/cold 2>&1
ok $? "fio writes the third part of the device once" || note "$(cat /run/cold)"
load_start
longest=0 done=0 row=0
while [ $done -lt "$kills" ] && kill_next $((done + 1)); do
	done=$((done + 1))
done
expect "each slab has two replicas again after each of $kills kills" "$kills" $done
[ $done = "$kills" ] || note "$(tail -n 40 $log)"
note "the load ends, at $SECONDS s"
touch /run/enough
echo >&9 # ends the step "until"; closing the pipe would not, because new donors hold the pipe open, too
wait $fio
ok $? "fio verifies all that it wrote" || note "$(cat /run/fio)"
wait $blocks
expect "blocks finds no page wrong" 0 $?
expect "no request of blocks fails" "0 0" "$(blocks_of failed $said until) $(blocks_of failed $said check)"
fio_part $((BLOCKS + FIO)) $COLD --rw=read --bs=64k >/run/cold 2>&1
ok $? "fio verifies the part that was written once" || note "$(cat /run/cold)"
expect "the kernel log has no warning, hang or I/O error" \
	"" "$(dmesg | grep -E 'WARNING|BUG|Oops|hung|I/O error' | head -5)"
expect "the device reports no lost page" 0 "$(device_look && device_number pages_lost)"
note "kills: worker ${counts[worker]}, keeper and worker ${counts[keeper]}, donor ${counts[donor]}, donor and worker ${counts[both]}"
note "longest until all was whole: $longest s; $(cat /run/rounds) rounds of fio, $SECONDS s"
note "$(cat $said)"
check "disk detach removes the device" device_detach disk || note "$(cat "$OUTPUT")"
expect_nothing_left 15
tap_done
