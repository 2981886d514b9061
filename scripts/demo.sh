#!/bin/bash
# ./dev demo: builds, then runs real programs on a quarter of the memory they need.
set -euo pipefail
. scripts/packages.sh
. scripts/tree.sh

packages_need demo
tree_setup build gcc
tree_build build
tree_bin build
PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 tests/programs/demo.py build/bin
