"""machines: benchmarks in virtual machines of tests/vm, one fresh machine for each measurement.

A measurement is a shell script that prints lines "name value". The machine ends with this process, however it ends.
"""
import subprocess
import sys


class Failed(Exception):
    """A measurement failed, for the reason in the text."""


def measure(script, *words, memory=2048, timeout=600, drivers=()):
    """Runs @script in a fresh machine that has @drivers (image.sh). Returns its output as pairs of strings (name, value).
    Its error output goes to standard error if it succeeds, and otherwise into Failed."""
    options = [option for driver in drivers for option in ("--driver", driver)]
    command = ["setpriv", "--pdeathsig", "TERM", "/usr/bin/python3", "-B", "tests/vm/vm.py", "-m", str(memory), "-t", str(timeout),
               *options, " ".join(["bash", script, *(str(word) for word in words)])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failed(f"status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    sys.stderr.write(done.stderr)
    return [tuple(line.split(" ", 1)) for line in done.stdout.splitlines() if " " in line]
