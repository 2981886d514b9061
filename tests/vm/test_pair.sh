#!/bin/bash
# Two machines: test_pair.sh donor on one, test_pair.sh client on the other, which prints the TAP.
. tests/vm/guest.sh
. tests/func/preload/tap.sh

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

# by_rdma ADDRESS [PORT]
by_rdma() {
	timeout 20 rping -c -a "$1" -p "${2:-7174}" -C 5 -V >/run/rping 2>&1
}

carriers() {
	cat /sys/class/net/eth[01]/carrier | xargs
}

rails_up
rails_rxe
expect "the donor is there" "life 1" "$(share_wait ready1)"
for address in "$PEER" "$PEER_RAIL1" "$PEER6" "$PEER6_RAIL1"; do
	pings "$address"
	ok $? "the donor answers at $address"
done
by_rdma "$PEER"
ok $? "RDMA over rail 0"
by_rdma "$PEER_RAIL1"
ok $? "RDMA over rail 1"
by_rdma "$PEER6_RAIL1" 7175
ok $? "RDMA over rail 1, IPv6"

rail 0 down
expect "a rail down has no carrier, the other has" "0 1" "$(carriers)"
no pings "$PEER"
ok $? "nothing comes through it"
pings "$PEER_RAIL1" && by_rdma "$PEER_RAIL1"
ok $? "the other works"
rail 0 up
wait_for 5 pings "$PEER" && by_rdma "$PEER"
ok $? "and it works when it is up again"

machine stop donor
no pings "$PEER"
ok $? "a stopped machine does not answer"
machine continue donor
wait_for 5 pings "$PEER" && by_rdma "$PEER"
ok $? "one that goes on does"

rail 1 down
machine kill donor
no pings "$PEER"
ok $? "a killed machine does not answer"
machine start donor
expect "it lives again" "life 2" "$(share_wait ready2)"
pings "$PEER" && by_rdma "$PEER"
ok $? "and answers"
no pings "$PEER_RAIL1"
ok $? "but not over a rail that was taken down meanwhile"
(machine start donor) 2>/run/complaint
matches "what is not possible is told" "donor runs" "$(cat /run/complaint)"
tap_done
