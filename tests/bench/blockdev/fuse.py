#!/usr/bin/python3
"""fuse.py SERVE_FUSE RAM_FUSE: the FUSE front end over the store in local memory, beside the smallest FUSE file in RAM.

Both serve a file of direct I/O, and a loop device with direct I/O over it; fio reads them at random, 4 KiB at a time. All
rows of a round come right after each other, on the same machine in the same state: only ratios of one run mean anything.
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

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = float(os.environ.get("READ_SECONDS", "3"))
SPIN_US = os.environ.get("SPIN_US", "50")  # as the daemon does by itself
BYTES = 256 << 20
AIM = 1.1  # QD1 latency against the peer's

serve_fuse, ram_fuse = sys.argv[1:]


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout.strip()


def wait_for(what, path):
    deadline = time.monotonic() + 10
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            sys.exit(f"fuse.py: {what} does not serve {path}")
        time.sleep(0.01)


@contextlib.contextmanager
def ours(folder):
    with subprocess.Popen([serve_fuse, folder, str(BYTES), SPIN_US], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        words = server.stdout.readline().split()
        if len(words) != 2:
            sys.exit("fuse.py: the FUSE front end did not start")
        yield {"file": words[1], "loop": words[0]}
        server.stdin.close()


@contextlib.contextmanager
def peer(folder):
    with subprocess.Popen([ram_fuse, folder, str(BYTES)]):
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


def fio(path, *options):
    words = ["fio", "--name=bench", f"--filename={path}", "--direct=1", f"--size={BYTES}", *options]
    return json.loads(run(*words, "--output-format=json"))["jobs"][0]


def fill(path):
    fio(path, "--rw=write", "--bs=128k")


def read(path, depth):
    """p50 and p99 in us, reads a second."""
    engine = "--ioengine=psync" if depth == 1 else "--ioengine=libaio"
    figures = fio(path, "--rw=randread", "--bs=4k", engine, f"--iodepth={depth}", f"--runtime={SECONDS}", "--time_based")["read"]
    percentiles = figures["clat_ns"]["percentile"]
    return percentiles["50.000000"] / 1000, percentiles["99.000000"] / 1000, figures["iops"]


def median(rounds, which):
    return statistics.median(figures[which] for figures in rounds)


def ratio(over, under, which):
    """Of each round, for rounds differ more than what is compared in one of them; their median."""
    return statistics.median(a[which] / b[which] for a, b in zip(over, under))


def main():
    if os.geteuid() != 0:
        sys.exit("fuse.py: mounting and loop devices are root's: sudo ./dev bench blockdev-fuse")
    with tempfile.TemporaryDirectory() as folder:
        mountpoint = pathlib.Path(folder, "peer")
        mountpoint.mkdir()
        with ours(folder) as our_paths, peer(str(mountpoint)) as peer_paths:
            fill(our_paths["loop"])
            fill(peer_paths["loop"])
            rows = [(what, depth) for what in ("file", "loop") for depth in (1, 32)]
            figures = {(who, *row): [] for who in ("ours", "peer") for row in rows}
            for _ in range(ROUNDS):
                for what, depth in rows:
                    figures["peer", what, depth].append(read(peer_paths[what], depth))
                    figures["ours", what, depth].append(read(our_paths[what], depth))
    print(f"4 KiB random reads of memory, medians of {ROUNDS} rounds of {SECONDS:g} s: the smallest FUSE file in RAM, and the "
          f"FUSE front end polling for {SPIN_US} us")
    print(f"{'':<28}{'p50 us':>9}{'p99 us':>9}{'reads/s':>10}")
    for what, depth in rows:
        title = {"file": "the file", "loop": "a loop device on it"}[what]
        mine, theirs = figures["ours", what, depth], figures["peer", what, depth]
        print(f"{title}, depth {depth}")
        for name, rounds in (("smallest", theirs), ("front end", mine)):
            print(f"  {name:<26}{median(rounds, 0):>9.1f}{median(rounds, 1):>9.1f}{median(rounds, 2):>10.0f}")
        if depth == 1:
            print(f"  {'p50 against the smallest':<26}{ratio(mine, theirs, 0):>9.2f}   (at most {AIM})")
        else:
            print(f"  {'reads against the smallest':<26}{ratio(mine, theirs, 2):>9.2f}")


main()
