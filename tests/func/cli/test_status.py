#!/usr/bin/python3
"""test_status.py: farpage status shows each run, and run's last line tells of thrashing."""
import json
import os
import re

from donor import Donor
from tap import FARPAGE, done, farpage, ok, refused, run, shown, skip, skip_all, start

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


# Two processes, which share the memory of a third, read all of it again and again.
FORKING_PROGRAM = f"""
import os, sys
memory = bytearray({64 * MIB})
for at in range(0, len(memory), 4096):
    memory[at] = 1
for child in range(2):
    if os.fork() == 0:
        for round in range(int(sys.argv[1])):
            sum(memory[::4096])
            if round == 0:
                print('read', flush=True)
        os._exit(0)
for child in range(2):
    os.wait()
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


def forked_children_count(donor):
    if os.geteuid() != 0:
        skip("the memory of forked children counts", "only root's forked children can have far memory")
        return
    words = ("run", "--engine", "pager", "--local", LOCAL, "--donor", donor, "--", "/usr/bin/python3", "-c", FORKING_PROGRAM)
    process = start(*words, str(1 << 30))
    process.stdout.readline()
    process.stdout.readline()
    one = shown_run(process.pid) or {"resident_bytes": 0}
    ok(2 * LOCAL < one["resident_bytes"] <= 3 * LOCAL, "farpage status counts the memory of forked children as resident", one)
    process.terminate()
    process.communicate()
    line = farpage(*words, "40").stderr
    together = re.search(r"peak resident (\S+)M of 24M \(all processes together (\S+)M\), far ", line)
    ok(together and float(together[1]) <= 24 < 48 < float(together[2]) <= 72,
       "the last line of a run names the memory of all processes together", line)


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


def as_nobody(*words):
    return run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", FARPAGE, *words)


def runs_of_other_users_are_counted(donor):
    name = "runs of other users are counted, and not shown"
    if os.geteuid() != 0 or as_nobody("--version").returncode != 0:
        skip(name, "no root, or no program that another user can execute")
        return
    before = json.loads(as_nobody("status", "--json").stdout)["runs_of_others"]
    process = start("run", "--engine", "pager", "--local", LOCAL, "--donor", donor, "--quiet", "--", "/usr/bin/python3", "-c",
                    PROGRAM, "-1", "a secret")
    process.stdout.readline()
    result = as_nobody("status")
    count = before + 1
    ok(result.returncode == 0 and result.stdout.startswith("no farpage run of this user\n") and
       (f"{count} runs of other users" if before else "1 run of another user is not shown") in result.stdout, name,
       shown(result))
    ok("secret" not in result.stdout + result.stderr and str(process.pid) not in result.stdout,
       "nothing of another user's run is shown", shown(result))
    data = json.loads(as_nobody("status", "--json").stdout)
    ok(data == {"runs": [], "runs_of_others": count}, "JSON counts the runs of other users, each once", data)
    ok(json.loads(farpage("status", "--json").stdout)["runs_of_others"] == 0, "no run is closed to root")
    process.terminate()
    process.communicate()
    ok(json.loads(as_nobody("status", "--json").stdout)["runs_of_others"] == before, "a run that has ended is not counted")


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
forked_children_count(lender)
runs_of_other_users_are_counted(lender)
thrashing_is_told(lender)
bad_arguments_are_refused()
done()
