#!/bin/bash
# farpage may not follow forks without CAP_SYS_PTRACE. A child may execute another program. A child that touches far
# memory is stopped, and a line says so.
. tests/lib/donor.sh
require_userfaultfd
{ [ "$(id -u)" = 0 ] && [ -w /dev/userfaultfd ]; } || skip_all "only root can give up CAP_SYS_PTRACE, and needs /dev/userfaultfd then"
donors_start 1 256M --slab 8M
stats=$FOLDER/stats

# unfollowed PROGRAM OPTION...: runs Python without CAP_SYS_PTRACE. Leaves its standard output in $out, its
# standard error in $err, the exit status in $status.
unfollowed() {
	command_unfollowed "${@:2}" -- /usr/bin/python3 -c "import os, sys
memory = bytearray(b'x') * (48 << 20)
$1"
}

# command_unfollowed OPTION... -- COMMAND...: runs COMMAND in the same way.
command_unfollowed() {
	setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$FARPAGE" run --engine pager --local 16M "${DONORS[@]}" \
		--stats "$stats" "$@" >"$FOLDER/out" 2>"$FOLDER/err"
	status=$?
	out=$(<"$FOLDER/out") err=$(<"$FOLDER/err")
}

unfollowed "import subprocess; print(subprocess.run(['echo', 'ran'], stdout=-1).stdout, memory[-1])"
expect "an unfollowed child executes another program" "0 b'ran\\n' 120" "$status $out"
expect "farpage prints only the summary if the unfollowed child executes another program" 1 "$(grep -c . <<<"$err")"
"$CC" -O1 -o "$FOLDER/limited" -x c - <<'END' || exit 1
/* Exits with status 0 if a child that touches only its stack has the limit on descriptors of its parent. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	struct rlimit limit;
	char *volatile memory = malloc(48 << 20);
	memset(memory, 1, 48 << 20);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 200;
	setrlimit(RLIMIT_NOFILE, &limit);
	pid_t child = fork();
	if (child == 0)
		_exit(getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur != 200);
	int status;
	return waitpid(child, &status, 0) != child || status;
}
END
command_unfollowed -- "$FOLDER/limited"
expect "an unfollowed child has its parent's limit on descriptors" 0 "$status"
child="
child = os.fork()
if not child:
    print(memory[5], flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), memory[-1])"
unfollowed "$child"
expect "SIGSEGV stops an unfollowed child that reads far memory" "0 -11 120" "$status $out"
matches "a line says that the unfollowed child is stopped" \
	"was forked from one with far memory .* needs CAP_SYS_PTRACE: it is stopped; run farpage as root" "$err"
expect "the line about the unfollowed child appears once" 1 "$(grep -c "was forked" <<<"$err")"
expect "--stats counts the stopped child" 1 "$(stat_of "$stats" children_stopped)"
matches "the summary counts the stopped child" "1 forked child stopped" "$(tail -n 1 <<<"$err")"
unfollowed "$child" --strict
expect "farpage run --strict exits with status 125 if a child was stopped" 125 "$status"
tap_done
