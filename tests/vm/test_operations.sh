#!/bin/bash
# test_operations.sh: two new operators follow docs/operations.md, from the packages to their removal. This script runs
# on the two machines of pair.py: a donor, and a client that swaps to it. ./dev package has built the packages.
#
# Each command that an operator types comes from the document (guide_command.py), with smaller sizes and without the
# donors that are not here. The machines have the addresses of the document. systemd is process 1 of a process namespace,
# with a mount namespace and a /run of its own, and starts all units of this Debian. A reboot shuts it down and starts
# another one.
#
# The client's operator types at both machines. Stand-ins for ssh and scp carry commands and files through /share.
. tests/vm/guest.sh
. tests/vm/swap.sh
. tests/vm/remote.sh

case $PWD in /tmp/*) guest_fail "the machine's systemd empties /tmp: clone the sources elsewhere" ;; esac

GUIDE=docs/operations.md
DONOR=10.0.0.7
CLIENT=10.0.0.20
SIZE=256M
substitutions=(-e "s/\b64G\b/$SIZE/" -e 's/ 7 8 9 / 7 /' -e '/^replicas = 2$/d'
	-e 's/^farpage bench .*/& --size 16M --seconds 0.1 --depths 1,8/')

# --- Machines ---------------------------------------------------------------------------------------------------------

# Removes what makes this Debian a container, and gives it the network.
machine_make() {
	rm -rf /usr/sbin/policy-rc.d /etc/systemd/system/* /var/log/journal
	ln -sf /bin/true /usr/bin/mandb # it would read all manual pages, for minutes
	rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin # apt would read all of Debian's, for a minute
	interface_up eth0 "$1/24"
	printf '#!/bin/bash\n. %q\nremote_run "$@"\n' "$PWD/tests/vm/remote.sh" >/usr/local/bin/ssh
	printf '#!/bin/bash\n. %q\nremote_copy "$@"\n' "$PWD/tests/vm/remote.sh" >/usr/local/bin/scp
	chmod +x /usr/local/bin/{ssh,scp}
}

boot() {
	# shellcheck disable=SC2016 # expanded there
	unshare --pid --fork --mount --mount-proc bash -c 'mount -t tmpfs -o mode=755 tmpfs /run && mount -t tmpfs tmpfs /tmp &&
		exec env -i container= PATH="$PATH" SYSTEMD_GENERATOR_PATH=/nowhere \
			/lib/systemd/systemd --log-target=kmsg --unit=multi-user.target' </dev/null 9>&- &
	init=
	booted=$!
	wait_for 60 init_listens || guest_fail "systemd does not start: $(dmesg | tail -n 20)"
	wait_for 120 booted_up || guest_fail "systemd does not reach its target: $(inside systemctl list-jobs)"
}

# Finds the process that is process 1 in the namespace, and succeeds once systemctl can reach it.
init_listens() {
	[ -n "$init" ] || read -r init <"/proc/$booted/task/$booted/children"
	[ -S "/proc/$init/root/run/systemd/private" ]
}

booted_up() {
	[ "$(inside systemctl is-active multi-user.target)" = active ]
}

# inside COMMAND: runs a command of bash as root of the booted machine does, who confirms all questions.
inside() {
	yes 2>/dev/null | nsenter -t "$init" -m -p env -i HOME=/root PATH="$PATH" TERM=dumb LANG=C.UTF-8 \
		VM_ADDRESS="$VM_ADDRESS" bash -c 'cd && eval "$1"' root "$*" 2>&1
}

reboot() {
	inside systemctl --no-block --job-mode=replace-irreversibly start poweroff.target
	wait_for 180 ended "$booted" || return
	mount -o remount,rw / # systemd-shutdown has left the root read-only
	mount -o remount,rw /share
	boot
}

donor_machine() {
	local number
	boot
	share_tell booted
	for ((number = 1; ; number++)); do
		until [ -e "/share/ask.$number" ]; do pause; done
		inside ". /share/ask.$number" >"/share/said.$number"
		share_tell "answer.$number" $?
	done
}

# --- Operators --------------------------------------------------------------------------------------------------------

# at WHERE COMMAND: runs a command on the machine donor or client. Leaves its output in SAID.
at() {
	if [ "$1" = donor ]; then
		SAID=$(remote_run root@$DONOR "$2")
	else
		SAID=$(inside "$2")
	fi
}

# typed WHERE LINE: an operator types the command of the document that begins with this line.
typed() {
	local command
	command=$(guide "$2") || exit 1
	at "$1" "$command"
}

# guide LINE: prints the command of the document that begins with this line, as it is typed here.
guide() {
	python3 -B tests/vm/guide_command.py $GUIDE "$1" | sed "${substitutions[@]}"
	[ "${PIPESTATUS[0]}" = 0 ]
}

# works WHERE LINE: checks that the command of the document succeeds.
works() {
	local begin=$SECONDS
	typed "$1" "$2"
	ok $? "on the $1: $2" || note "$SAID"
	note "took $((SECONDS - begin)) s"
	note "$SAID"
}

swap_is_on() {
	[[ $(</proc/swaps) == */dev/ublk* ]]
}


