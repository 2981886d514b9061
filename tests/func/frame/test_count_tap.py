#!/usr/bin/python3
"""Tests of scripts/count_tap.py: the counts and the exit status of ./dev test are right."""
import json
import shutil
from pathlib import Path

from tap import FOLDER, done, ok, run, shown

COUNT = Path(__file__).resolve().parents[3] / "scripts" / "count_tap.py"


def check(name, files, expected, status, mentioned=""):
    """Checks the last line and the exit status of count_tap.py on a folder of @files."""
    folder = FOLDER / "results"
    folder.mkdir()
    for file, text in files.items():
        (folder / file).write_text(text)
    result = run(COUNT, folder)
    shutil.rmtree(folder)
    said = result.stdout + result.stderr
    ok(said.splitlines()[-1:] == [expected] and result.returncode == status and mentioned in said, name, shown(result))


def program(stdout, result="OK", returncode=0):
    return json.dumps({"name": "unit / x", "stdout": stdout, "result": result, "returncode": returncode}) + "\n"


check("count_tap.py counts every TAP line",
      {"t.json": program("ok 1 - a\nok 2 - b\nok 3 - c # SKIP no device\n1..3\n")},
      "2 passed, 0 failed, 1 skipped", 0)
check("count_tap.py counts a skipped program once", {"t.json": program("1..0 # SKIP no device\n", "SKIP")},
      "0 passed, 0 failed, 1 skipped", 0)
check("count_tap.py counts and shows a failed TAP line",
      {"t.json": program("ok 1 - a\nnot ok 2 - b\n# seen\n1..2\n", "FAIL", 1)},
      "1 passed, 1 failed, 0 skipped", 1, "# seen")
check("count_tap.py counts a failed TODO line as skipped and a good one as passed",
      {"t.json": program("not ok 1 - a # TODO some day\nok 2 - b # TODO some day\nok 3 - c\n1..3\n")},
      "2 passed, 0 failed, 1 skipped", 0)
check("count_tap.py counts a crash after good lines as a failure", {"t.json": program("ok 1 - a\n", "ERROR", -11)},
      "1 passed, 1 failed, 0 skipped", 1)
check("count_tap.py counts a bad status after a good plan as a failure",
      {"t.json": program("ok 1 - a\n1..1\n", "ERROR", 66)},
      "1 passed, 1 failed, 0 skipped", 1)
check("count_tap.py counts a time-out without output as a failure", {"t.json": program("", "TIMEOUT")},
      "0 passed, 1 failed, 0 skipped", 1)
check("count_tap.py counts a missing line of the plan as a failure", {"t.json": program("1..3\nok 1 - a\nok 2 - b\n")},
      "2 passed, 1 failed, 0 skipped", 1)
check("count_tap.py adds up the results of all trees",
      {"a.json": program("ok 1 - a\n1..1\n") * 2, "b.json": program("ok 1 - a\n1..1\n")},
      "3 passed, 0 failed, 0 skipped", 0)
check("count_tap.py counts and shows a failed build",
      {"a.json": program("ok 1 - a\n1..1\n"), "b.broken": "x.c:1: error\n"},
      "1 passed, 1 failed, 0 skipped", 1, "x.c:1: error")
check("count_tap.py counts a failure in a .tap file",
      {"a.json": program("ok 1 - a\n1..1\n"), "left.tap": "not ok 1 - swap\n# /f\n1..1\n"},
      "1 passed, 1 failed, 0 skipped", 1, "# /f")
check("count_tap.py fails when there is no test", {}, "0 passed, 1 failed, 0 skipped", 1)

done()
