#!/bin/bash
# ./dev bench [NAME...]: build-bench/, optimised, and its benchmarks one after the other.
# ./dev bench vm [OPTION...] [PEER...]: one of them, with options of its own (vm --help).
# ./dev bench soak [OPTION...] [FABRIC...]: a machine that swaps for its life for five minutes (soak --help).
# ./dev bench programs [OPTION...]: real programs, each in several ways (programs --help).
# ./dev bench resilience: those of what faults, and being ready for them, cost, each figure beside its target.
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
if [ "${1:-}" = soak ]; then
	shift
	exec /usr/bin/python3 -B tests/bench/vm/soak.py --build build-bench "$@"
fi
if [ "${1:-}" = programs ]; then
	shift
	exec /usr/bin/python3 -B tests/bench/programs/programs.py build-bench/bin "$@"
fi
[ "${1:-}" != resilience ] || set -- --suite resilience "${@:2}"
exec "$meson" test -C build-bench --no-rebuild --benchmark --verbose --num-processes 1 --timeout-multiplier 0 "$@"
