#!/usr/bin/python3
"""
test_run_reads.py FARPAGE MEMSERVER: one read(2) into fresh far memory, much larger than the budget. The program's
thread is in the kernel all the time. Leases, writes and heartbeats must not need it.
"""
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
SIZE = 96 << 20
PROGRAM = """
import hashlib, mmap, os, sys
memory = mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
with open(sys.argv[1], "rb", buffering=0) as file:
    print(file.readinto(memory))
print(hashlib.sha256(memory).hexdigest())
"""


def large_read_into_far_memory_ends(folder, donor):
    path = os.path.join(folder, "file")
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for _ in range(SIZE >> 20):
            block = os.urandom(1 << 20)
            digest.update(block)
            file.write(block)
    command = [farpage, "run", "--local", "12M", "--donor", donor, "--", "/usr/bin/python3", "-c",
               PROGRAM.format(size=SIZE), path]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        err += "timed out\n"
    ok(process.returncode == 0, "a read(2) much larger than the budget ends", err)
    ok(out.split() == [str(SIZE), digest.hexdigest()], "a read(2) much larger than the budget returns all of the file",
       out, err)


try:
    with tempfile.TemporaryDirectory(prefix="farpage-test-") as temporary:
        large_read_into_far_memory_ends(temporary, start_donor(memserver, "--donate", "256M")[1])
finally:
    stop_donors()
done()
