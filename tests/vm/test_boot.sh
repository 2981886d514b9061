#!/bin/bash
# test_boot.sh BUILD: in one machine, systemd boots twice. farpage-swap@far makes swap space of a donor at each boot, and
# removes it at each shutdown. BUILD is the build folder.
#
# systemd is process 1 of a process namespace, with a mount namespace and a /run of its own. Its units are farpage's and
# those that any boot needs. So no other installed unit starts. /etc, the devices and the swap space are the
# machine's. The network is a unit that starts as late as NetworkManager's.
. tests/vm/guest.sh
. tests/vm/swap.sh
build=$1
units=/usr/local/lib/systemd/system
export SYSTEMD_UNIT_PATH=/etc/systemd/system:$units
swaps_at_network_stop=/root/swaps_at_network_stop

# --- The machine ---

machine_install() {
	local program unit
	for program in farpage farpage-blockdev farpage-memserver; do
		cp "$(readlink -f "$build/bin/$program")" /usr/local/bin/
	done
	mkdir -p $units /etc/farpage
	rm -rf /etc/systemd/system/*
	cp "$build"/config/farpage-*.service $units/
	for unit in {basic,final,local-fs,multi-user,network,network-online,poweroff,remote-fs,shutdown,slices,swap,sysinit,umount}.target \
		modprobe@.service systemd-poweroff.service; do
		cp "/lib/systemd/system/$unit" $units/
	done
	mkdir $units/service.d # there is no journal
	printf '[Service]\nStandardOutput=kmsg\nStandardError=kmsg\n' >$units/service.d/output.conf
	ln -s multi-user.target $units/default.target
	cat >$units/farnet.service <<END
[Unit]
Before=network.target network-online.target
Wants=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/ip address add 10.77.0.9/32 dev lo
ExecStop=/bin/sh -c 'grep -c ublk /proc/swaps >$swaps_at_network_stop; ip address del 10.77.0.9/32 dev lo'
[Install]
WantedBy=network-online.target
END
	systemd-sysusers "$PWD/config/farpage.sysusers" "$PWD/config/farpage-memserver.sysusers"
}

# Writes the files that an operator writes.
machine_configure() {
	local name
	"$FARPAGE" key /etc/farpage/key >&2 && chown farpage: /etc/farpage/key
	cat >/etc/farpage/farpage-memserver.ini <<END
[farpage-memserver]
listen = tcp://10.77.0.9:7470
donate = 128M
slab = 8M
reserve = 1M
key = /etc/farpage/key
END
	for name in swap-far blockdev-disk; do
		cat >/etc/farpage/$name.ini <<END
[farpage-blockdev]
size = 96M
overcommit = yes
donor = tcp://10.77.0.9:7470
key = /etc/farpage/key
END
	done
}

# Boots. Returns when the machine has reached its target. Descriptor 9 is the job's input, which only this script holds
# open: job_end closes it.
boot() {
	# shellcheck disable=SC2016 # expanded there
	unshare --pid --fork --mount --mount-proc bash -c 'mount -t tmpfs -o mode=755 tmpfs /run &&
		exec env -i container= PATH="$PATH" SYSTEMD_UNIT_PATH="$SYSTEMD_UNIT_PATH" SYSTEMD_GENERATOR_PATH=/nowhere \
			/lib/systemd/systemd --log-target=kmsg' </dev/null 9>&- &
	init=
	booted=$!
	wait_for 60 init_listens || guest_fail "systemd does not start: $(dmesg | tail -n 20)"
	inside timeout 120 systemctl start multi-user.target
}

# Finds the process that is process 1 in the namespace, and succeeds once systemctl can reach it.
init_listens() {
	[ -n "$init" ] || read -r init <"/proc/$booted/task/$booted/children"
	[ -S "/proc/$init/root/run/systemd/private" ]
}

# inside COMMAND...: runs a command as a user of the booted machine does.
inside() {
	nsenter -t "$init" -m -p "$@"
}

# Does the same as systemctl poweroff, but does not ask logind first.
shutdown_begin() {
	inside systemctl --no-block --job-mode=replace-irreversibly start poweroff.target
}

unit_is() {
	[ "$(inside systemctl is-active "$2" 2>/dev/null)" = "$1" ]
}

swap_is_on() {
	[[ $(</proc/swaps) == */dev/ublk* ]]
}

swap_is_off() {
	! swap_is_on
}

daemon_pids() {
	cat /sys/fs/cgroup/farpage-far/cgroup.procs
}

