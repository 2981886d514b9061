# tap.sh: prints TAP for tests in bash. tap.h and tap.py do so for tests in C and Python. Test scripts source it in the
# checkout.
# shellcheck shell=bash
. tests/lib/wait.sh
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
	check "$1" [ "$2" = "$3" ] || note "wanted: $2
got: $3"
}
# matches NAME PATTERN TEXT: checks that a line of the text matches the extended regular expression.
matches() {
	grep -Eq -- "$2" <<<"$3"
	ok $? "$1" || note "wanted: $2
got: $3"
}
# check NAME COMMAND...: checks that the command succeeds. The caller must not redirect the output, because check prints
# to it, too.
check() {
	local tap_name=$1
	shift
	"$@"
	ok $? "$tap_name"
}
# fails NAME COMMAND...: checks that the command fails, by itself and not by a timeout.
fails() {
	local tap_name=$1 tap_status
	shift
	"$@"
	tap_status=$?
	[ $tap_status -ne 0 ] && [ $tap_status -ne 124 ]
	ok $? "$tap_name"
}
# refused NAME STATUS PATTERN COMMAND...: checks that the command exits with the status and prints one line, which
# matches. With "any" as STATUS, the command may fail with any status.
refused() {
	local name=$1 wanted=$2 pattern=$3 said status
	shift 3
	said=$(timeout 20 "$@" 2>&1)
	status=$?
	[ "$wanted" != any ] || [ $status = 0 ] || [ $status = 124 ] || wanted=$status
	expect "$name is refused with status $wanted" "$wanted" "$status"
	matches "$name is refused with its cause" "$pattern" "$said"
	expect "$name is refused in one line" 1 "$(wc -l <<<"$said")"
}
tap_done() {
	# The test's donors end here, so that this test checks their ends, too.
	! declare -F donors_end >/dev/null || donors_end
	echo "1..$TAP_COUNT"
	exit $TAP_FAILED
}
skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}
# Skips the test if this user may not handle page faults of the kernel by userfaultfd. Far memory needs this right.
require_userfaultfd() {
	[ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/vm/unprivileged_userfaultfd 2>/dev/null)" = 1 ] || [ -w /dev/userfaultfd ] ||
		skip_all "no right to use userfaultfd"
}
# stat_of FILE NAME: prints the number NAME of a file written by --stats (JSON).
stat_of() {
	sed -n "s/^ *\"$2\": *\([0-9]*\),*$/\1/p" "$1"
}