# --- The guide, from its beginning to its end -------------------------------------------------------------------------

install() {
	local donor_copy client_copy
	donor_copy=$(guide 'scp build-packages/*.deb root@10.0.0.7:')
	client_copy=$(guide 'scp build-packages/*.deb root@10.0.0.20:')
	at client "cd $VM_DIRECTORY && $donor_copy && $client_copy"
	ok $? "the packages are copied to both machines" || guest_fail "$SAID"
	# Both at the same time, because this takes a minute.
	(
		typed donor 'apt install ./farpage_*.deb ./farpage-memserver_*.deb libmicrohttpd12' || note "$SAID"
		share_tell installed
	) &
	works client 'apt install ./farpage_*.deb libmicrohttpd12'
	share_wait installed 300 >/dev/null
	at donor 'dpkg-query --show farpage-memserver'
	ok $? "on the donor: apt install"
	at donor 'systemctl is-active farpage-memserver'
	expect "installing the package starts no donor" inactive "$SAID"
	works client 'farpage key /etc/farpage/key'
	works client 'scp -p /etc/farpage/key root@10.0.0.7:/etc/farpage/key'
	works client 'ssh root@10.0.0.7 chown farpage: /etc/farpage/key'
}

donor_set_up() {
	works donor 'farpage doctor --donate 64G'
	works donor 'cat >/etc/farpage/farpage-memserver.ini <<END'
	works donor 'systemctl enable --now farpage-memserver'
	works donor 'systemctl status farpage-memserver'
	matches "systemctl status shows how much the donor lends" "Status: .lending" "$SAID"
	works donor 'journalctl -u farpage-memserver'
	matches "the donor's log says that it listens" "listening" "$SAID"
	works donor 'systemctl reload farpage-memserver'
}

client_set_up() {
	works client "printf 'auto://10.0.0.%d\\n' 7 8 9 >/etc/farpage/donors"
	works client 'cat >/etc/farpage/farpage.ini <<END'
	works client 'modprobe ublk_drv'
	# The first answer between emulated machines took longer than the command waits (1.5 s).
	wait_for 60 typed client 'farpage donors'
	ok $? "on the client: farpage donors" || note "$SAID"
	works client 'farpage doctor --swap 64G'
	works client 'farpage bench --donor @/etc/farpage/donors'
	works client 'cat >/etc/farpage/swap-far.ini <<END'
	works client 'systemctl enable --now farpage-swap@far'
	check "the client swaps to the device" swap_is_on
	works client 'farpage swap list'
	matches "swap list shows the device" "far" "$SAID"
}

watch_it() {
	works client 'farpage disk list'
	works client 'farpage donors holders auto://10.0.0.7'
	works client 'curl -s http://10.0.0.7:9470/metrics'
	matches "the donor serves metrics" "^farpage_" "$SAID"
	works client 'journalctl MESSAGE_ID=0fd577e9f08e4ed7917204ae38a716a0'
}

# Starts a job that has a third of its memory local, and checks every page that it touches until job_stop.
job_begin() {
	sysctl -qw vm.page-cluster=0 # so that only pages that are asked for come from swap
	job_start 24 8 until check
	ok $? "a job with a third of its memory local fills its memory"
	check "the job swaps pages in" job_works 300
}

