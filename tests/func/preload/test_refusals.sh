#!/bin/bash
# farpage run refuses some options and programs. One line names the cause. Exit statuses are those of env(1).
. tests/lib/donor.sh
require_userfaultfd
donors_start 2 64M --slab 8M
chmod 755 "$FOLDER"

# run_refused NAME STATUS PATTERN OPTION...: checks that farpage run refuses the options with STATUS and one line
run_refused() {
	refused "$1" "$2" "$3" "$FARPAGE" run "${@:4}"
}
run=(--engine pager --local 16M "${DONORS[@]}")

run_refused "a run without a command" 125 "command is missing" "${run[@]}"
run_refused "a run without a donor" 125 "--donor" --local 16M -- true
run_refused "an unknown option" 125 "--frobnicate|frobnicate" --frobnicate "${run[@]}" -- true
run_refused "a budget of 0" 125 "local" --local 0 "${DONORS[@]}" -- true
run_refused "a budget below the least" 125 "the least that works is 8M" --local 1M "${DONORS[@]}" -- true
run_refused "a budget below the least for --encrypt" 125 "with --encrypt is 10M" --local 9M --encrypt "${DONORS[@]}" -- true
run_refused "a program that is not in PATH" 127 "no such program" "${run[@]}" -- farpage-test-nothing
run_refused "a program file that does not exist" 127 "/nonexistent/program" "${run[@]}" -- /nonexistent/program
export FARPAGE_NO_MOVE=1
run_refused "a kernel that cannot see pinned pages" 125 "UFFDIO_MOVE.*--unsafe-dio" "${run[@]}" -- true
"$FARPAGE" run --quiet --unsafe-dio "${run[@]}" -- true
expect "--unsafe-dio lets a program run on a kernel that cannot see pinned pages" 0 $?
matches "a line says that --unsafe-dio may lose data" \
	"may be lost" "$("$FARPAGE" run --unsafe-dio "${run[@]}" -- true 2>&1)"
unset FARPAGE_NO_MOVE
run_refused "--far above what the donors lend" 125 "128M" "${run[@]}" --far 1T -- true

run_refused "a command that may open too few files" 125 \
	"may open only 1[0-9] more files, and farpage needs 40" "${run[@]}" --quiet -- sh -c 'ulimit -n 20; head -c 99M /dev/zero | tail -c 50M'
may_raise() (ulimit -v 1000000 && ulimit -v unlimited) 2>/dev/null
may_raise || refused "a hard limit of address space that farpage may not raise" 125 "ulimit -Hv" \
	sh -c 'ulimit -v 1000000; exec "$@"' sh "$FARPAGE" run "${run[@]}" --quiet -- true
expect "a soft limit of address space is raised, and the program sees it as it was" "900000" \
	"$(ulimit -Sv 900000; "$FARPAGE" run "${run[@]}" --quiet -- sh -c 'ulimit -v')"

printf '#include <stdio.h>\nint main(void) { puts("ran"); return 0; }\n' >"$FOLDER/program.c"
if ${CC:-cc} -static -o "$FOLDER/static" "$FOLDER/program.c" 2>/dev/null; then
	run_refused "a statically linked program" 126 "statically linked" "${run[@]}" -- "$FOLDER/static"
	printf '#!%s\n' "$FOLDER/static" >"$FOLDER/script"
	chmod 755 "$FOLDER/script"
	run_refused "a script of a statically linked interpreter" 126 "statically linked" "${run[@]}" -- "$FOLDER/script"
fi
cp /bin/true "$FOLDER/true"
if chown nobody "$FOLDER/true" 2>/dev/null && chmod 4755 "$FOLDER/true"; then
	run_refused "a setuid program" 126 "setuid" "${run[@]}" -- "$FOLDER/true"
	chmod 755 "$FOLDER/true"
	chgrp nogroup "$FOLDER/true" && chmod 2755 "$FOLDER/true"
	run_refused "a setgid program" 126 "setgid" "${run[@]}" -- "$FOLDER/true"
fi
echo "no program" >"$FOLDER/text"
run_refused "a file that is not executable" 126 "not executable" "${run[@]}" -- "$FOLDER/text"
chmod 755 "$FOLDER/text"
run_refused "an executable file that is neither program nor script" 126 \
	"neither a program nor a script" "${run[@]}" -- "$FOLDER/text"
