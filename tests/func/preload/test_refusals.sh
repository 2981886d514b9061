#!/bin/bash
# What farpage run refuses, each with one line that names the cause, and the exit status of env(1).
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
donors_start 2 64M --slab 8M
directory=$DONORS_DIRECTORY
chmod 755 "$directory"

# refused NAME STATUS PATTERN OPTION...: one line on standard error, nothing on standard output
refused() {
	local name=$1 wanted=$2 pattern=$3 out status
	shift 3
	out=$("$FARPAGE" run "$@" 2>&1)
	status=$?
	expect "$name: status" "$wanted" "$status"
	matches "$name: reason" "$pattern" "$out"
	expect "$name: one line" 1 "$(wc -l <<<"$out")"
}
run=(--engine pager --local 16M "${DONORS[@]}")

refused "no command" 125 "command is missing" "${run[@]}"
refused "no donor" 125 "--donor" --local 16M -- true
refused "unknown option" 125 "--frobnicate|frobnicate" --frobnicate "${run[@]}" -- true
refused "budget nought" 125 "local" --local 0 "${DONORS[@]}" -- true
refused "budget too small" 125 "the least that works is 8M" --local 1M "${DONORS[@]}" -- true
refused "budget too small for encryption" 125 "with --encrypt is 10M" --local 9M --encrypt "${DONORS[@]}" -- true
refused "no such program" 127 "no such program" "${run[@]}" -- farpage-test-nothing
refused "no such file" 127 "/nonexistent/program" "${run[@]}" -- /nonexistent/program
export FARPAGE_NO_MOVE=1
refused "kernel that cannot see pinned pages" 125 "UFFDIO_MOVE.*--unsafe-dio" "${run[@]}" -- true
"$FARPAGE" run --quiet --unsafe-dio "${run[@]}" -- true
expect "a kernel that cannot see pinned pages is used with --unsafe-dio" 0 $?
matches "and a line says what that gives up" "may be lost" "$("$FARPAGE" run --unsafe-dio "${run[@]}" -- true 2>&1)"
unset FARPAGE_NO_MOVE
refused "more than donors have" 125 "128M" "${run[@]}" --far 1T -- true

printf '#include <stdio.h>\nint main(void) { puts("ran"); return 0; }\n' >"$directory/program.c"
if ${CC:-cc} -static -o "$directory/static" "$directory/program.c" 2>/dev/null; then
	refused "static program" 126 "statically linked" "${run[@]}" -- "$directory/static"
	printf '#!%s\n' "$directory/static" >"$directory/script"
	chmod 755 "$directory/script"
	refused "script of a static interpreter" 126 "statically linked" "${run[@]}" -- "$directory/script"
fi
cp /bin/true "$directory/true"
if chown nobody "$directory/true" 2>/dev/null && chmod 4755 "$directory/true"; then
	refused "setuid program" 126 "setuid" "${run[@]}" -- "$directory/true"
	chmod 755 "$directory/true"
	chgrp nogroup "$directory/true" && chmod 2755 "$directory/true"
	refused "setgid program" 126 "setgid" "${run[@]}" -- "$directory/true"
fi
echo "no program" >"$directory/text"
refused "not executable" 126 "not executable" "${run[@]}" -- "$directory/text"
chmod 755 "$directory/text"
refused "no program" 126 "neither a program nor a script" "${run[@]}" -- "$directory/text"
refused "a directory" 126 "not a file" "${run[@]}" -- "$directory"
printf '#!/bin/sh\necho script ran\n' >"$directory/good"
chmod 755 "$directory/good"
expect "a malloc of its own runs" "0
ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$1")"
refused "a malloc of its own, encrypted" 125 "brings its own malloc.*cannot be encrypted" "${run[@]}" --encrypt --quiet -- "$1"
out=$(FARPAGE_LOCAL=16M FARPAGE_DONORS=rdma://127.0.0.1:7470 LD_PRELOAD=$FARPAGE_PRELOAD_LIBRARY "$1" 2>&1)
expect "a malloc of its own, over RDMA: status" 125 $?
matches "a malloc of its own, over RDMA: reason" "brings its own malloc.*tcp:// donors only" "$out"
expect "a malloc of its own, in a small program" "ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$1" small)"
expect "a script of a good interpreter runs" "script ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$directory/good")"

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
	refused "an mmap of its own" 126 "an mmap or munmap of its own" "${run[@]}" -- "$directory/mapper"
	refused "a child with an mmap of its own" 125 "brings its own mmap" "${run[@]}" --quiet -- sh -c "exec $directory/mapper"
fi

# One that is linked to a fixed address and takes the addresses of these functions has an entry of its own for each, as
# Debian's Python has for malloc.
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
	expect "a program at a fixed address has farpage's malloc and mmap" "ran" \
		"$("$FARPAGE" run "${run[@]}" --encrypt --quiet -- "$directory/fixed" 2>&1)"
fi

# A port that nobody listens on: taken by a donor that is gone.
gone=${DONOR_URIS[1]}
kill "${DONOR_PIDS[1]}"
wait "${DONOR_PIDS[1]}" 2>/dev/null
started=$(date +%s%N)
refused "donor gone" 125 "$gone" --local 16M --donor "${DONOR_URIS[0]}" --donor "$gone" -- true
[ $((($(date +%s%N) - started) / 1000000)) -lt 2500 ]
ok $? "and said so within two seconds"
refused "not an address" 125 "donor|address" --local 16M --donor bla:// -- true

"$FARPAGE" key "$directory/key" >/dev/null && "$FARPAGE" key "$directory/other" >/dev/null
donors_start 1 64M --slab 8M --key "$directory/key"
keyed=(--local 16M --donor "${DONOR_URIS[2]}")
refused "wrong key" 125 "${DONOR_URIS[2]}.*key" "${keyed[@]}" --key "$directory/other" -- true
refused "no key" 125 "${DONOR_URIS[2]}.*key" "${keyed[@]}" -- true
refused "missing key file" 125 "cannot read key file" "${keyed[@]}" --key "$directory/nothing" -- true
chmod 644 "$directory/key"
refused "key that others may read" 125 "chmod 600" "${keyed[@]}" --key "$directory/key" -- true
chmod 600 "$directory/key"
"$FARPAGE" run "${keyed[@]}" --key "$directory/key" --quiet -- true
expect "the right key" 0 $?
tap_done
