#!/bin/bash
# ./dev bench [NAME...]: build-bench/, optimised, and its benchmarks one after the other.
set -euo pipefail
. scripts/packages.sh
. scripts/tree.sh

packages_need bench
tree_setup build-bench gcc -Dbuildtype=release
tree_build build-bench
tree_bin build-bench
exec "$meson" test -C build-bench --no-rebuild --benchmark --verbose --num-processes 1 --timeout-multiplier 0 "$@"
