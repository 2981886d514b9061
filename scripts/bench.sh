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
case ${1:-} in
vm) exec /usr/bin/python3 -B tests/bench/vm/peers.py --build build-bench "${@:2}" ;;
soak) exec /usr/bin/python3 -B tests/bench/vm/soak.py --build build-bench "${@:2}" ;;
programs) exec /usr/bin/python3 -B tests/bench/programs/programs.py build-bench/bin "${@:2}" ;;
resilience) set -- --suite resilience "${@:2}" ;;
esac
exec "$meson" test -C build-bench --no-rebuild --benchmark --verbose --num-processes 1 --timeout-multiplier 0 "$@"
