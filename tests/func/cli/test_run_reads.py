#!/usr/bin/python3
"""
test_run_reads.py: one read(2) into fresh far memory, much larger than the budget. The program's
thread is in the kernel all the time. Leases, writes and heartbeats must not need it.
"""
import hashlib
import os
import subprocess

from donor import Donor
from tap import FOLDER, done, ok, start

SIZE = 96 << 20
PROGRAM = """
import hashlib, mmap, os, sys
memory = mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
with open(sys.argv[1], "rb", buffering=0) as file:
    print(file.readinto(memory))
print(hashlib.sha256(memory).hexdigest())
"""


def large_read_into_far_memory_ends(donor):
    path = FOLDER / "file"
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for _ in range(SIZE >> 20):
            block = os.urandom(1 << 20)
            digest.update(block)
            file.write(block)
    process = start("run", "--local", "12M", "--donor", donor, "--", "/usr/bin/python3", "-c", PROGRAM.format(size=SIZE), path,
                    start_new_session=True)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        err += "timed out\n"
    ok(process.returncode == 0, "a read(2) much larger than the budget ends", err)
    ok(out.split() == [str(SIZE), digest.hexdigest()], "a read(2) much larger than the budget returns all of the file",
       out, err)


large_read_into_far_memory_ends(Donor("--donate", "256M").uri)
done()
