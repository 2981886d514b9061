#!/bin/busybox sh
# The initrd's /init. Mounts the host's / (9p, read-only) with a tmpfs over it as the guest's /. Then runs
# guest_init.sh.
b=/bin/busybox
fail() {
	echo "farpage-vm: $*"
	$b poweroff -f
}
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev 2>/dev/null
for module in $($b cat /modules/order); do
	$b insmod "/modules/$module" || echo "farpage-vm: insmod $module failed"
done
p9="trans=virtio,version=9p2000.L,msize=512000"
$b mount -t 9p -o "$p9,cache=loose,ro" host /host || fail "cannot mount the host's /"
$b mount -t tmpfs -o size=75% overlay /overlay
$b mkdir -p /overlay/upper /overlay/work
$b mount -t overlay -o lowerdir=/host,upperdir=/overlay/upper,workdir=/overlay/work,xino=off overlay /new ||
	fail "cannot lay the overlay"
$b mkdir -p /new/proc /new/sys /new/dev /new/vm
$b mount --move /proc /new/proc
$b mount --move /sys /new/sys
$b mount --move /dev /new/dev
$b mount -t 9p -o "$p9,cache=none" vm /new/vm || fail "cannot mount the directory shared with the host"
exec $b switch_root /new /bin/bash /vm/guest_init.sh
