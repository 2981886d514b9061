#!/bin/bash
# ./dev bench soak NAME [ARGUMENT...]: runs that look for rare faults. Each prints TAP or a table. Status 0 if all
# was well.
#
#   swap [OPTION...] [FABRIC...]  a virtual machine that always swaps, five minutes over each fabric (swap --help)
#   pages [MINUTES]               whole pages checked under farpage run, in a tree that traces them; an hour
#   faults [MINUTES]              stress-ng under farpage run with two replicas, while one donor after the other is stopped,
#                                 killed or drained; half an hour
#   disk [KILLS]                  in a virtual machine, a ublk device with two replicas under fio, whose daemons and donors
#                                 are killed; two hundred times
set -euo pipefail
. scripts/packages.sh
. scripts/tree.sh

usage() {
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' scripts/soak.sh
}

name=${1:-}
case $name in
pages) tree=build-trace options=(-Dtrace=true) ;;
swap | faults | disk) tree=build-bench options=(-Dbuildtype=release) ;;
'' | -h | --help) usage && exit ;;
*)
	echo "./dev bench soak: no such run: $name; ./dev bench soak lists them" >&2
	exit 2
	;;
esac
packages_need bench
tree_setup $tree gcc "${options[@]}"
tree_build $tree
tree_bin $tree
case $name in
swap) exec /usr/bin/python3 -B tests/bench/vm/soak.py --build $tree "${@:2}" ;;
pages) exec tests/bench/pager/soak.sh $tree "${2:-60}" ;;
faults) exec tests/bench/pager/faults.sh $tree "${2:-30}" ;;
disk) exec tests/bench/vm/soak_disk.sh $tree "${2:-200}" ;;
esac
