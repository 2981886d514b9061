#!/usr/bin/python3
"""test_run_coverage.py: farpage run reports memory that it cannot send away, and --strict ends it."""
import json
import time
from pathlib import Path

from donor import Donor
from tap import FOLDER, done, farpage, ok, shown

MIB = 1 << 20
DONOR = Donor("--donate", "512M", "--slab", 8 * MIB)
SIZE = 64 * MIB
NAP = "import time; time.sleep(3); print('done')" # long enough for several measurements, also on a busy machine
FAR = f"memory = bytearray(b'x') * {SIZE}; {NAP}"
SHARED = f"import mmap; memory = mmap.mmap(-1, {SIZE}); memory.write(b'x' * {SIZE}); {NAP}"
CODE = f"""
import mmap
memory = mmap.mmap(-1, {SIZE}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b'x' * {SIZE})
{NAP}
"""
CHOSEN = f"""
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
ctypes.memset(libc.mmap(0x100000000000, {SIZE}, 3, 0x32, -1, 0), 1, {SIZE}) # MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS
{NAP}
"""
BRK = f"""
import ctypes
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
ctypes.memset(libc.sbrk({SIZE}), 1, {SIZE})
{NAP}
"""
# The child gives up the right to move pages out of its memory.
FORKED = f"""
import os, time
memory = bytearray(b'x') * {SIZE}
child = os.fork()
if not child:
    for at in range(0, {SIZE}, 4096):
        memory[at] = 121
    os._exit(0)
os.waitpid(child, 0)
print('done')
"""


def far(options, *command):
    """Runs the command under farpage run. Returns the result and its statistics."""
    stats = FOLDER / "stats"
    result = farpage("run", "--local", "16M", "--donor", DONOR.uri, "--stats", stats, *options, "--", *command)
    return result, json.loads(stats.read_text(encoding="ascii"))


def python(program, *options):
    return far(options, "/usr/bin/python3", "-c", program)


def lives(pid):
    try:
        return Path("/proc", pid, "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def warned(result, *kinds):
    lines = [line for line in result.stderr.splitlines() if "outside farpage's reach, and" in line]
    return len(lines) == 1 and all(kind in lines[0] for kind in kinds)


def summary_of(result):
    """Returns the line with the totals. An advice may follow."""
    return "".join(line for line in result.stderr.splitlines() if ", wall " in line)


def outside_memory_is_reported():
    result, stats = python(FAR)
    ok(result.returncode == 0 and "outside" not in result.stderr and stats["outside_bytes"] < 16 * MIB,
       "far memory is not counted as outside memory", shown(result), stats)
    for name, program, kind in (("shared memory", SHARED, "shared memory"), ("a heap by brk", BRK, "by brk"),
                                ("executable memory", CODE, "most of it is executable"),
                                ("memory at an address of the program's choice", CHOSEN, "at addresses that it chose")):
        result, stats = python(program)
        ok(result.returncode == 0 and result.stdout == "done\n" and warned(result, kind, "python3"),
           f"{name}: one line warns of outside memory, and the program goes on", shown(result))
        ok(SIZE * 0.9 < stats["outside_bytes"] < SIZE * 1.5, f"{name}: --stats counts the outside memory", stats)
        ok("outside farpage's reach" in summary_of(result), f"{name}: the summary has the outside memory", shown(result))
    result, stats = far([], "sh", "-c",
                          f"env -u LD_PRELOAD /usr/bin/python3 -c \"{FAR.replace(chr(39), chr(92) + chr(34))}\"; true")
    ok(result.returncode == 0 and warned(result, "without farpage's library"),
       "a warning tells of a descendant without farpage's library", shown(result))


def strict_ends_outside_memory():
    begin = time.monotonic()
    result, stats = python(SHARED.replace("sleep(3)", "sleep(50)"), "--strict")
    ok(result.returncode == 125 and warned(result, "shared memory") and "--strict" in result.stderr,
       "--strict ends a command with outside memory with status 125", shown(result))
    ok(time.monotonic() - begin < 40 and stats["outside_bytes"] > 16 * MIB,
       "--strict ends a command with outside memory before the command's own end", stats)
    result, stats = far(["--strict"], "sh", "-c", "sh -c 'sleep 400 & echo $!; exec /usr/bin/python3 -c "
                          f"\"{SHARED.replace(chr(39), chr(92) + chr(34)).replace('sleep(3)', 'sleep(50)')}\"'; true")
    ok(result.returncode == 125 and not lives(result.stdout.strip()),
       "--strict ends all processes of a command with outside memory", shown(result))
    result, stats = python(FAR, "--strict")
    ok(result.returncode == 0 and result.stdout == "done\n", "--strict leaves a command without outside memory alone",
       shown(result))


def without_move(*options):
    """A child without UFFDIO_MOVE (Linux before 6.8) cannot give back the pages that it writes to."""
    return far(["--unsafe-dio", *options], "env", "FARPAGE_NO_MOVE=1", "/usr/bin/python3", "-c", FORKED)


def stopped_children_are_reported():
    result, stats = without_move()
    ok(result.returncode == 0 and stats["children_stopped"] == 1, "--stats counts a forked child that was stopped",
       stats, shown(result))
    ok("1 forked child stopped" in summary_of(result), "the summary has the forked child that was stopped",
       shown(result))
    result, stats = without_move("--strict")
    ok(result.returncode == 125 and result.stdout == "done\n",
       "--strict gives status 125 when a forked child was stopped", shown(result))


outside_memory_is_reported()
strict_ends_outside_memory()
stopped_children_are_reported()
done()
