#!/bin/bash
# farpage run refuses some options and programs. One line names the cause. Exit statuses are those of env(1).
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
donors_start 2 64M --slab 8M
directory=$DONORS_DIRECTORY
chmod 755 "$directory"

# refused NAME STATUS PATTERN OPTION...: checks that farpage run refuses the options with STATUS and one line
refused() {
	local name=$1 wanted=$2 pattern=$3 out status
	shift 3
	out=$("$FARPAGE" run "$@" 2>&1)
	status=$?
	expect "$name is refused with status $wanted" "$wanted" "$status"
	matches "$name is refused with its cause" "$pattern" "$out"
	expect "$name is refused in one line" 1 "$(wc -l <<<"$out")"
}
run=(--engine pager --local 16M "${DONORS[@]}")

refused "a run without a command" 125 "command is missing" "${run[@]}"
refused "a run without a donor" 125 "--donor" --local 16M -- true
refused "an unknown option" 125 "--frobnicate|frobnicate" --frobnicate "${run[@]}" -- true
refused "a budget of 0" 125 "local" --local 0 "${DONORS[@]}" -- true
refused "a budget below the least" 125 "the least that works is 8M" --local 1M "${DONORS[@]}" -- true
refused "a budget below the least for --encrypt" 125 "with --encrypt is 10M" --local 9M --encrypt "${DONORS[@]}" -- true
refused "a program that is not in PATH" 127 "no such program" "${run[@]}" -- farpage-test-nothing
refused "a program file that does not exist" 127 "/nonexistent/program" "${run[@]}" -- /nonexistent/program
export FARPAGE_NO_MOVE=1
refused "a kernel that cannot see pinned pages" 125 "UFFDIO_MOVE.*--unsafe-dio" "${run[@]}" -- true
"$FARPAGE" run --quiet --unsafe-dio "${run[@]}" -- true
expect "--unsafe-dio lets a program run on a kernel that cannot see pinned pages" 0 $?
matches "a line says that --unsafe-dio may lose data" \
	"may be lost" "$("$FARPAGE" run --unsafe-dio "${run[@]}" -- true 2>&1)"
unset FARPAGE_NO_MOVE
refused "--far above what the donors lend" 125 "128M" "${run[@]}" --far 1T -- true

printf '#include <stdio.h>\nint main(void) { puts("ran"); return 0; }\n' >"$directory/program.c"
if ${CC:-cc} -static -o "$directory/static" "$directory/program.c" 2>/dev/null; then
	refused "a statically linked program" 126 "statically linked" "${run[@]}" -- "$directory/static"
	printf '#!%s\n' "$directory/static" >"$directory/script"
	chmod 755 "$directory/script"
	refused "a script of a statically linked interpreter" 126 "statically linked" "${run[@]}" -- "$directory/script"
fi
cp /bin/true "$directory/true"
if chown nobody "$directory/true" 2>/dev/null && chmod 4755 "$directory/true"; then
	refused "a setuid program" 126 "setuid" "${run[@]}" -- "$directory/true"
	chmod 755 "$directory/true"
	chgrp nogroup "$directory/true" && chmod 2755 "$directory/true"
	refused "a setgid program" 126 "setgid" "${run[@]}" -- "$directory/true"
fi
echo "no program" >"$directory/text"
refused "a file that is not executable" 126 "not executable" "${run[@]}" -- "$directory/text"
chmod 755 "$directory/text"
refused "an executable file that is neither program nor script" 126 \
	"neither a program nor a script" "${run[@]}" -- "$directory/text"
refused "a directory in place of a program" 126 "not a file" "${run[@]}" -- "$directory"
printf '#!/bin/sh\necho script ran\n' >"$directory/good"
chmod 755 "$directory/good"
expect "a program with its own malloc runs with far memory" "0
ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$1")"
refused "a program with its own malloc and --encrypt" 125 \
	"brings its own malloc.*cannot be encrypted" "${run[@]}" --encrypt --quiet -- "$1"
out=$(FARPAGE_LOCAL=16M FARPAGE_DONORS=rdma://127.0.0.1:7470 LD_PRELOAD=$FARPAGE_PRELOAD_LIBRARY "$1" 2>&1)
expect "a program with its own malloc and rdma:// donors is refused with status 125" 125 $?
matches "a program with its own malloc and rdma:// donors is refused with its cause" \
	"brings its own malloc.*tcp:// donors only" "$out"
expect "a small program with its own malloc runs without far memory" \
	"ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$1" small)"
expect "a script of a dynamically linked interpreter runs" \
	"script ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$directory/good")"

cat >"$directory/mapper.c" <<'END'
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
{
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
int munmap(void *address, size_t length) { return (int)syscall(SYS_munmap, address, length); }
int main(void) { return 0; }
END
if ${CC:-cc} -w -rdynamic -o "$directory/mapper" "$directory/mapper.c" 2>/dev/null; then
	refused "a program with its own mmap" 126 "an mmap or munmap of its own" "${run[@]}" -- "$directory/mapper"
	refused "a child with its own mmap" 125 \
		"brings its own mmap" "${run[@]}" --quiet -- sh -c "exec $directory/mapper"
fi

# A program linked to a fixed address that takes the address of a library function has its own entry for that function.
# Debian's Python has such an entry for malloc.
cat >"$directory/fixed.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void)
{
	void *(*volatile allocate)(size_t) = malloc;
	void *(*volatile map)(void *, size_t, int, int, int, off_t) = mmap;
	int (*volatile unmap)(void *, size_t) = munmap;
	void *mapping = map(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(allocate(48 << 20), 1, 48 << 20);
	return puts("ran") < 0 || unmap(mapping, 4096);
}
END
if ${CC:-cc} -no-pie -fno-pie -o "$directory/fixed" "$directory/fixed.c" 2>/dev/null; then
	expect "a program at a fixed address uses farpage's malloc and mmap" "ran" \
		"$("$FARPAGE" run "${run[@]}" --encrypt --quiet -- "$directory/fixed" 2>&1)"
fi

# A port without a listener: the port of a donor that has ended.
gone=${DONOR_URIS[1]}
kill "${DONOR_PIDS[1]}"
wait "${DONOR_PIDS[1]}" 2>/dev/null
started=$(date +%s%N)
refused "a donor that cannot be reached" 125 "$gone" --local 16M --donor "${DONOR_URIS[0]}" --donor "$gone" -- true
[ $((($(date +%s%N) - started) / 1000000)) -lt 2500 ]
ok $? "a donor that cannot be reached is refused within 2.5 s"
refused "a donor address of unknown form" 125 "donor|address" --local 16M --donor bla:// -- true

"$FARPAGE" key "$directory/key" >/dev/null && "$FARPAGE" key "$directory/other" >/dev/null
donors_start 1 64M --slab 8M --key "$directory/key"
keyed=(--local 16M --donor "${DONOR_URIS[2]}")
refused "a key that differs from the donor's" 125 "${DONOR_URIS[2]}.*key" "${keyed[@]}" --key "$directory/other" -- true
refused "a run without a key for a donor with one" 125 "${DONOR_URIS[2]}.*key" "${keyed[@]}" -- true
refused "a missing key file" 125 "cannot read key file" "${keyed[@]}" --key "$directory/nothing" -- true
chmod 644 "$directory/key"
refused "a key file that others may read" 125 "chmod 600" "${keyed[@]}" --key "$directory/key" -- true
chmod 600 "$directory/key"
"$FARPAGE" run "${keyed[@]}" --key "$directory/key" --quiet -- true
expect "a run with the donor's key succeeds" 0 $?
tap_done