run_refused "a directory in place of a program" 126 "not a file" "${run[@]}" -- "$FOLDER"
printf '#!/bin/sh\necho script ran\n' >"$FOLDER/good"
chmod 755 "$FOLDER/good"
expect "a program with its own malloc runs with far memory" "0
ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$1")"
run_refused "a program with its own malloc and --encrypt" 125 \
	"brings its own malloc.*cannot be encrypted" "${run[@]}" --encrypt --quiet -- "$1"
out=$(FARPAGE_LOCAL=16M FARPAGE_DONORS=rdma://127.0.0.1:7470 LD_PRELOAD=$FARPAGE_PRELOAD_LIBRARY "$1" 2>&1)
expect "a program with its own malloc and rdma:// donors is refused with status 125" 125 $?
matches "a program with its own malloc and rdma:// donors is refused with its cause" \
	"brings its own malloc.*tcp:// donors only" "$out"
expect "a small program with its own malloc runs without far memory" \
	"ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$1" small)"
expect "a script of a dynamically linked interpreter runs" \
	"script ran" "$("$FARPAGE" run "${run[@]}" --quiet -- "$FOLDER/good")"

cat >"$FOLDER/mapper.c" <<'END'
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
if ${CC:-cc} -w -rdynamic -o "$FOLDER/mapper" "$FOLDER/mapper.c" 2>/dev/null; then
	run_refused "a program with its own mmap" 126 "an mmap or munmap of its own" "${run[@]}" -- "$FOLDER/mapper"
	run_refused "a child with its own mmap" 125 \
		"brings its own mmap" "${run[@]}" --quiet -- sh -c "exec $FOLDER/mapper"
fi

# A library with the name of gcc's stands for the sanitizer.
if ${CC:-cc} -shared -Wl,-soname,libtsan.so.2 -x c -o "$FOLDER/libtsan.so.2" /dev/null 2>/dev/null &&
	${CC:-cc} -Wl,--no-as-needed -o "$FOLDER/sanitized" "$FOLDER/program.c" "$FOLDER/libtsan.so.2"; then
	run_refused "a program built with ThreadSanitizer" 126 "built with -fsanitize" "${run[@]}" -- "$FOLDER/sanitized"
fi

# If a program at a fixed address takes the address of a library function, the program gets its own entry for this
# function. Debian's Python has such an entry for malloc.
cat >"$FOLDER/fixed.c" <<'END'
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
if ${CC:-cc} -no-pie -fno-pie -o "$FOLDER/fixed" "$FOLDER/fixed.c" 2>/dev/null; then
	expect "a program at a fixed address uses farpage's malloc and mmap" "ran" \
		"$("$FARPAGE" run "${run[@]}" --encrypt --quiet -- "$FOLDER/fixed" 2>&1)"
fi

# A port without a listener: the port of a donor that has ended.
gone=${DONOR_URIS[1]}
donor_kill 1
started=$(date +%s%N)
run_refused "a donor that cannot be reached" 125 "$gone" --local 16M --donor "${DONOR_URIS[0]}" --donor "$gone" -- true
check "a donor that cannot be reached is refused within 2.5 s" [ $((($(date +%s%N) - started) / 1000000)) -lt 2500 ]
run_refused "a donor address of unknown form" 125 "donor|address" --local 16M --donor bla:// -- true

"$FARPAGE" key "$FOLDER/key" >/dev/null && "$FARPAGE" key "$FOLDER/other" >/dev/null
donors_start 1 64M --slab 8M --key "$FOLDER/key"
keyed=(--local 16M --donor "${DONOR_URIS[2]}")
run_refused "a key that differs from the donor's" 125 "${DONOR_URIS[2]}.*key" "${keyed[@]}" --key "$FOLDER/other" -- true
run_refused "a run without a key for a donor with one" 125 "${DONOR_URIS[2]}.*key" "${keyed[@]}" -- true
run_refused "a missing key file" 125 "cannot read key file" "${keyed[@]}" --key "$FOLDER/nothing" -- true
chmod 644 "$FOLDER/key"
run_refused "a key file that others may read" 125 "chmod 600" "${keyed[@]}" --key "$FOLDER/key" -- true
chmod 600 "$FOLDER/key"
"$FARPAGE" run "${keyed[@]}" --key "$FOLDER/key" --quiet -- true
expect "a run with the donor's key succeeds" 0 $?
tap_done
