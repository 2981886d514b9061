#!/usr/bin/python3
"""count_tap.py DIR: the results of one ./dev test, from DIR:

    TREE.broken  the output of a tree that could not be built, or gave no results
    TREE.json    meson's testlog.json: a line for each test program, its TAP output in it
    NAME.tap     TAP output of a test that is not meson's

Prints each failed test with its output, then "N passed, N failed, N skipped". Exit status 1 if any failed or none
ran. A test is one TAP line; a program that crashes, times out or stops short of its plan fails one test more. What is
marked TODO is a known fault and expected to fail, as TAP has it: it counts as skipped then.
"""
import json
import os
import re
import sys
from pathlib import Path

TEST_LINE = re.compile(r"^(not )?ok\b(.*?)(?:#\s*(SKIP|TODO)\b.*)?$", re.IGNORECASE)
PLAN_LINE = re.compile(r"^1\.\.(\d+)(\s*#\s*SKIP\b.*)?", re.IGNORECASE)
FINE = ("OK", "SKIP", "EXPECTEDFAIL")

RED, PLAIN = ("\033[31m", "\033[0m") if sys.stdout.isatty() and os.environ.get("CI") != "true" else ("", "")


def read_tap(output):
    """(passed, failed, skipped, whether the output is complete)"""
    passed = failed = skipped = 0
    planned = None
    complete = True
    for line in output.splitlines():
        plan = PLAN_LINE.match(line)
        test = TEST_LINE.match(line)
        if plan:
            planned = int(plan[1])
            if planned == 0:
                skipped += 1
                planned = None
                return passed, failed, skipped, True
        elif test:
            directive = (test[3] or "").upper()
            if directive == "SKIP" or (test[1] and directive == "TODO"):
                skipped += 1
            elif test[1]:
                failed += 1
            else:
                passed += 1
        elif line.startswith("Bail out!"):
            complete = False
    return passed, failed, skipped, complete and planned == passed + failed + skipped


def show(title, output):
    lines = output.rstrip().splitlines()
    print(f"\n{RED}FAILED: {title}{PLAIN}")
    for line in lines:
        if line.startswith("not ok"):
            print("  " + line)
    print("  the end of its output:")
    for line in lines[-200:]:
        print("  " + line)


def count_program(tree, program):
    output = program.get("stdout") or ""
    passed, failed, skipped, complete = read_tap(output)
    result = program["result"]
    if passed + failed + skipped == 0 and result in FINE:  # a test that speaks no TAP
        return (0, 0, 1) if result == "SKIP" else (1, 0, 0)
    if not failed and (result not in FINE or not complete):
        failed = 1
    if failed:
        show(f"{tree}: {program['name']} ({result}, status {program.get('returncode')})",
             output + "\n" + (program.get("stderr") or ""))
    return passed, failed, skipped


def count_file(path):
    text = path.read_text(errors="replace")
    if path.suffix == ".broken":
        show(f"{path.stem} does not build or run", text)
        return [(0, 1, 0)]
    if path.suffix == ".tap":
        passed, failed, skipped, complete = read_tap(text)
        if failed or not complete:
            show(path.stem, text)
            failed = failed or 1
        return [(passed, failed, skipped)]
    return [count_program(path.stem, json.loads(line)) for line in text.splitlines() if line.strip()]


def main():
    files = sorted(path for path in Path(sys.argv[1]).iterdir() if path.suffix in (".broken", ".json", ".tap"))
    counts = [count for path in files for count in count_file(path)]
    passed, failed, skipped = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    if not any(path.suffix in (".broken", ".json") for path in files):
        print("\nno test of that name")
        failed += 1
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
