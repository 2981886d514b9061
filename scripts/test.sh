#!/bin/bash
# ./dev test [--no-vm] [--long] [SUITE|NAME...]: builds three trees, runs their tests, and checks that nothing is
# left on the machine. Prints TAP.
# Without --long the tests of meson's suite "long" are left out, unless they are named.
# Once a minute a line names the running tests, the time so far, and the estimated time left.
# The last line is "N passed, N failed, N skipped". Status 1 if any failed.
set -uo pipefail
. scripts/packages.sh
. scripts/tree.sh

selected=()
names=()
long=
machines=wanted # or refused (by --no-vm), or empty (not selected)
for word; do
	case $word in
	unit | func | fuzz | preload | programs | sim | model | vm) selected+=(--suite "$word") ;;
	--no-vm) machines=refused ;;
	--long) long=wanted ;;
	-*)
		echo "./dev test: takes suites, names of tests, --no-vm and --long: not $word" >&2
		exit 2
		;;
	*) names+=("$word") ;;
	esac
done

chosen=("${selected[@]}" "${names[@]}")
if [ ${#chosen[@]} -gt 0 ] && [[ " ${chosen[*]}" != *" vm"* ]]; then
	machines=
fi
need=(test)
[ "$machines" != wanted ] || need+=(vm)
packages_need "${need[@]}" || exit 1

# The minutes that all tests take on two processors with everything installed. A selection has no estimate.
usual=
if [ ${#chosen[@]} -eq 0 ]; then
	usual=30
	[ "$machines" = wanted ] || usual=21
	[ -z "$long" ] || usual=110
fi
all=(--no-suite long)
[ -z "$long" ] && [ ${#names[@]} -eq 0 ] || all=()

results=$(mktemp -d)
aside=
trap 'kill "$teller" 2>/dev/null; [ -z "$aside" ] || kill -- "-$aside" 2>/dev/null; rm -rf "$results"' EXIT

# Reports progress once a minute. The file "now" names the tree under test.
tell() {
	local minutes=0 now ended left
	trap 'kill "$!" 2>/dev/null; exit' TERM
	while sleep 60 & wait "$!"; do
		minutes=$((minutes + 1))
		now=$(cat "$results/now" 2>/dev/null)
		ended=$(grep -oE '^ *[0-9]+/[0-9]+' "$results/$now.output" 2>/dev/null | tail -n 1 | tr -d ' ')
		left=
		if [ "$usual" ] && [ "$minutes" -lt "$usual" ]; then
			left=", about $((usual - minutes)) min left"
		elif [ "$usual" ]; then
			left=", longer than usual ($usual min)"
		fi
		echo "== $minutes min: ${now:-virtual machines}${ended:+, $ended tests}$left"
	done
}
tell &
teller=$!

# The sanitizers of older compilers cannot place their shadow memory under strong address randomisation.
steady=()
if setarch -R true 2>/dev/null; then
	steady=(setarch -R)
fi
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

declare -A compilers=([build]=gcc [build-asan]=clang [build-tsan]=clang)
declare -A setups=(
	[build]=""
	[build-asan]="-Db_sanitize=address,undefined -Db_lundef=false -Dfuzz=true"
	[build-tsan]="-Db_sanitize=thread -Db_lundef=false"
)

# prepare TREE...: configures and builds trees. If one fails, its output stays in TREE.broken.
prepare() {
	local tree
	local -a setup
	for tree; do
		read -ra setup <<<"${setups[$tree]}"
		{ tree_setup "$tree" "${compilers[$tree]}" "${setup[@]}" && tree_build "$tree"; } \
			>"$results/$tree.broken" 2>&1 && rm "$results/$tree.broken"
	done
}

# tests TREE NAME OPTION...: runs tests of a prepared tree. Keeps their results as NAME.json, or else their output as
# NAME.broken.
tests() {
	local tree=$1 name=$2
	local -a before=()
	shift 2
	[ "$tree" = build ] || before=("${steady[@]}")
	[ ! -e "$results/$tree.broken" ] || return # count_tap.py reports it
	rm -f "$tree/meson-logs/$name.json"
	"${before[@]}" "$meson" test -C "$tree" --no-rebuild --logbase "$name" "${all[@]}" "$@" </dev/null 2>&1 |
		tee "$results/$name.output" | grep --line-buffered -v -e "^ninja: " -e '^Full log written' -e '^$' -e '^>>> '
	# A tree without results is a failure, unless a selection has left the tree without tests.
	if [ -f "$tree/meson-logs/$name.json" ]; then
		mv "$tree/meson-logs/$name.json" "$results/"
	elif [ ${#chosen[@]} -eq 0 ] || ! grep -q '^No suitable tests defined' "$results/$name.output"; then
		mv "$results/$name.output" "$results/$name.broken"
	fi
}

# run TREE "TEST OPTIONS": runs the tests of a prepared tree, except those that run_aside runs.
run() {
	local tree=$1
	local -a test
	read -ra test <<<"$2"
	echo "$tree" >"$results/now"
	echo "== $tree (${compilers[$tree]}${setups[$tree]:+ ${setups[$tree]}})"
	[ -e "$results/$tree.broken" ] || tree_bin "$tree"
	# Two tests at once on each processor, because most tests wait: for a silent donor, or for the end of a grace
	# period. Beside the plain tree's tests run_aside works.
	[ "$tree" = build ] || test+=(--num-processes $((2 * $(nproc))))
	tests "$tree" "$tree" "${test[@]}" "${elsewhere[@]}" "${chosen[@]}"
}

# The suites whose tests only compute. They are run aside, unless tests were selected.
computing=(fuzz sim model)
elsewhere=()
if [ ${#chosen[@]} -eq 0 ]; then
	elsewhere=("${computing[@]/#/--no-suite=}")
fi

# Uses only the processor time that other programs leave. Builds the other trees, and then runs the tests that only
# compute.
run_aside() {
	chrt --idle --pid 0 "$BASHPID"
	prepare build-asan build-tsan
	if [ ${#elsewhere[@]} -gt 0 ]; then
		tests build-asan build-asan-computing --timeout-multiplier 4 "${computing[@]/#/--suite=}"
		tests build build-computing --timeout-multiplier 4 "${computing[@]/#/--suite=}"
	fi
}

# The image of the virtual machines is fetched and made here, so no test's time limit includes this.
without=
case $machines in
wanted)
	echo "== virtual machines"
	tests/vm/image.sh siw 2>"$results/vm.broken" && rm "$results/vm.broken"
	;;
refused)
	echo "1..0 # SKIP suite vm: --no-vm was given" | tee "$results/vm.tap"
	without="--no-suite vm"
	;;
esac

scripts/left_behind.sh before "$results/machine"
echo build >"$results/now"
prepare build
set -m # a process group of its own, for the trap
run_aside >"$results/aside" &
aside=$!
set +m
run build "$without"
echo "the tests beside it" >"$results/now"
wait "$aside"
aside=
echo "== beside it"
cat "$results/aside"
run build-asan "--no-suite preload --no-suite programs --timeout-multiplier 4"
run build-tsan "--no-suite preload --no-suite programs --no-suite fuzz --timeout-multiplier 4"
# Runs the whole corpus. If a package cannot be installed, its program is skipped by name.
if [ "$long" ]; then
	echo "== the corpus of programs"
	read -ra wanted < <(/usr/bin/python3 -B tests/programs/corpus.py --all --packages)
	packages_try "${wanted[@]}"
	/usr/bin/python3 -B tests/programs/corpus.py --all --table docs/programs.md build/bin </dev/null | tee "$results/programs.tap"
fi
echo "== what the tests left on this machine"
scripts/left_behind.sh after "$results/machine" | tee "$results/left_behind.tap"

kill "$teller" 2>/dev/null # the count is the last line
wait "$teller" 2>/dev/null
/usr/bin/python3 scripts/count_tap.py "$results"
