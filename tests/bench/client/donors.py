"""
donors.py BENCH_DONORS [COUNT...]: what 1, 10, 100 and 1,000 donors cost one client. All donors run on this machine, each
a farpage-memserver on loopback that lends 64 MiB. Slabs have 1 MiB, so that the client uses most donors without 64 GiB
of memory. The times are medians of three rounds; memory and counts are those of the last round.

The client's memory, descriptors and threads are those of a store with one queue (a pager has two queues more), with two
chunks for each donor. With 1,000 donors the heartbeat is 1 s, or two processors could not serve all daemons. "Idle"
means that nobody reads or writes: the client and the donors only send heartbeats. Faults are those of a pager with a
single-threaded program.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
IDLE_SECONDS = 5
COUNTS = (1, 10, 100, 1000)
MEMSERVER = os.environ["FARPAGE_MEMSERVER"]
FARPAGE = os.environ["FARPAGE"]


class Donors:
    """Many donors, which start side by side."""

    def __init__(self, count, folder, key):
        with open(os.path.join(folder, "donors.log"), "a", encoding="utf-8") as log:
            self.processes = [subprocess.Popen([MEMSERVER, "--listen", "tcp://127.0.0.1:0", "--donate", "64M", "--slab", "1M",
                                                "--reserve", "64M", "--heartbeat", str(max(200, count)), "--key", key],
                                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
                              for _ in range(count)]
        self.uris = [process.stdout.readline().split()[-1] for process in self.processes]

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
            process.stdout.close()

    def processor_seconds(self):
        ticks = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
                fields = stat.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _status(self, name):
        total = 0
        for process in self.processes:
            for task in os.listdir(f"/proc/{process.pid}/task"):
                with open(f"/proc/{process.pid}/task/{task}/status", encoding="ascii") as status:
                    total += sum(int(line.split()[1]) for line in status if line.startswith(name))
        return total

    def switches(self):
        return self._status("voluntary_ctxt_switches")

    def memory_kib(self):
        total = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as rollup:
                total += sum(int(line.split()[1]) for line in rollup if line.startswith(("Pss_Anon", "Pss_File")))
        return total / len(self.processes)

    def threads(self):
        return len(os.listdir(f"/proc/{self.processes[0].pid}/task"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.processes[0].pid}/fd"))


def measure(bench, donors, key):
    """The figures of one round, by name."""
    figures = {"donor_threads": donors.threads(), "donor_descriptors": donors.descriptors()}
    client = subprocess.Popen([bench, key, str(IDLE_SECONDS), *donors.uris], stdout=subprocess.PIPE, text=True)
    for line in client.stdout:
        name, _, value = line.strip().partition(" ")
        if name != "idle":
            figures[name] = float(value)
            continue
        time.sleep(1)
        figures["donor_kib"] = donors.memory_kib()
        busy, switches, begin = donors.processor_seconds(), donors.switches(), time.monotonic()
        time.sleep(max(1, IDLE_SECONDS - 2))
        passed = time.monotonic() - begin
        figures["donor_idle_ms"] = (donors.processor_seconds() - busy) * 1e3 / passed / len(donors.uris)
        figures["donor_idle_switches"] = (donors.switches() - switches) / passed / len(donors.uris)
    if client.wait():
        raise SystemExit(f"donors: the client ends with {client.returncode}")
    return figures


ROWS = (
    ("start until all donors have answered, ms", "open_ms", 1),
    ("start until the first far page was read, ms", "first_ms", 1),
    ("client, after the start: memory, KiB", "open_memory", 0),
    ("client, all donors used: memory, KiB", "used_memory", 0),
    ("  for each donor, KiB", "used_memory_each", 1),
    ("  descriptors", "used_descriptors", 0),
    ("  threads", "used_threads", 0),
    ("client, idle: ms of processor a second", "idle_ms", 1),
    ("  context switches a second", "idle_switches", 0),
    ("read of a far page p50, us", "read_p50", 1),
    ("read of a far page p99, us", "read_p99", 1),
    ("start of a pager, ms", "pager_open_ms", 1),
    ("far fault p50, us", "fault_p50", 1),
    ("far fault p99, us", "fault_p99", 1),
    ("pager: descriptors", "pager_descriptors", 0),
    ("each donor: memory besides slabs, KiB", "donor_kib", 0),
    ("  threads", "donor_threads", 0),
    ("  descriptors", "donor_descriptors", 0),
    ("  idle: ms of processor a second", "donor_idle_ms", 2),
    ("  idle: context switches a second", "donor_idle_switches", 1),
)
TIMES = ("open_ms", "first_ms", "idle_ms", "idle_switches", "read_p50", "read_p99", "pager_open_ms", "fault_p50", "fault_p99",
         "donor_idle_ms", "donor_idle_switches")


def figures_of(bench, count, folder, key):
    rounds = []
    donors = Donors(count, folder, key)
    try:
        for _ in range(ROUNDS):
            rounds.append(measure(bench, donors, key))
    finally:
        donors.stop()
    figures = rounds[-1]
    for name in TIMES:
        figures[name] = statistics.median(one[name] for one in rounds)
    for when in ("open", "used"):
        figures[f"{when}_memory"] = figures[f"{when}_anon_kib"] - figures["before_anon_kib"]
    figures["used_memory_each"] = figures["used_memory"] / count
    return figures


def main():
    bench, counts = sys.argv[1], [int(count) for count in sys.argv[2:]] or COUNTS
    with tempfile.TemporaryDirectory(prefix="farpage-donors-") as folder:
        key = os.path.join(folder, "key")
        subprocess.run([FARPAGE, "key", key], stdout=subprocess.DEVNULL, check=True)
        columns = [figures_of(bench, count, folder, key) for count in counts]
    print(f"{'donors':<46}" + "".join(f"{count:>12,}" for count in counts))
    for text, name, digits in ROWS:
        print(f"{text:<46}" + "".join(f"{column[name]:>12,.{digits}f}" for column in columns))
    print(f"load average at the end: {os.getloadavg()[0]:.1f}")


main()
