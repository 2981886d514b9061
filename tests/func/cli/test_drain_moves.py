#!/usr/bin/python3
"""
test_drain_moves.py FARPAGE MEMSERVER: donors are drained and killed while a program works on all its memory. The pages
move to other donors, and no page is lost or wrong.
"""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
# The program reads and writes every page over and over. A page has its number and its count of writes.
PROGRAM = """
import os, random, select, struct, sys
PAGES = 12288
memory = bytearray(PAGES * 4096)
written = [0] * PAGES
def write(page):
    written[page] += 1
    struct.pack_into('<QQ', memory, page * 4096 + 100, page, written[page])
def check(page):
    if struct.unpack_from('<QQ', memory, page * 4096 + 100) != (page, written[page]):
        print('wrong page', page, flush=True)
        sys.exit(3)
for page in range(PAGES):
    write(page)
print('here', flush=True)
rounds = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(500):
        page = random.randrange(PAGES)
        check(page)
        write(page)
    rounds += 1
for page in range(PAGES):
    check(page)
print('right', rounds, flush=True)
"""


def drained_pages_move_to_other_donors(replicas, donors):
    name = f"{replicas} replica{'s' if replicas > 1 else ''}, {donors} donors"
    started = [start_donor(memserver, "--donate", "128M", "--slab", "4M") for _ in range(donors)]
    words = [word for _, uri in started for word in ("--donor", uri)]
    program = subprocess.Popen([farpage, "run", "--local", "16M", "--replicas", str(replicas), *words, "--",
                                "/usr/bin/python3", "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    ok(program.stdout.readline() == "here\n", f"{name}: a program fills its memory")
    process, uri = started[0]
    result = run(farpage, "donors", "drain", uri, "--timeout", "50")
    ok(result.returncode == 0 and "safe to power it off" in result.stdout,
       f"{name}: a donor is drained while the program works", shown(result))
    process.kill()
    process.wait()
    result = run(farpage, "donors", "drain", started[1][1], "--force", "--deadline", "30", "--timeout", "50") \
        if donors > replicas + 1 else None
    if result:
        ok(result.returncode == 0, f"{name}: a second donor is drained by force", shown(result))
    output, errors = program.communicate("\n")
    ok(program.returncode == 0 and output.startswith("right "),
       f"{name}: every page has its last write after drained donors are powered off", program.returncode, output,
       errors)


try:
    drained_pages_move_to_other_donors(1, 3)
    drained_pages_move_to_other_donors(2, 3)
finally:
    stop_donors()
done()
