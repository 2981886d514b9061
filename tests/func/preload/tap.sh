# tap.sh: TAP from bash; to be sourced.
export FARPAGE_CONFIG=${FARPAGE_CONFIG-} # no defaults of this machine's
TAP_COUNT=0
TAP_FAILED=0
# ok STATUS NAME: one test; STATUS 0 is good, and is the function's, for: ok ... || note "details"
ok() {
	TAP_COUNT=$((TAP_COUNT + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $TAP_COUNT - $2"
		return 0
	fi
	echo "not ok $TAP_COUNT - $2"
	# A known fault: TAP's readers expect it to fail.
	[[ $2 == *" # TODO "* ]] || TAP_FAILED=1
	return 1
}
note() {
	sed 's/^/# /' <<<"$1"
}
# expect NAME WANTED GOT
expect() {
	[ "$2" = "$3" ]
	ok $? "$1"
	[ "$2" = "$3" ] || note "wanted: $2
got: $3"
}
# matches NAME PATTERN TEXT: an extended regular expression
matches() {
	grep -Eq -- "$2" <<<"$3"
	local status=$?
	ok $status "$1"
	[ $status -eq 0 ] || note "wanted: $2
got: $3"
}
tap_done() {
	echo "1..$TAP_COUNT"
	exit $TAP_FAILED
}
skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}
# Far memory needs userfaultfd for faults of the kernel, too.
require_userfaultfd() {
	[ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/vm/unprivileged_userfaultfd 2>/dev/null)" = 1 ] || [ -w /dev/userfaultfd ] ||
		skip_all "no right to use userfaultfd"
}
# What a JSON file of --stats says of a number.
stat_of() {
	sed -n "s/^ *\"$2\": *\([0-9]*\),*$/\1/p" "$1"
}
