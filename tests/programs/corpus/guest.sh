# guest.sh KERNEL: boots a guest whose init fills a file in memory, and prints its sum.
set -e
mkdir -p root/bin root/dev root/tmp
cp "$(command -v busybox)" root/bin/busybox
cat >root/init <<'END'
#!/bin/busybox sh
/bin/busybox mount -t tmpfs -o size=160m tmpfs /tmp
/bin/busybox yes farpage | /bin/busybox head -c 100000000 >/tmp/file
/bin/busybox md5sum /tmp/file
/bin/busybox poweroff -f
END
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet) >initrd
exec qemu-system-x86_64 -accel tcg -m 256 -nodefaults -no-user-config -display none -no-reboot -serial stdio -kernel "$1" \
	-initrd initrd -append "console=ttyS0 quiet loglevel=0 panic=-1 nokaslr" </dev/null
