#!/bin/bash
# Forks where farpage may not follow them (no CAP_SYS_PTRACE): a child executes another program, or is stopped with a line.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
{ [ "$(id -u)" = 0 ] && [ -w /dev/userfaultfd ]; } || skip_all "only root can give up CAP_SYS_PTRACE, and needs /dev/userfaultfd then"
. "$here/../donors.sh"
donors_start 1 256M --slab 8M
stats=$DONORS_DIRECTORY/stats

# unfollowed PROGRAM OPTION...: Python, without the right; its standard output in $out, and error in $err
unfollowed() {
	setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$FARPAGE" run --engine pager --local 16M "${DONORS[@]}" --stats "$stats" "${@:2}" \
		-- /usr/bin/python3 -c "import os, sys
memory = bytearray(b'x') * (48 << 20)
$1" >"$DONORS_DIRECTORY/out" 2>"$DONORS_DIRECTORY/err"
	status=$?
	out=$(<"$DONORS_DIRECTORY/out") err=$(<"$DONORS_DIRECTORY/err")
}

unfollowed "import subprocess; print(subprocess.run(['echo', 'ran'], stdout=-1).stdout, memory[-1])"
expect "a child that executes another program" "0 b'ran\\n' 120" "$status $out"
expect "nothing is said of it" 1 "$(grep -c . <<<"$err")"
child="
child = os.fork()
if not child:
    print(memory[5], flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), memory[-1])"
unfollowed "$child"
expect "a child that goes on is stopped by SIGSEGV" "0 -11 120" "$status $out"
matches "and one line says so" "was forked from one with far memory .* root only: it is stopped" "$err"
expect "once" 1 "$(grep -c "was forked" <<<"$err")"
expect "it is counted" 1 "$(stat_of "$stats" children_stopped)"
matches "and in the last line" "1 forked child stopped" "$(tail -n 1 <<<"$err")"
unfollowed "$child" --strict
expect "--strict: the exit status tells of it" 125 "$status"
tap_done
