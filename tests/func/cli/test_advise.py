#!/usr/bin/python3
"""test_advise.py: what farpage advises for a run is about what the run needs."""
import json
import os
import re

from donor import Donor
from tap import FOLDER, done, farpage, ok, refused, shown, skip_all, start, wait_until

MIB = 1 << 20
LOCAL = 16
CIRCLE = 48
# What Python needs besides the circle, and what farpage needs for itself: measured, some 5 MiB.
MARGIN = 10
# The program reads the pages of 48 MiB in a fixed disorder, so that no page is read ahead: argv[1] times, or without
# end if that is -1.
PROGRAM = f"""
import random, sys
memory = bytearray({CIRCLE * MIB})
order = list(range(0, len(memory), 4096))
random.Random(1).shuffle(order)
for at in order:
    memory[at] = 1
left = int(sys.argv[1])
while left:
    for at in order:
        memory[at]
    left -= 1
"""
STATS = FOLDER / "stats"


def run_options(donor, local):
    return ("run", "--engine", "pager", "--local", f"{local}M", "--donor", donor, "--stats", STATS, "--", "/usr/bin/python3",
            "-c", PROGRAM)


def rows_of(of):
    """Returns the rows of the table of farpage advise: local memory in MiB, fetches, waiting in percent, seconds."""
    result = farpage("advise", "--noheadings", of)
    return [[float(word.strip("M%")) for word in line.split() if word != "s"] for line in result.stdout.splitlines()]


def a_circle_is_advised_its_size(donor):
    line = farpage(*run_options(donor, LOCAL), "2").stderr.splitlines()[-1]
    found = re.search(r"farpage: (\d+)% of its time waiting for far memory; .*hardly any with --local (\d+)M$", line)
    ok(found, "the last line of a slow run tells how long it waited", line)
    advised = int(found[2]) if found else LOCAL
    ok(CIRCLE <= advised <= CIRCLE + MARGIN, "a run over a circle of 48 MiB is advised about this much", line)
    stats = json.loads(STATS.read_text(encoding="utf-8"))
    rows = rows_of(STATS)
    ok(rows and rows[0][0] == LOCAL and abs(rows[0][1] - stats["fetched_pages"]) <= stats["fetched_pages"] / 100,
       "the first row of the table is what the run fetched", rows, stats["fetched_pages"])
    ok([row[0] for row in rows] == [16, 20, 24, 32, advised] or [row[0] for row in rows] == [16, 20, 24, 32, 48, advised],
       "the table has budgets from the present one to the advised one", rows)
    before = [row for row in rows if row[0] < CIRCLE]
    ok(all(row[1] > rows[0][1] * 0.9 for row in before), "a budget below the circle is told to help little", rows)
    ok(rows[-1][1] < rows[0][1] / 20 and rows[-1][2] <= 2 and rows[-1][3] < rows[0][3],
       "the advised budget is told to end the waiting", rows)

    result = farpage(*run_options(donor, advised), "2")
    less = json.loads(STATS.read_text(encoding="utf-8"))
    ok(less["fetched_pages"] < stats["fetched_pages"] / 4, "a run with the advised budget fetches few pages",
       less["fetched_pages"], stats["fetched_pages"])
    result = farpage(*run_options(donor, 2 * CIRCLE), "1")
    ok("far memory" not in result.stderr, "no budget is advised to a run that needs none", shown(result))
    refused(farpage("advise", STATS), "farpage advise refuses a run that fetched too few pages", "too few", status=1)


def a_run_is_advised_while_it_runs(donor):
    process = start(*run_options(donor, LOCAL), "-1")

    def rows_are_there():
        rows = rows_of(process.pid)
        return bool(rows) and rows[0][1] > 13000

    ok(wait_until(rows_are_there, 60), "farpage advise tells of a run that goes on")
    rows = rows_of(process.pid)
    ok(CIRCLE <= rows[-1][0] <= CIRCLE + MARGIN, "farpage advise names the size of the circle while the run goes on", rows)
    one = [one for one in json.loads(farpage("status", "--json").stdout)["runs"] if one["pid"] == process.pid]
    ok(one and CIRCLE * MIB <= one[0].get("advised_local_bytes", 0) <= (CIRCLE + MARGIN) * MIB,
       "farpage status --json has the advised budget", one)
    table = farpage("status", "--output", "PID,ADVISED").stdout
    ok(re.search(rf"^{process.pid} +\d+M$", table, re.MULTILINE), "farpage status shows the advised budget", table)
    process.terminate()
    process.communicate()
    refused(farpage("advise", process.pid), "farpage advise refuses a run that has ended", "no farpage run", status=1)


def wrong_arguments_are_refused():
    other = FOLDER / "other"
    refused(farpage("advise"), "farpage advise refuses to do without an argument", "one argument", status=2)
    refused(farpage("advise", "1", "2"), "farpage advise refuses two arguments", "one argument", status=2)
    refused(farpage("advise", FOLDER / "none"), "farpage advise refuses a file that does not exist", "none", status=1)
    for text, name in (("{", "no JSON"), ('{"engine": "swap"}', "statistics of the swap engine"), ("[]", "a list"),
                       ('{"local_bytes": 1, "fetched_with_more": [1]}', "half of the figures")):
        other.write_text(text, encoding="utf-8")
        refused(farpage("advise", other), f"farpage advise refuses a file that has {name}", "other", status=1)
    refused(farpage("advise", "--output", "WHAT", STATS), "farpage advise refuses a column that does not exist", status=2)


if not os.access("/dev/userfaultfd", os.R_OK | os.W_OK) and os.geteuid() != 0:
    skip_all("no right to use userfaultfd")
lender = Donor("--donate", "256M", "--slab", "8M").uri
a_circle_is_advised_its_size(lender)
a_run_is_advised_while_it_runs(lender)
wrong_arguments_are_refused()
done()
