#!/usr/bin/python3
"""TAP tests of scripts/count_tap.py: what ./dev test says can be relied on."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

COUNT = Path(__file__).resolve().parents[3] / "scripts" / "count_tap.py"
count = failures = 0


def check(name, files, expected, status, mentioned=""):
    """Runs count_tap.py on a directory of @files; its last line and exit status are as expected."""
    global count, failures
    with tempfile.TemporaryDirectory() as directory:
        for file, text in files.items():
            (Path(directory) / file).write_text(text)
        run = subprocess.run([COUNT, directory], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    count += 1
    lines = run.stdout.splitlines()
    if lines[-1:] == [expected] and run.returncode == status and mentioned in run.stdout:
        print(f"ok {count} - {name}")
    else:
        failures += 1
        print(f"not ok {count} - {name}")
        for line in lines + [f"(status {run.returncode})"]:
            print("# " + line)


def program(stdout, result="OK", returncode=0):
    return json.dumps({"name": "unit / x", "stdout": stdout, "result": result, "returncode": returncode}) + "\n"


check("every TAP line counts", {"t.json": program("ok 1 - a\nok 2 - b\nok 3 - c # SKIP no device\n1..3\n")},
      "2 passed, 0 failed, 1 skipped", 0)
check("a program that is skipped counts once", {"t.json": program("1..0 # SKIP no device\n", "SKIP")},
      "0 passed, 0 failed, 1 skipped", 0)
check("a failed line fails, and is shown", {"t.json": program("ok 1 - a\nnot ok 2 - b\n# seen\n1..2\n", "FAIL", 1)},
      "1 passed, 1 failed, 0 skipped", 1, "# seen")
check("a known fault is no failure, and one that is gone passes",
      {"t.json": program("not ok 1 - a # TODO some day\nok 2 - b # TODO some day\nok 3 - c\n1..3\n")},
      "2 passed, 0 failed, 1 skipped", 0)
check("a crash after good lines fails", {"t.json": program("ok 1 - a\n", "ERROR", -11)},
      "1 passed, 1 failed, 0 skipped", 1)
check("a bad status after a good plan fails", {"t.json": program("ok 1 - a\n1..1\n", "ERROR", 66)},
      "1 passed, 1 failed, 0 skipped", 1)
check("a time-out without output fails", {"t.json": program("", "TIMEOUT")}, "0 passed, 1 failed, 0 skipped", 1)
check("fewer lines than planned fail", {"t.json": program("1..3\nok 1 - a\nok 2 - b\n")},
      "2 passed, 1 failed, 0 skipped", 1)
check("trees add up", {"a.json": program("ok 1 - a\n1..1\n") * 2, "b.json": program("ok 1 - a\n1..1\n")},
      "3 passed, 0 failed, 0 skipped", 0)
check("a failed build fails, and is shown", {"a.json": program("ok 1 - a\n1..1\n"), "b.broken": "x.c:1: error\n"},
      "1 passed, 1 failed, 0 skipped", 1, "x.c:1: error")
check("what was left behind counts", {"a.json": program("ok 1 - a\n1..1\n"), "left.tap": "not ok 1 - swap\n# /f\n1..1\n"},
      "1 passed, 1 failed, 0 skipped", 1, "# /f")
check("no test at all is a failure", {}, "0 passed, 1 failed, 0 skipped", 1)

print(f"1..{count}")
sys.exit(1 if failures else 0)
