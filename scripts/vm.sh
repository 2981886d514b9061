#!/bin/bash
# ./dev vm [OPTION...] COMMANDS: in a virtual machine; tests/vm/vm.py.
set -euo pipefail
. scripts/packages.sh

packages_need vm
VM_PROGRAM='./dev vm' exec /usr/bin/python3 -B tests/vm/vm.py "$@"
