#!/bin/bash
# test_bond.sh FARPAGE MEMSERVER: in one machine, a donor listens on soft-RoCE over a bond. The bond fails over to its
# other interface, and takes the hardware address of that interface.
. tests/vm/guest.sh
. tests/lib/tap.sh
farpage=$1
memserver=$2
uri=rdma://10.78.0.1:5500
log=/run/memserver

bond() {
	cat "/sys/class/net/bond0/$1"
}

answers() {
	"$farpage" donors --donor "$uri" >/run/figures 2>&1
}

modprobe bonding max_bonds=0 || guest_fail "the kernel has no bonding"
ip link add bond0 type bond mode active-backup fail_over_mac active
for interface in one two; do
	ip link add "$interface" type dummy
	ip link set "$interface" mtu 4200 master bond0
done
ip link set bond0 mtu 4200
interface_up bond0 10.78.0.1/24
rxe_modules
rdma_device rxe rxe0 bond0
"$memserver" --listen "$uri" --insecure --donate 64M --slab 4M --reserve 1M >$log 2>&1 &
wait_for 10 rdma_listens 5500
check "a donor on a bond answers over RDMA" answers || note "$(cat /run/figures $log)"
before=$(bond address)
[ "$(bond bonding/active_slave)" = one ] && other=two || other=one
echo "$other" >/sys/class/net/bond0/bonding/active_slave
expect "the bond fails over to its other interface" "$other" "$(bond bonding/active_slave)"
check "the bond takes another hardware address when it fails over" [ "$(bond address)" != "$before" ]
check "the donor answers over RDMA after the failover" answers || note "$(cat /run/figures $log)"
check "the donor answers a second time after the failover" answers || note "$(cat /run/figures $log)"
expect "the donor reports no removed RDMA device" 0 "$(grep -c 'was removed' $log)"
tap_done
