#!/usr/bin/python3
"""
fuse.py SERVE_FUSE RAM_FUSE TOUCH BIN: the FUSE front end beside the smallest FUSE file in RAM.

    smallest   a FUSE file in RAM, and a loop device over it
    front end  farpage's front end over the store in local memory
    device     farpage's block device over one tcp donor on this machine

fio reads the files and the loop devices at random, 4 KiB at a time. Then each device is swap space for a program of
192 MiB that may have 64 MiB. A round measures all rows one after the other. Only ratios within one run mean
anything.

A donor stands for another machine. So it has the second processor, and everything else has the first. With UNPINNED=1
the kernel places them all.
"""
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "programs"))
from memory_group import MemoryGroup, swap_on               # noqa: E402
from processes import Processes, pinned                     # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = float(os.environ.get("READ_SECONDS", "3"))
SPIN_US = os.environ.get("SPIN_US", "50")  # as the daemon does by itself
PINNED = "UNPINNED" not in os.environ
CLIENT, DONOR = 0, 1  # processors
BYTES = 256 << 20
SWAP_MIB, SWAP_LIMIT = 192, 64 << 20
AIMS = {("file", "front end", 1): ("p50", 1.1), ("loop", "front end", 1): ("p50", 1.1), ("swap", "device", 1): ("pages", 0.8)}

serve_fuse, ram_fuse, touch, bin_folder = sys.argv[1:]


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout.strip()


def wait_for(what, path):
    deadline = time.monotonic() + 10
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            sys.exit(f"fuse.py: {what} does not serve {path}")
        time.sleep(0.01)


@contextlib.contextmanager
def smallest():
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen([ram_fuse, folder, str(BYTES)]):
        file = f"{folder}/file"
        wait_for("ram_fuse", file)
        try:
            device = run("losetup", "--find", "--show", "--direct-io=on", "--sector-size", 4096, file)
            try:
                yield {"file": file, "loop": device}
            finally:
                run("losetup", "--detach", device)
        finally:
            run("umount", folder)


@contextlib.contextmanager
def front_end():
    with tempfile.TemporaryDirectory() as folder, \
         subprocess.Popen([serve_fuse, folder, str(BYTES), SPIN_US], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        words = server.stdout.readline().split()
        if len(words) != 2:
            sys.exit("fuse.py: the FUSE front end did not start")
        yield {"file": words[1], "loop": words[0]}
        server.stdin.close()


@contextlib.contextmanager
def device():
    with Processes("bench") as processes:
        farpage, name = pathlib.Path(bin_folder, "farpage"), f"bench-{os.getpid()}"
        [donor] = processes.start_donors(pathlib.Path(bin_folder), 1, "1G", prefix=pinned(DONOR) if PINNED else ())
        path = run(farpage, "disk", "attach", "--name", name, "--size", BYTES, "--frontend", "fuse", "--key", processes.key,
                   "--donor", donor).splitlines()[-1]
        try:
            yield {"loop": path}
        finally:
            run(farpage, "disk", "detach", name)


def fio(path, *options):
    words = ["fio", "--name=bench", f"--filename={path}", "--direct=1", f"--size={BYTES}", *options]
    return json.loads(run(*words, "--output-format=json"))["jobs"][0]


def read(path, depth):
    """Returns p50 and p99 in us, and pages a second."""
    engine = "--ioengine=psync" if depth == 1 else "--ioengine=libaio"
    figures = fio(path, "--rw=randread", "--bs=4k", engine, f"--iodepth={depth}", f"--runtime={SECONDS}", "--time_based")["read"]
    percentiles = figures["clat_ns"]["percentile"]
    return percentiles["50.000000"] / 1000, percentiles["99.000000"] / 1000, figures["iops"]


def swap(path, threads):
    """Returns p50 and p99 of an access that faults, in us, and the number of these accesses a second."""
    swap_on(path)
    try:
        group = MemoryGroup(SWAP_LIMIT)
        try:
            lines = run(*group.prefix(), touch, SWAP_MIB, int(SECONDS) + 1, threads).splitlines()
        finally:
            group.close()
    finally:
        run("swapoff", path)
    figures = dict(line.split() for line in lines)
    if figures["wrong"] != "0":
        sys.exit(f"fuse.py: {path} gave {figures['wrong']} wrong pages")
    return float(figures["fault_p50_us"]), float(figures["fault_p99_us"]), float(figures["faults_s"])


def ratio(over, under, which):
    """Takes the ratio in each round, because rounds differ more than the rows of one round. Returns the median."""
    return statistics.median(a[which] / b[which] for a, b in zip(over, under))


ROWS = (("file", 1), ("file", 32), ("loop", 1), ("loop", 32), ("swap", 1), ("swap", 4))
TITLES = {"file": "reads of the file, {} at a time", "loop": "reads of the loop device, {} at a time", "swap": "swap, {} threads"}


def report(row, of):
    what, depth = row
    print(TITLES[what].format(depth))
    for name, rounds in of.items():
        p50, p99, rate = (statistics.median(figures[which] for figures in rounds) for which in range(3))
        words = f"  {name:<12}{p50:>9.1f}{p99:>9.1f}{rate:>10.0f}"
        if name != "smallest":
            words += f"{ratio(rounds, of['smallest'], 0):>14.2f}{ratio(rounds, of['smallest'], 2):>10.2f}"
        kind, aim = AIMS.get((what, name, depth), (None, None))
        print(words + {"p50": f"   (p50 at most {aim})", "pages": f"   (pages at least {aim})"}.get(kind, ""))


def main():
    if os.geteuid() != 0:
        sys.exit("fuse.py: mounting and loop devices are root's: sudo ./dev bench blockdev-fuse")
    if PINNED:
        os.sched_setaffinity(0, {CLIENT})
    figures = {row: {} for row in ROWS}
    with smallest() as small, front_end() as front, device() as far:
        servers = {"smallest": small, "front end": front, "device": far}
        for paths in servers.values():
            fio(paths["loop"], "--rw=write", "--bs=128k")
        for _ in range(ROUNDS):
            for what, depth in ROWS:
                for name, paths in servers.items():
                    measure = swap if what == "swap" else read
                    path = paths.get("loop" if what == "swap" else what)
                    if path:
                        figures[what, depth].setdefault(name, []).append(measure(path, depth))
    print(f"medians of {ROUNDS} rounds of {SECONDS:g} s, {'the donor on a processor of its own' if PINNED else 'unpinned'}; "
          f"the front end polls for {SPIN_US} us; ratios to the smallest")
    print(f"{'':<14}{'p50 us':>9}{'p99 us':>9}{'pages/s':>10}{'p50 ratio':>14}{'pages':>10}")
    for row in ROWS:
        report(row, figures[row])


main()
