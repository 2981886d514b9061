#!/bin/bash
# image.sh [DRIVER...]: makes the image that guests boot from, unless there is one already, and prints its directory:
#
#   vmlinuz, initrd, kernel    Debian's stock kernel, a busybox initrd (initrd_init.sh), the kernel's version
#   modules/VERSION/           the kernel's modules, uncompressed, because an emulated processor unpacks them slowly
#   DRIVER/*.ko                drivers that Debian leaves out, built from Debian's source: siw (iWARP), rnbd (a block
#                              device over RDMA)
#   accel-*                    written by rig.py: says if KVM boots this kernel on this machine
#
# Packages come through this machine's own apt configuration. They are unpacked here, never installed. The name of the
# directory has the kernel's version and a hash of the scripts. The directory appears complete (rename) and is made
# once, also for several callers at the same time (flock). An image made before can be used without apt's lists.
# FARPAGE_VM_CACHE overrides the place: /var/cache/farpage/vm for root, ${XDG_CACHE_HOME:-~/.cache}/farpage/vm for
# others.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
series=6.12
PATH=$PATH:/usr/sbin:/sbin # users without rights find depmod and modprobe, too

if [ -n "${FARPAGE_VM_CACHE:-}" ]; then
	cache=$FARPAGE_VM_CACHE
elif [ "$(id -u)" -eq 0 ]; then
	cache=/var/cache/farpage/vm
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/farpage/vm
fi

fail() {
	echo "vm: $*" >&2
	exit 1
}

# Prints the package that the metapackage depends on today, or nothing if apt does not know.
kernel_package() {
	apt-cache depends "linux-image-$series-amd64" 2>/dev/null |
		sed -n 's/^ *|*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -1 || true
}

# fetch PACKAGE[=VERSION]...: downloads packages into $work/deb.
fetch() {
	echo "vm: fetching $*" >&2
	mkdir -p "$work/deb"
	(cd "$work/deb" && apt-get -qq -o APT::Sandbox::User=root download "$@") >&2 ||
		fail "apt-get could not fetch $*; is the network up, and does apt-get update succeed?"
}

# publish DIRECTORY NAME: moves a complete directory to the cache.
publish() {
	chmod 755 "$1"
	rm -rf "${cache:?}/$2"
	mv -T "$1" "$cache/$2"
}

