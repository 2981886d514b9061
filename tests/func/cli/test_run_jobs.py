#!/usr/bin/python3
"""
test_run_jobs.py: farpage run and its command as one job: a stop by the terminal, a stop by SIGSTOP,
and SIGKILL to farpage run. Jobs that follow each other.
"""
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from donor import Donor
from tap import FARPAGE, FOLDER, done, farpage, ok, shown, start, wait_until

# Ends with status 3 when the file exists. A shell would not do: a stop in the middle of its vfork() may never end.
COMMAND = """
import os, sys, time
print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
sys.exit(3)
"""
CTRL_Z = b"\x1a"


def field_of(pid, name):
    """Returns a field of /proc/PID/status, or "" if the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":")[1].strip() for line in lines if line.startswith(name + ":")), "")


def state_of(pid):
    return field_of(pid, "State")[:1]


def waits_for_child_signal(pid):
    return int(field_of(pid, "ShdPnd") or "0", 16) >> (signal.SIGCHLD - 1) & 1


def begin(donor, go):
    """Starts farpage run, with a command that ends when the file @go exists. Returns its process and its command's pid."""
    process = start("run", "--local", "16M", "--donor", donor, "--quiet", "--", sys.executable, "-c", COMMAND, go,
                    stdin=subprocess.DEVNULL, stderr=None, start_new_session=True)
    return process, int(process.stdout.readline())


def end(process, command):
    """Ends the processes of a failed test."""
    for pid in (command, process.pid):
        for number in (signal.SIGKILL, signal.SIGCONT):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
    process.wait()
    process.stdout.close()


def command_is_stopped_and_continued_alone(donor):
    go = FOLDER / "alone"
    process, command = begin(donor, go)
    os.kill(command, signal.SIGSTOP)
    ok(wait_until(lambda: state_of(command) == "T"), "SIGSTOP to the command stops the command")
    wait_until(lambda: not waits_for_child_signal(process.pid))
    os.kill(command, signal.SIGCONT)
    go.touch()
    ok(wait_until(lambda: process.poll() is not None) and process.returncode == 3,
       "farpage run ends with a command that was stopped and continued alone")
    end(process, command)


def ctrl_z_stops_run_and_its_command(donor):
    go = FOLDER / "terminal"
    script = ('set -m; "$0" run --local 16M --donor "$1" --quiet -- python3 -c "$2" "$3"; echo stopped $?; '
              'touch "$3"; fg >/dev/null; echo ended $?')
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv("/bin/bash", ["bash", "-c", script, FARPAGE, donor, COMMAND, str(go)])
    said, stopped = "", False
    while "ended" not in said:
        try:
            said += os.read(terminal, 4096).decode()
        except OSError:
            break
        if not stopped and "\n" in said:
            stopped = True
            os.write(terminal, CTRL_Z)
    os.waitpid(pid, 0)
    os.close(terminal)
    ok("stopped 14" in said, "Ctrl-Z stops farpage run together with its command")
    ok("ended 3" in said, "fg continues farpage run and its command")


def killed_run_ends_its_command(donor):
    process, command = begin(donor, FOLDER / "never")
    process.kill()
    process.wait()
    ok(wait_until(lambda: state_of(command) in ("", "Z")), "SIGKILL to farpage run ends its command")
    end(process, command)


def jobs_follow_each_other_on_a_donor_that_one_fills():
    donor = Donor("--donate", "64M", "--slab", "1M")
    for number in range(3):
        result = farpage("run", "--engine", "pager", "--local", "24M", "--far", "60M", "--donor", donor.uri, "--",
                         sys.executable, "-c", "import os; data = os.urandom(64 << 20); print(data[:9] == data[0:9])")
        ok(result.returncode == 0 and result.stdout == "True\n",
           f"job {number + 1} finds room on a donor that the job before has left full", shown(result))


address = Donor("--donate", "64M").uri
command_is_stopped_and_continued_alone(address)
ctrl_z_stops_run_and_its_command(address)
killed_run_ends_its_command(address)
jobs_follow_each_other_on_a_donor_that_one_fills()
done()
