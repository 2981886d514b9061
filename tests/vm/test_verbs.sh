#!/bin/bash
# test_verbs.sh rxe|siw PROGRAM...: in one machine, runs unit tests of the fabric over an RDMA device. Joins their TAP.
. tests/vm/guest.sh
"$1_up"
export FARPAGE_TEST_FABRIC="rdma 10.77.0.1"
count=0 failed=0

report() {
	count=$((count + 1))
	[ "$1" = ok ] || failed=1
	echo "$1 $count - $2"
}

for program in "${@:2}"; do
	name=${program##*/test_}
	seen=0 plan=
	while IFS= read -r line; do
		case $line in
		"ok "* | "not ok "*)
			seen=$((seen + 1))
			report "${line%% [0-9]*}" "$name: ${line#* - }"
			;;
		1..*) plan=${line#1..} ;;
		*) echo "# ${line#\# }" ;;
		esac
	done < <(timeout 100 "$program" 2>&1)
	[ "$plan" = $seen ] || report "not ok" "$name runs all its planned tests ($seen of ${plan:-?})"
done
echo "1..$count"
exit $failed
