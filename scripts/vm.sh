#!/bin/bash
# ./dev vm [OPTION...] COMMANDS: runs the commands in a virtual machine. See tests/vm/vm.py.
set -euo pipefail
. scripts/packages.sh

packages_need vm
VM_PROGRAM='./dev vm' exec /usr/bin/python3 -B tests/vm/vm.py "$@"