job_stop() {
	check "the job swaps pages in, still" job_works 300
	job_next until 60
	check "the job ends" wait_for 300 ended "$JOB"
	job_end
	expect "the job has found all its pages right" 0 $? || note "$(cat "$JOB_SAID")"
}

restart() {
	check "the client shuts down and boots again" reboot
	check "swap is back after the boot" wait_for 60 swap_is_on
	works client 'farpage swap list'
}

# The packages of the next version differ in the number alone.
make_next_version() {
	local package folder=/run/next
	mkdir -p $folder/packages
	for package in farpage farpage-memserver; do
		dpkg-deb --raw-extract build-packages/${package}_*.deb $folder/$package
		sed -i 's/^Version: .*/&+next/' $folder/$package/DEBIAN/control
		dpkg-deb -Znone --build $folder/$package $folder/packages >/dev/null
	done
	rm -rf $folder/farpage{,-memserver}
	cp $folder/packages/*.deb /share/
}

upgrade() {
	local before
	make_next_version
	job_begin
	before=$(cat /sys/fs/cgroup/farpage-far/cgroup.procs)
	works donor 'rm farpage*.deb libfarpage*.deb'
	at donor 'cp /share/*.deb .'
	works donor 'apt install ./farpage_*.deb ./farpage-memserver_*.deb libmicrohttpd12'
	at donor 'journalctl -u farpage-memserver'
	matches "the running donor is replaced by the new program" "took over [1-9]" "$SAID"
	check "the job swaps pages in after the upgrade of the donor" job_works 300
	works client 'rm farpage*.deb libfarpage*.deb'
	at client 'cp /share/*.deb .'
	works client 'apt install ./farpage_*.deb libmicrohttpd12'
	expect "the upgrade leaves the device's processes alone" "$before" "$(cat /sys/fs/cgroup/farpage-far/cgroup.procs)"
	check "the job swaps pages in after the upgrade of the client" job_works 300
	works client 'farpage disk adopt far'
	job_stop
	works client 'farpage disk list'
}

# Prints what farpage has left on a machine.
LEFT='dpkg-query --show "*farpage*" 2>/dev/null
xargs -a /root/files ls -d 2>/dev/null
find /etc /run /dev /var/lib /var/log -name "*farpage*" -o -path "/dev/ublk[bc]*"
find /sys/fs/cgroup -maxdepth 1 -name "*farpage*"
systemctl list-units --all --plain --no-legend "farpage*"
ps -eo comm= | grep farpage
cat /proc/sys/vm/{min_free_kbytes,watermark_scale_factor}'

end_all() {
	local machine
	# Lists no folders, because other packages have most of these folders, too.
	for machine in donor client; do
		at $machine 'dpkg --listfiles farpage farpage-memserver 2>/dev/null |
			while read -r file; do [ -d "$file" ] || echo "$file"; done >files'
	done
	typed client 'apt purge farpage farpage-memserver'
	[ $? != 0 ] && swap_is_on
	ok $? "apt does not remove the package of a device that is in use" || note "$SAID"
	works client 'systemctl disable --now farpage-swap@far'
	expect "the client swaps to nothing any more" 1 "$(wc -l </proc/swaps)"
	works client 'farpage donors drain auto://10.0.0.7'
	works donor 'systemctl disable --now farpage-memserver'
	for machine in donor client; do
		works $machine 'apt purge farpage farpage-memserver'
		works $machine 'rm -r /etc/farpage'
	done
	at donor "$LEFT"
	expect "nothing is left on the donor" "$KERNEL_SETTINGS" "$SAID"
	at client "$LEFT"
	expect "nothing is left on the client" "$KERNEL_SETTINGS" "$SAID"
}

if [ "$VM_NAME" = donor ]; then
	export VM_ADDRESS=$DONOR
	machine_make $DONOR
	donor_machine
	exit
fi
export VM_ADDRESS=$CLIENT
machine_make $CLIENT
KERNEL_SETTINGS=$(cat /proc/sys/vm/{min_free_kbytes,watermark_scale_factor})
boot
share_wait booted 180 >/dev/null
for part in ${PARTS:-install donor_set_up client_set_up watch_it job_begin job_stop restart upgrade end_all}; do
	note "$part, at $SECONDS s"
	$part
done
tap_done
