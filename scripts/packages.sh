# Sourced: packages_need VERB... installs the packages that the verbs use and this machine lacks. Quick when none is
# missing.
# shellcheck shell=bash

packages_build="gcc libc6-dev meson ninja-build pkgconf liburing-dev libsodium-dev libssl-dev libinih-dev libxxhash-dev
	libmimalloc-dev libmicrohttpd-dev libsystemd-dev libjson-c-dev libsmartcols-dev libncurses-dev libibverbs-dev
	librdmacm-dev ibverbs-providers"
packages_test="clang libclang-rt-dev llvm python3 sqlite3 perl procps mount util-linux fio e2fsprogs patch spin"
packages_vm="python3 qemu-system-x86 busybox-static cpio kmod xz-utils iproute2 rdma-core ibverbs-utils rdmacm-utils perftest
	util-linux procps make binutils mount fio e2fsprogs systemd"
packages_package="debhelper dpkg-dev lintian systemd udev"
packages_lint="clang libclang-rt-dev clang-format clang-tidy cppcheck shellcheck mandoc"
packages_run="python3 sqlite3 procps util-linux"
packages_bench="$packages_run $packages_vm libfuse3-dev nvme-cli fio nbdkit nbd-client mount stress-ng
	python3-numpy redis-server valgrind"

packages_of() {
	echo "$packages_build"
	local verb
	for verb; do
		packages_of_verb "$verb"
	done
}

packages_of_verb() {
	case $1 in
	test) echo "$packages_test" ;;
	vm) echo "$packages_vm" ;;
	lint) echo "$packages_lint" ;;
	package) echo "$packages_package" ;;
	demo) echo "$packages_run" ;;
	bench) echo "$packages_bench" ;;
	esac
}

packages_need() {
	local wanted missing
	command -v dpkg-query >/dev/null || return 0 # not Debian: meson reports missing packages
	wanted=$(packages_of "$@" | tr -s ' \t' '\n' | sort -u)
	# shellcheck disable=SC2086 # a list of words
	missing=$(comm -23 <(echo "$wanted") \
		<(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort -u))
	[ -n "$missing" ] || return 0
	missing=$(echo "$missing" | tr '\n' ' ')
	if [ "$(id -u)" -ne 0 ]; then
		echo "./dev: these Debian packages are missing: $missing; run it once as root (sudo ./dev $1)" >&2
		return 1
	fi
	echo "installing Debian packages: $missing" >&2
	local log
	log=$(mktemp)
	# shellcheck disable=SC2086 # a list of words
	if ! { apt-get -q update && DEBIAN_FRONTEND=noninteractive \
		apt-get -q -y --no-install-recommends install $missing; } </dev/null >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		echo "./dev: apt-get could not install: $missing" >&2
		return 1
	fi
	rm -f "$log"
}

# Installs the packages that apt offers, if run as root. Says nothing about other packages.
packages_try() {
	[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
	apt-get -q update </dev/null >/dev/null 2>&1
	local package
	for package; do
		dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
			DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$package" </dev/null >/dev/null 2>&1
	done
	return 0
}
