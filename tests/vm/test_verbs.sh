#!/bin/bash
# test_verbs.sh rxe|siw PROGRAM...: in one machine, the fabric's unit tests over an RDMA device; their TAP as one.
. tests/vm/guest.sh
"$1_up"
export FARPAGE_TEST_FABRIC="rdma 10.77.0.1"
count=0 failed=0

report() {
	count=$((count + 1))
	[ "$1" = ok ] || failed=1
	echo "$1 $count - $2"
}

# Warnings of the kernel's about references that it lost count of.
miscounts() {
	dmesg | grep -cE 'WARNING: .*(siw_cep_put|refcount_warn_saturate)'
}

# siw, the iWARP driver, loses count of its references now and then when a connection ends as it is made; what it frees then
# may be the next listener. Its own warning tells; what a test has seen meanwhile is worth nothing, and it runs once more.
run() {
	local before attempt
	for attempt in 1 2 3; do
		before=$(miscounts)
		timeout 100 "$1" >/run/tap 2>&1
		if [ $attempt = 3 ] || [ "$(miscounts)" = "$before" ] || ! grep -q '^not ok' /run/tap; then
			cat /run/tap
			return
		fi
		echo "# the kernel has lost count of references: once more"
	done
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
	done < <(run "$program")
	[ "$plan" = $seen ] || report "not ok" "$name: came to its end ($seen of ${plan:-?})"
done
echo "1..$count"
exit $failed
