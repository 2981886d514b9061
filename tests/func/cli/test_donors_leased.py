#!/usr/bin/python3
"""test_donors_leased.py: farpage donors while a program leases memory, and after its end."""
import subprocess

from donor import Donor
from tap import done, ok, start, wait_until

SLAB = 8 << 20
PROGRAM = "import os, sys; memory = os.urandom(64 << 20); print('here', flush=True); sys.stdin.read()"


donor = Donor("--donate", "128M", "--slab", SLAB)
program = start("run", "--local", "16M", "--donor", donor.uri, "--", "/usr/bin/python3", "-c", PROGRAM,
                stderr=subprocess.DEVNULL)
program.stdout.readline()
answer = donor.says()
ok(answer["clients"] == 1, "donors counts one client while a program runs", answer)
ok(answer["leased_bytes"] >= 48 << 20 and answer["leased_bytes"] % SLAB == 0,
   "donors counts whole slabs, enough for the program's memory", answer)
ok(answer["leased_bytes"] + answer["free_bytes"] == answer["donated_bytes"],
   "leased and free memory add up to the donated memory", answer)
program.communicate()
ok(program.returncode == 0, "the program ends with status 0", program.returncode)
# Longer than the grace time.
ok(wait_until(lambda: (answer := donor.says())["leased_bytes"] == 0 and answer["clients"] == 0),
   "donors counts no lease and no client after the program's end", donor.says())
done()
