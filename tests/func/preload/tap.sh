# tap.sh: prints TAP from bash. Test scripts source it.
export FARPAGE_CONFIG=${FARPAGE_CONFIG-} # no configuration file of this machine
TAP_COUNT=0
TAP_FAILED=0
# ok STATUS NAME: reports one check, which passes if STATUS is 0. Returns 1 if it fails: ok ... || note "details"
ok() {
	TAP_COUNT=$((TAP_COUNT + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $TAP_COUNT - $2"
		return 0
	fi
	echo "not ok $TAP_COUNT - $2"
	# A check marked TODO is known to fail. Readers of TAP expect that.
	[[ $2 == *" # TODO "* ]] || TAP_FAILED=1
	return 1
}
note() {
	sed 's/^/# /' <<<"$1"
}
# expect NAME WANTED GOT: checks that the two texts are equal.
expect() {
	[ "$2" = "$3" ]
	ok $? "$1"
	[ "$2" = "$3" ] || note "wanted: $2
got: $3"
}
# matches NAME PATTERN TEXT: checks that a line of the text matches the extended regular expression.
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
# Skips the test without the right to use userfaultfd for page faults of the kernel, which far memory needs.
require_userfaultfd() {
	[ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/vm/unprivileged_userfaultfd 2>/dev/null)" = 1 ] || [ -w /dev/userfaultfd ] ||
		skip_all "no right to use userfaultfd"
}
# stat_of FILE NAME: prints the number NAME of a file written by --stats (JSON).
stat_of() {
	sed -n "s/^ *\"$2\": *\([0-9]*\),*$/\1/p" "$1"
}
