#!/bin/bash
# ./dev bench [NAME...]: build-bench/, optimised, and its benchmarks one after the other.
# ./dev bench vm [OPTION...] [PEER...]: one of them, with options of its own (vm --help).
set -euo pipefail
. scripts/packages.sh
. scripts/tree.sh

packages_need bench
tree_setup build-bench gcc -Dbuildtype=release
tree_build build-bench
tree_bin build-bench
if [ "${1:-}" = vm ]; then
	shift
	exec /usr/bin/python3 -B tests/bench/vm/peers.py --build build-bench "$@"
fi
exec "$meson" test -C build-bench --no-rebuild --benchmark --verbose --num-processes 1 --timeout-multiplier 0 "$@"
