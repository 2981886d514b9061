# The client machine dies. The donor keeps the dead client's slabs for the grace time, then lends them to others,
# zeroed. This must be the only part of a run. The client machine reports in its second life what the donor machine saw.
# shellcheck shell=bash disable=SC2154

SLABS_URI=$scheme://10.77.0.1:7480
SLABS_LENT=8
SLABS_LEASED=4
SLABS_GRACE=3 # seconds

# Runs on the donor machine, as client_dies does.
donor_lends() {
	"$FARPAGE_MEMSERVER" --listen "$SLABS_URI" --donate 64M --slab 8M --grace $SLABS_GRACE "${KEY[@]}" >/run/lends &
	wait_for 20 grep -q listening /run/lends && echo lends
}

slabs_leased() {
	local bytes
	bytes=$("$FARPAGE_EXE" donors --json "${KEY[@]}" --donor "$SLABS_URI" | sed -n 's/.*"leased_bytes":\([0-9]*\).*/\1/p')
	echo $((bytes >> 23))
}

nothing_lent() {
	[ "$(slabs_leased)" = 0 ]
}

# Prints one line:
#   the number of slabs leased while the client lived
#   the number of slabs leased right after its death
#   the line of another client that leases a slab after the death
#   microseconds from the death until the dead client's slabs were seen free
#   microseconds from the death until they were last seen leased
client_dies() {
	local lived killed died other kept free
	lived=$(slabs_leased)
	timeout 20 "$FARPAGE_SLABS" "$SLABS_URI" /share/key watcher watch >/run/watched &
	order kill client
	killed=$AFTER
	died=$(slabs_leased)
	other=$("$FARPAGE_SLABS" "$SLABS_URI" /share/key other 1)
	wait $!
	read -r _ kept _ free </run/watched
	echo "$lived $died ${other:-none} $((free - killed)) $((kept - killed))"
	order start client >&2
}

client_first_life() {
	donor_ask donor_lends
	"$FARPAGE_SLABS" "$SLABS_URI" /share/key first $SLABS_LEASED stay >/run/slabs &
	wait_for 30 grep -q leased /run/slabs || guest_fail "nothing is leased"
	share_tell leased "$(cat /run/slabs)"
	donor_ask client_dies
}

client_second_life() {
	local lived died other free kept
	expect "the first client leases half of the slabs, all zero" \
		"leased $SLABS_LEASED used 0" "$(cat /share/leased)"
	read -r lived died other free kept < <(share_wait "answer1.2" 20 | sed 's/leased 1 used /leased,1,used,/')
	expect "the slabs of the first client are leased while it lives" $SLABS_LEASED "$lived"
	expect "the slabs of the first client are still leased just after its death" $SLABS_LEASED "$died"
	expect "another client leases a zeroed slab during the grace time" "leased,1,used,0" "$other"
	[ "$kept" -ge $((SLABS_GRACE * 1000000)) ] && [ "$free" -le $((SLABS_GRACE * 1000000 + 3000000)) ]
	ok $? "the donor keeps the slabs for the grace time and frees them within 3 s after it"
	note "still leased after $(ms "$kept"), free after $(ms "$free")"
	expect "the next client leases all slabs, zeroed" "leased $SLABS_LENT used 0" \
		"$("$FARPAGE_SLABS" "$SLABS_URI" /share/key next 0)"
	check "the next client gives all slabs back" wait_for 5 nothing_lent
}

part_client() {
	if [ "$VM_BOOT" = 1 ]; then
		client_first_life
	else
		client_second_life
	fi
}
