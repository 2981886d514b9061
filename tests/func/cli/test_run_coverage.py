#!/usr/bin/python3
"""test_run_coverage.py FARPAGE MEMSERVER: memory that farpage cannot send away is told, counted, and ends with --strict."""
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
MIB = 1 << 20
SIZE = 64 * MIB
NAP = "import time; time.sleep(3); print('done')" # several looks, on a busy machine, too
FAR = f"memory = bytearray(b'x') * {SIZE}; {NAP}"
SHARED = f"import mmap; memory = mmap.mmap(-1, {SIZE}); memory.write(b'x' * {SIZE}); {NAP}"
BRK = f"""
import ctypes
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
ctypes.memset(libc.sbrk({SIZE}), 1, {SIZE})
{NAP}
"""
FORKED = f"""
import os, time
memory = bytearray(b'x') * {SIZE}
child = os.fork()
if not child:
    for at in range(0, {SIZE}, 4096):
        memory[at]
    os._exit(0)
os.waitpid(child, 0)
print('done')
"""


def start(folder, donor, options, *command):
    """The command under run; how it ended, and its statistics."""
    stats = folder / "stats"
    result = run(farpage, "run", "--local", "16M", "--donor", donor, "--stats", stats, *options, "--", *command)
    return result, json.loads(stats.read_text(encoding="ascii"))


def python(folder, donor, program, *options):
    return start(folder, donor, options, "/usr/bin/python3", "-c", program)


def lives(pid):
    try:
        return Path("/proc", pid, "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def warned(result, *kinds):
    lines = [line for line in result.stderr.splitlines() if "outside farpage's reach, and" in line]
    return len(lines) == 1 and all(kind in lines[0] for kind in kinds)


def test_outside(folder, donor):
    result, stats = python(folder, donor, FAR)
    ok(result.returncode == 0 and "outside" not in result.stderr and stats["outside_bytes"] < 16 * MIB,
       "memory that goes far is not outside", shown(result), stats)
    for name, program, kind in (("shared memory", SHARED, "shared memory"), ("a heap by brk", BRK, "by brk")):
        result, stats = python(folder, donor, program)
        ok(result.returncode == 0 and result.stdout == "done\n" and warned(result, kind, "python3"),
           f"{name}: one line, and the program goes on", shown(result))
        ok(SIZE * 0.9 < stats["outside_bytes"] < SIZE * 1.5, f"{name}: counted", stats)
        ok("outside farpage's reach" in result.stderr.splitlines()[-1], f"{name}: the last line has it", shown(result))
    result, stats = start(folder, donor, [], "sh", "-c",
                          f"env -u LD_PRELOAD /usr/bin/python3 -c \"{FAR.replace(chr(39), chr(92) + chr(34))}\"; true")
    ok(result.returncode == 0 and warned(result, "without farpage's library"),
       "a descendant without farpage's library", shown(result))


def test_strict(folder, donor):
    begin = time.monotonic()
    result, stats = python(folder, donor, SHARED.replace("sleep(3)", "sleep(50)"), "--strict")
    ok(result.returncode == 125 and warned(result, "shared memory") and "--strict" in result.stderr,
       "--strict ends the command with 125", shown(result))
    ok(time.monotonic() - begin < 40 and stats["outside_bytes"] > 16 * MIB, "at once", stats)
    result, stats = start(folder, donor, ["--strict"], "sh", "-c", "sh -c 'sleep 400 & echo $!; exec /usr/bin/python3 -c "
                          f"\"{SHARED.replace(chr(39), chr(92) + chr(34)).replace('sleep(3)', 'sleep(50)')}\"'; true")
    ok(result.returncode == 125 and not lives(result.stdout.strip()), "and all of its processes", shown(result))
    result, stats = python(folder, donor, FAR, "--strict")
    ok(result.returncode == 0 and result.stdout == "done\n", "--strict leaves a good one alone", shown(result))


def test_children(folder, donor):
    result, stats = python(folder, donor, FORKED)
    ok(result.returncode == 0 and stats["children_stopped"] == 1, "a forked child that was stopped is counted", stats,
       shown(result))
    ok("1 forked child stopped" in result.stderr.splitlines()[-1], "and told in the last line", shown(result))
    result, stats = python(folder, donor, FORKED, "--strict")
    ok(result.returncode == 125 and result.stdout == "done\n", "--strict: the status tells of it", shown(result))


try:
    with tempfile.TemporaryDirectory(prefix="farpage-test-") as temporary:
        uri = start_donor(memserver, "--donate", "512M", "--slab", str(8 * MIB))[1]
        test_outside(Path(temporary), uri)
        test_strict(Path(temporary), uri)
        test_children(Path(temporary), uri)
finally:
    stop_donors()
done()
