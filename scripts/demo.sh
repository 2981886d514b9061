#!/bin/bash
# ./dev demo [--no-vm]: builds, then runs real programs with only a part of their memory on this machine.
set -euo pipefail
. scripts/packages.sh
. scripts/tree.sh

need=(demo)
case $* in
"") need+=(vm) ;;
--no-vm) ;;
*)
	echo "./dev demo: takes --no-vm and nothing else: not $*" >&2
	exit 2
	;;
esac
packages_need "${need[@]}"
tree_setup build gcc
tree_build build
tree_bin build
PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 tests/programs/demo.py "$@" build/bin
