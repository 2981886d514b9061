#!/usr/bin/python3
"""test_status.py FARPAGE MEMSERVER: farpage status shows each run, and run's last line tells of thrashing."""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
MIB = 1 << 20
LOCAL = 24 * MIB
# The program reads random pages of 64 MiB: argv[1] of them, or without end if that is -1.
PROGRAM = f"""
import random, sys
memory = bytearray({64 * MIB})
for at in range(0, len(memory), 4096):
    memory[at] = 1
print('full', flush=True)
left = int(sys.argv[1])
while left:
    memory[random.randrange(0, len(memory))]
    left -= 1
"""


def shown_run(pid):
    """Returns the data of the run in farpage status, or None."""
    found = [one for one in json.loads(run(farpage, "status", "--json").stdout)["runs"] if one["pid"] == pid]
    return found[0] if found else None


def lines_of(pid):
    return [line for line in run(farpage, "status").stdout.splitlines() if line.split()[0] == str(pid)]


def run_is_shown_while_it_runs(donor):
    process = subprocess.Popen([farpage, "run", "--engine", "pager", "--local", str(LOCAL), "--donor", donor, "--quiet", "--",
                                "/usr/bin/python3", "-c", PROGRAM, "-1"], stdout=subprocess.PIPE, text=True)
    ok(process.stdout.readline() == "full\n", "a run fills its memory")
    one = shown_run(process.pid) or {"command": "", "resident_bytes": 0, "far_bytes": 0}
    ok(one.get("engine") == "pager" and one.get("local_bytes") == LOCAL,
       "farpage status shows a run's engine and budget", one)
    ok(one["command"].startswith("/usr/bin/python3 -c ?import random"),
       "farpage status shows a run's command without control characters", one)
    ok(0 < one["resident_bytes"] <= LOCAL and one["far_bytes"] >= 40 * MIB,
       "farpage status shows a run's resident and far memory", one)
    ok(one.get("faults_per_second", 0) > 0 and 0 < one.get("threads_waiting", 0) < 2,
       "farpage status shows a run's rate of faults and waiting threads", one)
    lines = lines_of(process.pid)
    ok(len(lines) == 1 and " pager " in lines[0] and "%" in lines[0],
       "farpage status shows a run in one line of its table", lines)
    process.terminate()
    process.wait()
    process.stdout.close()
    ok(shown_run(process.pid) is None, "farpage status does not show a run that has ended")


def thrashing_is_told(donor):
    def last_line(local, count):
        result = run(farpage, "run", "--engine", "pager", "--local", local, "--donor", donor, "--", "/usr/bin/python3", "-c",
                     PROGRAM, count)
        return result.stderr.splitlines()[-1]

    line = last_line(str(LOCAL), "60000")
    ok("% of its time waiting for far memory: --local " in line,
       "the last line of a run that thrashed names a larger --local", line)
    wanted = line.partition("--local ")[2].split()[0]
    line = last_line(wanted, "60000")
    ok("waiting for far memory" not in line and "far 0 " in line, "a run with the named --local does not thrash", line)


def bad_arguments_are_refused():
    result = run(farpage, "status", "what")
    ok(result.returncode == 2 and result.stderr.count("\n") == 1, "farpage status refuses an argument", shown(result))
    ok(run(farpage, "status").returncode == 0, "farpage status succeeds without a run")
    result = run(farpage, "status", "--json")
    ok(isinstance(json.loads(result.stdout)["runs"], list), "farpage status --json prints a list without a run",
       shown(result))


def main():
    if not os.access("/dev/userfaultfd", os.R_OK | os.W_OK) and os.geteuid() != 0:
        print("1..0 # SKIP no right to use userfaultfd")
        return
    donor = start_donor(memserver, "--donate", "256M", "--slab", "8M")[1]
    run_is_shown_while_it_runs(donor)
    thrashing_is_told(donor)
    bad_arguments_are_refused()
    stop_donors()
    done()


main()
