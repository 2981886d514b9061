#!/bin/bash
# soak_disk.sh BUILD KILLS: tests/vm/soak_disk.sh in a virtual machine, with the programs of a build.
build=$(readlink -f "$1")
exec /usr/bin/python3 -B tests/vm/vm.py -t $(($2 * 120 + 300)) -e FARPAGE="$build/cli/farpage" \
	-e FARPAGE_MEMSERVER="$build/memserver/farpage-memserver" -e FARPAGE_BLOCKS="$build/tests/func/blockdev/blocks" \
	"bash tests/vm/soak_disk.sh $2"
