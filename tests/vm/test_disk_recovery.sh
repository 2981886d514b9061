#!/bin/bash
# test_disk_recovery.sh: in one machine, the daemon of a ublk device over rdma:// is killed, started anew and replaced.
# In the meantime programs read, write and discard pages, and copy files to the device. No request fails, no page is
# wrong. The device with the files is encrypted and has a backup. All files are still there when all donors have died.
# The backup holds no plain text of the files.
. tests/vm/guest.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk
. tests/vm/swap.sh
rxe_up
swap_modules ublk_drv ext4
said=/run/blocks

# kill_under_load JOB: kills the worker twice; kills keeper and worker, and adopts the device; then replaces the daemon.
kill_under_load() {
	local worker pids
	for _ in first second; do
		worker=$(device_worker disk)
		daemon_kill "$worker"
		wait_for 10 device_worker_new disk "$worker"
		ok $? "the keeper starts another worker after one is killed under load"
		check "the new worker serves the device" wait_for 10 device_serves
	done
	mapfile -t pids < <(device_pids disk)
	daemon_kill "${pids[@]}"
	timeout 10 "$FARPAGE" disk list >"$OUTPUT" 2>&1
	matches "disk list shows a device whose keeper and worker are killed" "disk" "$(cat "$OUTPUT")"
	note "$(cat "$OUTPUT")"
	timeout 20 "$FARPAGE" disk adopt disk >"$OUTPUT" 2>&1
	ok $? "disk adopt adopts a device whose keeper and worker are killed" || note "$(cat "$OUTPUT")"
	check "the daemon that adopted the device serves it" wait_for 10 device_serves
	mapfile -t pids < <(device_pids disk)
	timeout 20 "$FARPAGE" disk adopt disk >"$OUTPUT" 2>&1
	ok $? "disk adopt replaces a daemon that serves its device" || note "$(cat "$OUTPUT")"
	check "the old daemon ends after disk adopt" wait_for 10 processes_ended "${pids[@]}"
	check "the daemon that replaced another serves the device" wait_for 10 device_serves
	check "the load runs on while daemons are killed and replaced" kill -0 "$1"
}

device_serves() {
	timeout 5 dd if="$DEVICE" of=/dev/null bs=4096 count=1 skip=100 iflag=direct 2>/dev/null
}

device_writes() {
	awk '{ print $5 }' "/sys/block/${DEVICE#/dev/}/stat"
}

donors_start 2 192M --slab 16M
check "disk attach attaches a device over rdma://" device_attach disk 192M || note "$(cat "$OUTPUT")"
mkfifo /run/go
"$FARPAGE_BLOCKS" "$DEVICE" 12 fill until check >$said </run/go &
job=$!
exec 9>/run/go
wait_for 20 said "^fill " $said $job
kill_under_load $job
exec 9>&-
wait $job
expect "blocks finds no page wrong after the daemons were killed" 0 $?
expect "no request of blocks fails while daemons are killed" \
	"0 0" "$(blocks_of failed $said until) $(blocks_of failed $said check)"
note "$(cat $said)"

# The same under fio, which has several requests under way.
worker=$(device_worker disk)
DEVICE=$DEVICE SIZE=16M timeout 90 fio tests/func/blockdev/verify.fio >/run/fio 2>&1 &
job=$!
writes=$(device_writes)
wait_for 20 eval '[ "$(device_writes)" -gt $((writes + 50)) ]'
kill -KILL "$worker" && kill -0 $job
ok $? "fio runs when the worker is killed"
wait $job
status=$?
expect "fio finds every block right after the worker was killed" 0 $status
[ $status -eq 0 ] || note "$(grep -v '^ ' /run/fio)"

mapfile -t pids < <(device_pids disk)
daemon_kill "${pids[@]}"
check "disk detach removes a device whose daemon is dead" device_detach disk || note "$(cat "$OUTPUT")"
expect_nothing_left 15

# device_says WORD: prints a field of disk list --json.
device_says() {
	timeout 5 "$FARPAGE" disk list --json |
		/usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["disks"][0][sys.argv[1]])' "$1"
}

device_backed_up() {
	[ "$(device_says pages_behind)" = 0 ]
}

tree=/run/tree plain="plain text that no other file has"
mkdir -p $tree /run/mnt
cp -a client fabric $tree
yes "$plain" | head -c 1000000 >$tree/plain
head -c 3000001 /dev/urandom >$tree/random
device_attach disk 192M --encrypt --backup /run/backup
ok $? "disk attach attaches an encrypted device with a backup" || note "$(cat "$OUTPUT")"
mkfs.ext4 -q "$DEVICE" && mount -o discard "$DEVICE" /run/mnt
ok $? "the device takes an ext4 file system"
cp -a $tree /run/mnt/ &
job=$!
wait_for 10 test -e /run/mnt/tree
daemon_kill "$(device_worker disk)"
wait $job && sync -f /run/mnt
ok $? "cp and sync succeed although the worker is killed meanwhile"
mapfile -t pids < <(device_pids disk)
daemon_kill "${pids[@]}"
umount /run/mnt &
job=$!
timeout 20 "$FARPAGE" disk adopt disk >"$OUTPUT" 2>&1
ok $? "disk adopt adopts a device whose daemon is killed during umount" || note "$(cat "$OUTPUT")"
wait $job
ok $? "umount succeeds after the device is adopted"
fsck.ext4 -fn "$DEVICE" >"$OUTPUT" 2>&1 && mount -o ro "$DEVICE" /run/mnt && diff -r --no-dereference $tree /run/mnt/tree >>"$OUTPUT" 2>&1
ok $? "the file system is in order, and all files are the same" || note "$(head -5 "$OUTPUT")"
wait_for 20 device_backed_up
ok $? "the backup has all pages within 20 s" || note "$(timeout 5 "$FARPAGE" disk list --json 2>&1)"
expect "the backup holds no plain text of the files" 0 "$(grep -ac "$plain" /run/backup)"
donor_kill 0
donor_kill 1
echo 3 >/proc/sys/vm/drop_caches
diff -r --no-dereference $tree /run/mnt/tree >"$OUTPUT" 2>&1
ok $? "all files are still the same when all donors are dead" || note "$(head -5 "$OUTPUT")"
reads=$(device_says backup_reads)
[ "$reads" -gt 0 ]
ok $? "the device reads pages from the backup ($reads)"
mount -o remount,rw /run/mnt && cp -a $tree /run/mnt/again && sync -f /run/mnt
ok $? "cp and sync succeed when all donors are dead"
daemon_kill "$(device_worker disk)"
echo 3 >/proc/sys/vm/drop_caches
diff -r --no-dereference $tree /run/mnt/again >"$OUTPUT" 2>&1 && umount /run/mnt && fsck.ext4 -fn "$DEVICE" >>"$OUTPUT" 2>&1
ok $? "files written without donors are the same after the worker is killed" || note "$(head -5 "$OUTPUT")"
writes=$(device_says backup_writes)
[ "$writes" -gt 0 ]
ok $? "the device writes pages to the backup alone ($writes)"
check "disk detach removes the device without donors" device_detach disk || note "$(cat "$OUTPUT")"
expect "no device, process or backup file is left" "" "$(device_left; ls /run/backup 2>/dev/null)"
tap_done
