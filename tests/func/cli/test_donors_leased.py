#!/usr/bin/python3
"""test_donors_leased.py FARPAGE MEMSERVER: farpage donors while a program leases memory, and after its end."""
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
SLAB = 8 << 20
PROGRAM = "import os, sys; memory = os.urandom(64 << 20); print('here', flush=True); sys.stdin.read()"


def ask(donor):
    result = run(farpage, "donors", "--donor", donor, "--json")
    return json.loads(result.stdout)["donors"][0], shown(result)


def leases_are_counted_while_a_program_runs(donor):
    program = subprocess.Popen([farpage, "run", "--local", "16M", "--donor", donor, "--", "/usr/bin/python3", "-c",
                                PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    program.stdout.readline()
    answer, note = ask(donor)
    ok(answer["clients"] == 1, "donors counts one client while a program runs", note)
    ok(answer["leased_bytes"] >= 48 << 20 and answer["leased_bytes"] % SLAB == 0,
       "donors counts whole slabs, enough for the program's memory", note)
    ok(answer["leased_bytes"] + answer["free_bytes"] == answer["donated_bytes"],
       "leased and free memory add up to the donated memory", note)
    program.communicate()
    ok(program.returncode == 0, "the program ends with status 0", program.returncode)
    deadline = time.monotonic() + 20 # longer than the grace time
    while answer["leased_bytes"] and time.monotonic() < deadline:
        time.sleep(0.1)
        answer, note = ask(donor)
    ok(answer["leased_bytes"] == 0 and answer["clients"] == 0,
       "donors counts no lease and no client after the program's end", note)


try:
    leases_are_counted_while_a_program_runs(start_donor(memserver, "--donate", "128M", "--slab", str(SLAB))[1])
finally:
    stop_donors()
done()
