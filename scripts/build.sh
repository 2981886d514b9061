#!/bin/bash
# ./dev build: build/, and its programs in build/bin/.
set -euo pipefail
. scripts/packages.sh
. scripts/tree.sh

packages_need build
tree_setup build gcc
tree_build build
tree_bin build
echo "built:" build/bin/*
