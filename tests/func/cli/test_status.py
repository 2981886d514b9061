#!/usr/bin/python3
"""test_status.py: farpage status shows each run, and run's last line tells of thrashing."""
import json
import os
import re

from donor import Donor
from tap import done, farpage, ok, refused, shown, skip_all, start

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
    found = [one for one in json.loads(farpage("status", "--json").stdout)["runs"] if one["pid"] == pid]
    return found[0] if found else None


def lines_of(pid):
    return [line for line in farpage("status").stdout.splitlines() if line.split()[0] == str(pid)]


def run_is_shown_while_it_runs(donor):
    process = start("run", "--engine", "pager", "--local", LOCAL, "--donor", donor, "--quiet", "--", "/usr/bin/python3", "-c",
                    PROGRAM, "-1")
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
    process.communicate()
    ok(shown_run(process.pid) is None, "farpage status does not show a run that has ended")


def thrashing_is_told(donor):
    def lines_of_run(local, count):
        result = farpage("run", "--engine", "pager", "--local", local, "--donor", donor, "--", "/usr/bin/python3", "-c",
                     PROGRAM, count)
        return result.stderr.splitlines()

    def fetched(lines):
        return int(re.search(r"fetched (\d+) pages", " ".join(lines))[1])

    thrashing = lines_of_run(str(LOCAL), "60000")
    line = thrashing[-1]
    ok("% of its time waiting for far memory; " in line and "hardly any with --local " in line,
       "the last line of a run that thrashed names a larger --local", line)
    wanted = line.rpartition("--local ")[2].split()[0]
    better = lines_of_run(wanted, "60000")
    ok(fetched(better) < fetched(thrashing) / 10, "a run with the named --local fetches less than a tenth", thrashing, better)


def bad_arguments_are_refused():
    refused(farpage("status", "what"), "farpage status refuses an argument", status=2)
    ok(farpage("status").returncode == 0, "farpage status succeeds without a run")
    result = farpage("status", "--json")
    ok(isinstance(json.loads(result.stdout)["runs"], list), "farpage status --json prints a list without a run",
       shown(result))


if not os.access("/dev/userfaultfd", os.R_OK | os.W_OK) and os.geteuid() != 0:
    skip_all("no right to use userfaultfd")
lender = Donor("--donate", "256M", "--slab", "8M").uri
run_is_shown_while_it_runs(lender)
thrashing_is_told(lender)
bad_arguments_are_refused()
done()
