# Sourced: build trees. Uses Debian's meson, because another meson in PATH may run under a Python without its modules.
# shellcheck shell=bash

meson=/usr/bin/meson
[ -x "$meson" ] || meson=meson

# tree_setup DIR CC [OPTION...]: configures DIR unless it is configured. ninja itself notices later changes of
# meson.build.
tree_setup() {
	local dir=$1 compiler=$2 log
	shift 2
	[ -f "$dir/build.ninja" ] && return 0
	rm -rf "$dir"
	log=$(mktemp)
	if ! CC=$compiler "$meson" setup "$dir" "$@" </dev/null >"$log" 2>&1; then
		cat "$log" >&2
		rm -rf "$log" "$dir"
		echo "./dev: meson could not set up $dir" >&2
		return 1
	fi
	rm -f "$log"
}

# tree_build DIR: runs ninja, and shows its output if it fails.
tree_build() {
	local log status=0
	echo "building $1 ..." >&2
	log=$(mktemp)
	ninja -C "$1" </dev/null >"$log" 2>&1 || status=1
	[ $status -eq 0 ] || grep -v '^\[[0-9]*/[0-9]*\] [A-Z][a-z]* ' "$log" >&2
	rm -f "$log"
	return $status
}

# tree_bin DIR: links the programs into DIR/bin. The links are hard, so a program finds its neighbours by its own
# path.
tree_bin() {
	local dir=$1 file
	mkdir -p "$dir/bin"
	for file in "$dir"/cli/farpage "$dir"/memserver/farpage-memserver "$dir"/blockdev/farpage-blockdev "$dir"/pager/libfarpage.so* \
		"$dir"/pager/preload/libfarpage-preload.so; do
		case $file in *.p) continue ;; esac # meson's folder of objects
		[ -e "$file" ] || continue
		ln -f -P "$file" "$dir/bin/" 2>/dev/null || cp -fP "$file" "$dir/bin/"
	done
}