make_image() {
	local package=$1 name=$2 new=$work/image modules version
	fetch "$package"
	dpkg-deb -x "$work"/deb/"$package"_*.deb "$work/kernel"
	version=$(basename "$work"/kernel/lib/modules/*)
	modules=$new/modules/$version
	mkdir -p "$new/modules"
	echo "$version" >"$new/kernel"
	cp "$work/kernel/boot/vmlinuz-$version" "$new/vmlinuz"
	mv "$work/kernel/lib/modules/$version" "$modules"
	# No guest has hardware for these drivers.
	rm -rf "$modules"/kernel/{sound,drivers/{gpu,media,hid,iio,staging,usb,scsi,net/{ethernet,wireless,usb}}}
	find "$modules" -name '*.ko.xz' -print0 | xargs -0 -P "$(nproc)" -n 64 xz -d
	mkdir -p "$work/root/lib"
	ln -s "$new/modules" "$work/root/lib/modules"
	depmod -b "$work/root" "$version" 2>/dev/null
	make_initrd "$new" "$version"
	publish "$new" "$name"
}

# Makes an initrd with the modules that mount this machine's / in the guest, and the order of loading them.
make_initrd() {
	local new=$1 version=$2 root=$work/initrd file
	mkdir -p "$root"/{bin,dev,proc,sys,modules,host,overlay,new}
	cp "$(command -v busybox)" "$root/bin/busybox"
	for module in 9p 9pnet_virtio overlay virtio_net; do
		modprobe -d "$work/root" -S "$version" --show-depends "$module"
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$work/order"
	while read -r file; do
		cp "$file" "$root/modules/"
		basename "$file"
	done <"$work/order" >"$root/modules/order"
	install -m 755 "$here/initrd_init.sh" "$root/init"
	(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0 | gzip -1) >"$new/initrd"
}

# The folders of each driver below drivers/ in the kernel's source. Debian's configuration does not set the settings, so
# make gets them as arguments.
declare -A driver_folders=(
	[siw]="infiniband/sw/siw"
	[rnbd]="infiniband/ulp/rtrs block/rnbd"
)
driver_settings=("CONFIG_RDMA_SIW=m" "CONFIG_INFINIBAND_RTRS"{,_CLIENT,_SERVER}"=m" "CONFIG_BLK_DEV_RNBD_"{CLIENT,SERVER}"=m")

# Unpacks headers and source of the image's kernel. The packages find each other side by side, except by one absolute
# path, which sed changes.
unpack_source() {
	local version=$1 flavour=linux-headers-$1 source
	source=$(apt-cache show "$flavour" 2>/dev/null | sed -n 's/^Version: //p' | head -1)
	[ -n "$source" ] || fail "apt does not know $flavour (any more): apt-get update, or remove $cache/$name"
	fetch "$flavour=$source" "linux-headers-${version%-*}-common=$source" "linux-kbuild-${version%-*}=$source" \
		"linux-source-$series=$source"
	for package in "$work"/deb/linux-{headers,kbuild,source}*.deb; do
		dpkg-deb -x "$package" "$work/build"
	done
	sed -i "s,/usr/src/,$work/build/usr/src/," "$work/build/usr/src/$flavour/Makefile"
}

make_driver() {
	local driver=$1 version folder drivers=$work/drivers
	local -a folders
	version=$(cat "$cache/$name/kernel")
	read -ra folders <<<"${driver_folders[$driver]}"
	[ -d "$work/build" ] || unpack_source "$version"
	rm -rf "$drivers"
	tar -xJf "$work/build/usr/src/linux-source-$series.tar.xz" -C "$work" --strip-components=1 \
		"${folders[@]/#/linux-source-$series/drivers/}"
	printf 'obj-m += %s/\n' "${folders[@]}" >"$drivers/Kbuild"
	echo "vm: building the driver $driver" >&2
	# rnbd includes headers of rtrs.
	if ! make -C "$work/build/usr/src/linux-headers-$version" M="$drivers" CC=gcc KCFLAGS="-I$drivers/infiniband/ulp/rtrs" \
		CONFIG_DEBUG_INFO_BTF_MODULES= "${driver_settings[@]}" modules >"$work/$driver.log" 2>&1; then
		cat "$work/$driver.log" >&2
		fail "the driver $driver could not be built for $version"
	fi
	mkdir "$work/$driver"
	for folder in "${folders[@]}"; do
		cp "$drivers/$folder"/*.ko "$work/$driver/"
	done
	publish "$work/$driver" "$name/$driver"
}

case $(uname -m) in x86_64) ;; *) fail "guests are made for x86_64 machines only" ;; esac
mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] || fail "cannot write to $cache"
exec 9>"$cache/lock"
flock 9
# Removes the remains of runs that were killed. The lock excludes other runs.
rm -rf "$cache"/work.*

command -v busybox >/dev/null || fail "busybox is missing: ./dev vm installs what guests need"
recipe=$(cat "$here"/image.sh "$here"/initrd_init.sh "$(command -v busybox)" | sha256sum | cut -c1-12)
package=$(kernel_package)
if [ -n "$package" ]; then
	name=${package#linux-image-}-$recipe
else
	# shellcheck disable=SC2012 # names of our own making
	name=$(cd "$cache" && ls -td -- *"-$recipe" 2>/dev/null | head -1 || true)
fi

missing=()
for driver; do
	[ "${driver_folders[$driver]:-}" ] || fail "no driver $driver: there are ${!driver_folders[*]}"
	[ -n "$name" ] && [ -d "$cache/$name/$driver" ] || missing+=("$driver")
done

if [ -z "$name" ] || ! [ -d "$cache/$name" ] || [ ${#missing[@]} -gt 0 ]; then
	work=$(mktemp -d "$cache/work.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	if [ -z "$package" ]; then
		apt-get -qq update >&2 || true
		package=$(kernel_package)
		[ -n "$package" ] || fail "apt knows no linux-image-$series-amd64: it is in Debian 12's security suite"
		name=${package#linux-image-}-$recipe
	fi
	[ -d "$cache/$name" ] || make_image "$package" "$name"
	for driver in "${missing[@]}"; do
		make_driver "$driver"
	done
fi
touch "$cache/$name"
# Removes images of other kernels and other scripts that have not been used for a week.
find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +7 -exec rm -rf {} +
echo "$cache/$name"