log_tell() {
	note "$(dmesg | grep -v 'speed is unknown' | tail -n "${1:-25}")"
}

sysctl -qw kernel.printk_devkmsg=on
swap_modules ublk_drv
min_free=$(cat /proc/sys/vm/min_free_kbytes)
machine_install
machine_configure
# Without readahead, so that only pages that are asked for come from swap.
sysctl -qw vm.page-cluster=0

# --- The first boot ---

systemctl enable -q farnet remote-fs.target farpage-memserver farpage-swap@far 2>$OUTPUT
ok $? "systemctl enables the donor and the swap space" || note "$(cat $OUTPUT)"
check "the machine boots" boot || log_tell
check "the machine swaps to the device after boot" swap_is_on || { log_tell 60; exit 1; }
check "the unit of the swap space is active" unit_is active farpage-swap@far
job_start 24 6 until until until check
ok $? "a job with less than half of its memory local fills its memory"
check "the job swaps pages in" job_works 300
job_next until
expect "no page of the job is wrong" "" "$(grep wrong "$JOB_SAID"; kill -0 $JOB 2>&1)"

daemons=$(daemon_pids)
inside systemctl stop farpage-swap@far
check "the unit fails to stop while memory has no room for the pages" unit_is failed farpage-swap@far
check "the machine swaps to the device after the failed stop" swap_is_on
expect "the failed stop ends no process of the daemon" "$daemons" "$(daemon_pids)"
inside systemctl start farpage-swap@far
ok $? "the unit starts again after the failed stop" || log_tell
expect "the device and its daemon are the same after this start" "$daemons" "$(daemon_pids)"

# --- The first shutdown ---

shutdown_begin
check "the shutdown begins to stop the unit" wait_for 60 unit_is deactivating farpage-swap@far || log_tell
check "the machine swaps to the device meanwhile" swap_is_on
expect "the network is up meanwhile" "" "$(cat $swaps_at_network_stop 2>/dev/null)"
sysctl -qw vm.page-cluster=3 # swapoff reads ahead
job_limit 80
check "the shutdown ends when there is room" wait_for 120 ended $booted || log_tell 60
expect "the network stopped after the machine had ceased to swap to the device" 0 "$(cat $swaps_at_network_stop)"
expect "no device is left after the shutdown" "" "$(find /dev -maxdepth 1 -name 'ublk[bc]*')"
expect "the kernel's reserves are as before" "$min_free" "$(cat /proc/sys/vm/min_free_kbytes)"
job_next until
expect "no page of the job is wrong after the shutdown" "" "$(grep wrong "$JOB_SAID"; kill -0 $JOB 2>&1)"

# --- The second boot: the donor comes late ---

has_tried_again() {
	[ "$(inside systemctl show --property=NRestarts --value farpage-swap@far)" -ge 1 ]
}
mount -o remount,rw / # systemd-shutdown has left the root read-only
systemctl disable -q farpage-memserver
check "the machine boots without the donor" boot || log_tell
check "the unit of the swap space goes on trying" wait_for 30 has_tried_again || log_tell
check "nothing is swap space without the donor" swap_is_off
inside systemctl start farpage-memserver
check "swap is back when the donor has come" wait_for 30 swap_is_on || log_tell
check "the unit is active again" wait_for 10 unit_is active farpage-swap@far
sysctl -qw vm.page-cluster=0
job_limit 6
check "the job swaps pages in after the second boot" job_works 300
sysctl -qw vm.page-cluster=3
job_limit 80
mapfile -t daemons < <(daemon_pids)
daemon_kill "${daemons[@]}"
inside systemctl stop farpage-swap@far
ok $? "the unit stops although the daemon was killed" || log_tell
check "nothing is swap space after the stop" swap_is_off
job_end
expect "the job ends with no page wrong" 0 $? || note "$(cat "$JOB_SAID")"

# The other unit that makes a device, with this unit's rights.
inside systemctl start farpage-blockdev@disk
ok $? "a unit makes a block device" || log_tell
disk=$(find /dev -maxdepth 1 -name 'ublkb*')
echo far >/run/block
dd if=/run/block of="$disk" conv=sync bs=4096 oflag=direct status=none
expect "the block device has what was written" far "$(dd if="$disk" bs=4096 count=1 iflag=direct status=none | head -c 3)"
inside systemctl stop farpage-blockdev@disk
expect "the block device goes with its unit" "" "$(find /dev -maxdepth 1 -name 'ublk[bc]*')"

shutdown_begin
check "the machine shuts down again" wait_for 120 ended $booted || log_tell 60
tap_done
