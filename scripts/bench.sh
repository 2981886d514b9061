#!/bin/bash
# ./dev bench [NAME...]: builds an optimised tree in build-bench/ and runs its benchmarks one after the other.
# ./dev bench vm [OPTION...] [PEER...]: runs the benchmark vm with its options (vm --help).
# ./dev bench soak NAME [ARGUMENT...]: long runs that look for rare faults (./dev bench soak lists them).
# ./dev bench programs [OPTION...]: real programs, each in several ways (programs --help).
# ./dev bench resilience: benchmarks of the cost of faults and of protection from them, each figure beside its
# target.
set -euo pipefail
. scripts/packages.sh
. scripts/tree.sh

[ "${1:-}" != soak ] || exec scripts/soak.sh "${@:2}"
packages_need bench
tree_setup build-bench gcc -Dbuildtype=release
tree_build build-bench
tree_bin build-bench
case ${1:-} in
vm) exec /usr/bin/python3 -B tests/bench/vm/peers.py --build build-bench "${@:2}" ;;
programs) exec /usr/bin/python3 -B tests/bench/programs/programs.py build-bench/bin "${@:2}" ;;
resilience) set -- --suite resilience "${@:2}" ;;
esac
exec "$meson" test -C build-bench --no-rebuild --benchmark --verbose --num-processes 1 --timeout-multiplier 0 "$@"
