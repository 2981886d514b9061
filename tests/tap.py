"""tap: the Test Anything Protocol for tests in Python, as tests/tap.h is for those in C."""
import os
import subprocess
import sys

os.environ.setdefault("FARPAGE_CONFIG", "") # no defaults of this machine's

_count = _failed = 0


def ok(good, name, *notes):
    """One test; @notes are shown if it failed."""
    global _count, _failed
    _count += 1
    print(f"{'' if good else 'not '}ok {_count} - {name}", flush=True)
    if not good:
        _failed += 1
        for note in notes:
            for line in str(note).splitlines():
                print("# " + line, flush=True)
    return good


def done():
    """Prints the plan and ends the program."""
    print(f"1..{_count}", flush=True)
    sys.exit(1 if _failed else 0)


def run(*command, **options):
    """Runs a command to its end, at most a minute; its returncode, stdout and stderr as text."""
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False, **options)


def shown(result):
    """A finished run for a failed test's notes."""
    return f"status {result.returncode}\n{result.stdout}{result.stderr}"
