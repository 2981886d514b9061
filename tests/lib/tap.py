"""tap: the Test Anything Protocol for tests in Python, as tap.h and tap.sh are for those in C and bash.

FOLDER is a folder for the test's files. FARPAGE is the command under test, which the environment names.
"""
import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("FARPAGE_CONFIG", "") # no defaults of this machine's
FARPAGE = os.environ.get("FARPAGE", "farpage")
FOLDER = Path(tempfile.mkdtemp(prefix="farpage-test-"))

_count = _failed = 0
_test = os.getpid() # a forked child has another
_undo = []


def ok(good, name, *notes):
    """Reports one check. Shows @notes if it failed."""
    global _count, _failed
    _count += 1
    print(f"{'' if good else 'not '}ok {_count} - {name}", flush=True)
    if not good:
        _failed += 1
        for note in notes:
            for line in str(note).splitlines():
                print("# " + line, flush=True)
    return good


def skip(name, why):
    """Reports a skipped check."""
    ok(True, f"{name} # SKIP {why}")


def at_end(undo):
    """Has @undo called when the test ends; functions given later are called first. @undo may report checks."""
    _undo.append(undo)


def _end():
    while _undo and os.getpid() == _test:
        _undo.pop()()


def _remove_folder():
    if os.getpid() == _test:
        shutil.rmtree(FOLDER, ignore_errors=True)


atexit.register(_remove_folder)
atexit.register(_end) # called first


def done():
    """Calls all undo functions, prints the plan and ends the program."""
    _end()
    print(f"1..{_count}", flush=True)
    sys.exit(1 if _failed else 0)


def skip_all(why):
    """Ends a test that cannot run here."""
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def run(*command, **options):
    """Runs a command for at most a minute. Returns its returncode, and its stdout and stderr as text."""
    return subprocess.run([str(word) for word in command], **{
        "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60,
        "check": False, **options})


def options_of(text):
    """Returns the options that a --help lists, without their dashes."""
    return set(re.findall(r"^  --([a-z-]+)", text, re.MULTILINE))


def verbs_of(text):
    """Returns the verbs that a --help lists."""
    return re.findall(r"^  ([a-z]+) ", text.partition("\nverbs:\n")[2].partition("\n\n")[0], re.MULTILINE)


def farpage(*words, **options):
    """Runs the farpage command to its end."""
    return run(FARPAGE, *words, **options)


def start(*words, **options):
    """Starts the farpage command with pipes to all its streams. Returns the process, which the test's end kills."""
    process = subprocess.Popen([FARPAGE, *map(str, words)], **{
        "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options})
    at_end(process.kill)
    return process


def shown(result):
    """Returns the text of a finished run for the notes of a failed check."""
    return f"status {result.returncode}\n{result.stdout}{result.stderr}"


def refused(result, name, *words, status=None):
    """Checks that a refused command prints one line with @words on standard error, and nothing else."""
    good = result.returncode == status if status else result.returncode > 0
    ok(good and result.stdout == "" and result.stderr.count("\n") == 1 and
       result.stderr.startswith(("farpage: ", "farpage-blockdev: ")) and all(word in result.stderr for word in words),
       name, shown(result), f"words: {words}")


def wait_until(condition, seconds=20):
    """Waits until the condition is true. Returns false if that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def make_key(name="key"):
    """Makes a key file in FOLDER. Returns its path."""
    farpage("key", FOLDER / name)
    return FOLDER / name
