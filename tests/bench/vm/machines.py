"""machines: benchmarks in virtual machines of tests/vm, one fresh machine for each measurement.

A measurement is a shell script that prints lines "name value". The machine ends with this process, however it ends.
"""
import subprocess
import sys


class Failed(Exception):
    """A measurement that did not end well, in a line or more."""


def measure(script, *words, memory=2048, timeout=600):
    """What @script printed in a machine of its own: (name, value) pairs, both strings. What it complained of goes to standard
    error if it ended well, and into Failed if it did not."""
    command = ["setpriv", "--pdeathsig", "TERM", "/usr/bin/python3", "-B", "tests/vm/vm.py", "-m", str(memory), "-t", str(timeout),
               " ".join(["bash", script, *(str(word) for word in words)])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failed(f"status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    sys.stderr.write(done.stderr)
    return [tuple(line.split(" ", 1)) for line in done.stdout.splitlines() if " " in line]
