"""
account.py BENCH_FAR: the cost of a far fault in counts, which do not depend on the speed of the machine. It runs the
random reads and writes of bench_far over one tcp donor. Meanwhile perf(1) counts the system calls, context switches
and processor time of each thread. The table has each count per far fault. The evictor's counts are also given per
evicted page.
"""
import re
import shutil
import signal
import subprocess
import sys

from donor import Donor

EVENTS = ("raw_syscalls:sys_enter", "context-switches", "task-clock")


def counts_of(text):
    """{thread's name: {event: count}} from `perf stat --per-thread -x,`; threads of one name are added up."""
    counts = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) < 4 or fields[3] not in EVENTS or fields[1].startswith("<"):
            continue
        name = re.sub(r"-\d+$", "", fields[0])
        per_event = counts.setdefault(name, {})
        per_event[fields[3]] = per_event.get(fields[3], 0) + float(fields[1])
    return counts


def step(bench, donor, name):
    assert bench.stdout.readline() == "ready\n"
    perf = subprocess.Popen(["perf", "stat", "--per-thread", "-x,", "-e", ",".join(EVENTS), "-p", f"{bench.pid},{donor.process.pid}"],
                            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        perf.wait(timeout=0.5)  # it has attached by then, or has failed
    except subprocess.TimeoutExpired:
        pass
    bench.stdin.write("\n")
    bench.stdin.flush()
    _, far, fetched, evicted, seconds = bench.stdout.readline().split()
    perf.send_signal(signal.SIGINT)
    counts = counts_of(perf.communicate()[1])
    far, evicted = int(far), int(evicted)
    print(f"{name}: {far} far faults, {fetched} pages fetched, {evicted} evicted, {float(seconds) * 1e6 / far:.1f} us a far fault")
    print(f"  {'thread':<18} {'system calls':>14} {'switches':>10} {'us of processor':>16}   a far fault")
    for thread, count in sorted(counts.items()):
        calls, switches, clock = (count.get(event, 0) for event in EVENTS)
        if calls < far / 100:
            continue
        print(f"  {thread:<18} {calls / far:>14.2f} {switches / far:>10.2f} {clock * 1e3 / far:>16.1f}", end="")
        print(f"   ({calls / evicted:.2f} system calls an evicted page)" if thread == "farpage-evict" else "")


def main():
    if not shutil.which("perf"):
        sys.exit("account: needs perf (Debian: linux-perf)")
    donor = Donor("--donate", "512M")
    bench = subprocess.Popen([sys.argv[1], "--random", donor.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        for name in ("random reads", "random writes"):
            step(bench, donor, name)
    finally:
        bench.stdin.close()
        bench.wait()


main()
