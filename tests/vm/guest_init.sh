#!/bin/bash
# A machine's init: sets up what programs expect of a running system, runs the command, reports its status, powers off.
# The root is the overlay that initrd_init.sh made. /vm holds guest_init.sh, environment and command, all from rig.py.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
. /vm/environment

# An emulated processor starts busybox, which is static, three times as fast as other programs.
busybox mount -t tmpfs tmpfs /run
busybox mkdir -p /dev/pts /dev/shm /run/lock
busybox mount -t devpts devpts /dev/pts
busybox mount -t tmpfs tmpfs /dev/shm
busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+memory +cpu" >/sys/fs/cgroup/cgroup.subtree_control
busybox mount -t debugfs debugfs /sys/kernel/debug
busybox ln -sfn /proc/self/fd /dev/fd
busybox ln -sfn fd/0 /dev/stdin
busybox ln -sfn fd/1 /dev/stdout
busybox ln -sfn fd/2 /dev/stderr
busybox mkdir -p /usr/lib/modules
busybox mount -o bind "$VM_IMAGE/modules" /usr/lib/modules
if [ -n "$VM_SHARE" ]; then
	busybox mkdir -p "$VM_SHARE"
	busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none share "$VM_SHARE"
fi
busybox hostname "$VM_NAME"
busybox ip link set lo up
ulimit -l unlimited
ulimit -c 0

# Links the ports by the names that rig.py gave them.
busybox mkdir -p /dev/virtio-ports
for port in /sys/class/virtio-ports/*; do
	read -r name <"$port/name"
	busybox ln -s "../${port##*/}" "/dev/virtio-ports/$name"
done
echo up >/dev/virtio-ports/control

# Prints the kernel stack of each process, 15 s before the rig ends a command that takes too long.
tell_stacks() {
	local process task
	sleep $((VM_TIMEOUT - 15))
	for process in /proc/[0-9]*; do
		# Skips kernel threads, whose parent is 2. Does not read command lines: a process that hangs may hold
		# that lock.
		[ "${process#/proc/}" = 2 ] || grep -q "^PPid:[[:space:]]*2$" "$process/status" && continue
		echo "process ${process#/proc/}: $(cat "$process/comm")"
		for task in "$process"/task/*; do
			sed "s/^/  ${task##*/} /" "$task/stack"
		done
	done
	dmesg | tail -n 20
} 2>&1
exec 3>/dev/virtio-ports/err # a port can be opened only once
[ "$VM_TIMEOUT" -lt 20 ] || tell_stacks >&3 &

cd "$VM_DIRECTORY" || exit
bash /vm/command </dev/null >/dev/virtio-ports/out 2>&3 3>&-
status=$?
read -r uptime _ </proc/uptime
echo "exit $status $uptime" >/dev/virtio-ports/control
busybox poweroff -f
