#!/bin/bash
# Two machines on two rails. "test_pair.sh donor" runs on one, "test_pair.sh client" on the other, which prints the TAP.
. tests/vm/guest.sh
. tests/lib/tap.sh

if [ "$1" = donor ]; then
	rails_up
	rails_rxe
	rping -s -P -a 0.0.0.0 >/dev/null 2>&1 &
	rping -s -P -a :: -p 7175 >/dev/null 2>&1 &
	wait_for 10 rdma_listens 7174 && wait_for 10 rdma_listens 7175 || guest_fail "rping does not listen"
	share_tell "ready$VM_BOOT" "life $VM_BOOT"
	wait
	exit
fi

pings() {
	busybox ping -qc 2 -W 1 "$1" >/dev/null
}

no() {
	! "$@"
}

# by_rdma ADDRESS [PORT]: succeeds if the donor answers five RDMA pings.
by_rdma() {
	timeout 20 rping -c -a "$1" -p "${2:-7174}" -C 5 -V >/run/rping 2>&1
}

carriers() {
	cat /sys/class/net/eth[01]/carrier | xargs
}

rails_up
rails_rxe
expect "the donor machine is up, in its first life" "life 1" "$(share_wait ready1)"
for address in "$PEER" "$PEER_RAIL1" "$PEER6" "$PEER6_RAIL1"; do
	pings "$address"
	ok $? "the donor answers pings at $address"
done
check "the donor answers over RDMA on rail 0" by_rdma "$PEER"
check "the donor answers over RDMA on rail 1" by_rdma "$PEER_RAIL1"
check "the donor answers over RDMA on rail 1 with IPv6" by_rdma "$PEER6_RAIL1" 7175

rail 0 down
expect "rail 0 down has no carrier, rail 1 has one" "0 1" "$(carriers)"
check "the donor does not answer over rail 0 when it is down" no pings "$PEER"
pings "$PEER_RAIL1" && by_rdma "$PEER_RAIL1"
ok $? "the donor answers over rail 1 when rail 0 is down"
rail 0 up
wait_for 5 pings "$PEER" && by_rdma "$PEER"
ok $? "the donor answers over rail 0 when it is up again"

machine stop donor
check "a stopped machine does not answer" no pings "$PEER"
machine continue donor
wait_for 5 pings "$PEER" && by_rdma "$PEER"
ok $? "a stopped machine answers again when it is continued"

rail 1 down
machine kill donor
check "a killed machine does not answer" no pings "$PEER"
machine start donor
expect "a killed machine starts in its second life" "life 2" "$(share_wait ready2)"
pings "$PEER" && by_rdma "$PEER"
ok $? "a machine in its second life answers over rail 0"
check "a machine in its second life does not answer over a rail that is down" no pings "$PEER_RAIL1"
(machine start donor) 2>/run/complaint
matches "machine start of a running machine names the cause" "donor runs" "$(cat /run/complaint)"
tap_done
