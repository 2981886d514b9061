#!/usr/bin/python3
"""run_tests.py BUILD PATTERN...: runs functional tests of a build tree one after the other, and joins their TAP.

It runs in a virtual machine. The commands of the tests come from files that meson left in the tree. Meson itself is not
needed. PATTERNs are shell patterns for meson's names of tests. Each pattern must match a test. A test may take TIMES its
timeout, because an emulated processor runs it.
"""
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

TIMES = 4
TEST_LINE = re.compile(r"^(not ok|ok)\b\s*\d*\s*-?\s*(.*)")
PLAN_LINE = re.compile(r"^1\.\.(\d+)(?:\s*#\s*SKIP\b\s*(.*))?", re.IGNORECASE)

count = failed = 0


def report(good, name):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)


def choose(tests, patterns):
    chosen = []
    for pattern in patterns:
        found = [test for test in tests if fnmatch.fnmatch(test["name"], pattern) and
                 any(suite.endswith(":func") for suite in test["suite"])]
        if not found:
            report(False, f"pattern {pattern} matches a functional test")
        chosen += [test for test in found if test not in chosen]
    return chosen


def run(test, build):
    """Runs one test. Also checks that it keeps to its plan, ends in time, and ends with status 0 if no check failed."""
    name = test["name"]
    seen = bad = 0
    planned = None
    overdue = threading.Event()
    process = subprocess.Popen(test["cmd"], env={**os.environ, **test["env"]}, cwd=test["workdir"] or build,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)

    def give_up():
        overdue.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(test["timeout"] * TIMES, give_up)
    timer.start()
    for line in process.stdout:
        line = line.rstrip("\n")
        if match := TEST_LINE.match(line):
            seen += 1
            good = match[1] == "ok" or "# TODO" in line
            bad += not good
            report(good, f"{name}: {match[2]}")
        elif match := PLAN_LINE.match(line):
            planned = int(match[1])
            if planned == 0:
                report(True, f"{name} # SKIP {match[2] or ''}")
        else:
            print(line if line.startswith("#") else "# " + line, flush=True)
    status = process.wait()
    timer.cancel()
    if overdue.is_set():
        report(False, f"{name} ends in time")
    elif planned != seen or (status and not bad):
        report(False, f"{name} runs its planned checks and ends well (status {status}, {seen} of {planned})")


def main():
    build, *patterns = sys.argv[1:]
    tests = json.loads(Path(build, "meson-info", "intro-tests.json").read_text(encoding="utf-8"))
    for test in choose(tests, patterns):
        run(test, build)
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(main())
