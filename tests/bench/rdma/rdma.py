#!/usr/bin/python3
"""rdma.py BUILD [PART...]: measures farpage's fabric and pager over soft-RoCE, beside perftest and swap over
NVMe-oF.

Everything runs in virtual machines of tests/vm, with both ends in one machine. On an emulated processor the figures
say nothing about RDMA devices, and only ratios within one run mean anything. PARTs: fabric, far, touch; all by
default.
"""
import collections
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "vm"))
from machines import Failed, measure  # noqa: E402

ROUNDS = 3
LOCAL_MIB, SIZE_MIB, SECONDS = 64, 256, 8
DEVICES = ("farpage-rdma", "farpage-tcp", "nvme-rdma", "nvme-tcp")

build = os.path.relpath(sys.argv[1])
parts = sys.argv[2:] or os.environ.get("PARTS", "fabric far touch").split()


def guest(*words):
    """Runs one part in a fresh machine. Returns its figures, each a list with one value for each round."""
    figures = collections.defaultdict(list)
    try:
        for name, value in measure("tests/bench/rdma/guest.sh", *words):
            figures[name].append(float(value))
    except Failed as why:
        sys.exit(f"rdma.py: {' '.join(str(word) for word in words)}: {why}")
    return figures


def row(what, value, unit="", target=""):
    print(f"  {what:<58} {value:>10} {unit:<4} {target}", flush=True)


def ratio(what, over, under, target):
    """Takes the ratio in each round, because the rounds of one machine differ less than machines do. Returns the
    median."""
    row(what, f"{statistics.median(a / b for a, b in zip(over, under)):.2f}", "x", target)


def fabric():
    print("one machine, two addresses of soft-RoCE, 4 KiB: median of", ROUNDS, "rounds")
    figures = guest("fabric", build, ROUNDS)
    for name, what in (("perftest_read_us", "ib_read_lat"), ("read_us", "fabric/verbs: read"), ("read_p99_us", "  p99"),
                       ("write_us", "fabric/verbs: write"), ("write_p99_us", "  p99")):
        row(what, f"{statistics.median(figures[name]):.1f}", "us")
    for name, what in (("perftest_read32_pages_s", "ib_read_bw, 32 at a time"), ("read32_pages_s", "fabric/verbs: reads, 32 at a time"),
                       ("write32_pages_s", "fabric/verbs: writes, 32 at a time")):
        row(what, f"{statistics.median(figures[name]):.0f}", "/s")
    ratio("read latency against ib_read_lat", figures["read_us"], figures["perftest_read_us"], "(at most 1.1)")
    ratio("read throughput against ib_read_bw", figures["read32_pages_s"], figures["perftest_read32_pages_s"], "(at least 0.9)")
    row("donor's processor for 100,000 reads and 100,000 writes", f"{figures['donor_cpu_ms'][0] - figures['idle_cpu_ms'][0]:.0f}",
        "ms", "(above idle; at most 20)")


def far():
    print("far faults through libfarpage over rdma://, room for all pages: median of", ROUNDS, "rounds")
    figures = guest("far", build, ROUNDS)
    for name, what in (("perftest_read_us", "ib_read_lat"), ("resolve_us", "bare userfaultfd resolve, handler on the same CPU"),
                       ("fault_us", "far fault"), ("fault_p99_us", "  p99")):
        row(what, f"{statistics.median(figures[name]):.1f}", "us")
    floors = [resolve + read for resolve, read in zip(figures["resolve_us"], figures["perftest_read_us"])]
    ratio("far fault against their sum", figures["fault_us"], floors, "(at most 1.3)")


def touch():
    print(f"{SIZE_MIB} MiB touched at random with {LOCAL_MIB} MiB local, three in ten written, {SECONDS} s: medians of {ROUNDS}"
          " rounds of fresh machines")
    for threads in (1, 4):
        rates = collections.defaultdict(list)
        for _ in range(ROUNDS):
            for device in DEVICES:
                figures = guest("touch", build, device, LOCAL_MIB, SIZE_MIB, SECONDS, threads)
                if figures["wrong"] != [0]:
                    sys.exit(f"rdma.py: {device} gave {figures['wrong']} wrong pages")
                rates[device].append(figures["accesses_s"][0])
                rates[device + " p99"].append(figures["p99_us"][0])
        for device in DEVICES:
            row(f"{device}, {threads} thread{'s' if threads > 1 else ''}", f"{statistics.median(rates[device]):.0f}", "/s",
                f"p99 {statistics.median(rates[device + ' p99']):.0f} us")
        for device in ("nvme-rdma", "nvme-tcp"):
            ratio(f"farpage over rdma:// against swap on {device}, {threads} thr.", rates["farpage-rdma"], rates[device],
                  "(at least 2, aim 3)")


for part in parts:
    {"fabric": fabric, "far": far, "touch": touch}[part]()
