"""
programs.py BIN: how much slower real programs run with a quarter of their peak memory, each way in one run:

    pager      behind farpage run --engine pager, the rest on two tcp donors on loopback
    swap       the same with --engine swap
    zram       in a control group of that limit, swapping to lz4-compressed memory
    swap file  the same, swapping to a file on a disk

and, with --way, what guards the job's pages, each alone:

    backup     the pager with --backup, on the disk of the swap file
    encrypt    the pager with --encrypt
    replicas   the pager with --replicas 2

Medians of the rounds, and their ratios: the pager is to be at most 1.5 times as slow as zram, and to take at most half
the time of a swap file; a backup is to leave nine tenths of the throughput; and the engine that farpage run chooses by
itself is to be the faster one for four of five programs. Exit status 1 if an answer differs or a run fails.
"""
import argparse
import hashlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "programs"))
from jobs import make_jobs, make_more_jobs                                  # noqa: E402
from memory_group import MemoryGroup, Unavailable          # noqa: E402
from pressure import SwapFile, Zram                         # noqa: E402
from processes import Processes, Progress, format_size      # noqa: E402

LOCAL_MIN = 8 << 20
# A way's time, at most so many times that of the other.
TARGETS = (("pager", "zram", 1.5), ("pager", "swap file", 0.5), ("swap", "pager", None), ("backup", "pager", 1 / 0.9),
           ("encrypt", "pager", None), ("replicas", "pager", None))
WAYS = ("pager", "swap", "zram", "swap file", "backup", "encrypt", "replicas")


class Bench:
    def __init__(self, options, processes):
        self.options = options
        self.processes = processes
        self.progress = Progress()
        self.bin = Path(options.bin).resolve()
        ways = {"pager": self.run_pager, "swap": lambda *run: self.run_far(*run, "--engine", "swap"),
                "zram": self.run_zram, "swap file": self.run_file, "backup": self.run_backup,
                "encrypt": lambda *run: self.run_pager(*run, "--encrypt"),
                "replicas": lambda *run: self.run_pager(*run, "--replicas", "2")}
        self.ways = {way: ways[way] for way in options.way or WAYS[:4]}
        self.failed = False
        self.chosen = []  # of the programs, whether the engine that was chosen for it is the faster one
        donors = processes.start_donors(self.bin, 2, "1G")
        self.far = [str(self.bin / "farpage"), "run", *(word for donor in donors for word in ("--donor", donor)),
                    "--key", processes.key]

    def run(self, job, step, prefix=()):
        """One run: the outcome, and the digest of what it printed."""
        self.progress.begin(step)
        read, write = os.pipe()
        digest = hashlib.blake2b()

        def take():
            with os.fdopen(read, "rb", buffering=0) as answer:
                while block := answer.read(1 << 20):
                    digest.update(block)

        taker = threading.Thread(target=take)
        taker.start()
        try:
            outcome = self.processes.run(job, os.fdopen(write, "wb"), prefix=prefix, tick=self.progress.tick)
        finally:
            self.progress.clear()
        taker.join()
        return outcome, digest.hexdigest()

    def run_far(self, job, step, local, *more):
        outcome, digest = self.run(job, step, [*self.far, "--local", str(local), *more, "--"])
        print(f"  {outcome.complaint.strip()}; whole process at most {format_size(outcome.peak)} resident", flush=True)
        return outcome, digest

    def run_pager(self, *run):
        return self.run_far(*run, "--engine", "pager")

    def run_backup(self, job, step, local):
        with tempfile.TemporaryDirectory(prefix="farpage-bench-", dir=self.options.swap_folder) as folder:
            return self.run_pager(job, step, local, "--backup", str(Path(folder, "backup")))

    def run_pressed(self, job, step, local, swap):
        self.processes.at_end(swap.close)
        group = MemoryGroup(local)
        self.processes.at_end(group.close)
        try:
            return self.run(job, step, group.prefix())
        finally:
            group.close()
            swap.close()

    def run_zram(self, job, step, local):
        return self.run_pressed(job, step, local, Zram(self.options.swap_size))

    def run_file(self, job, step, local):
        return self.run_pressed(job, step, local, SwapFile(self.options.swap_folder, self.options.swap_size))

    def measure(self, job):
        """Seconds of each round, by way; peak bytes; the budget."""
        seconds = {way: [] for way in ("local", *self.ways)}
        peak = local = answer = None
        for number in range(self.options.rounds):
            step = f"{job.name}, round {number + 1} of {self.options.rounds}"
            outcome, digest = self.run(job, f"{step}: local")
            if outcome.status != 0:
                raise SystemExit(f"{job.name} fails by itself:\n{outcome.complaint}")
            answer = answer or digest
            peak = peak or outcome.peak
            local = max(peak // 4 >> 20 << 20, LOCAL_MIN)
            seconds["local"].append(outcome.seconds)
            for way, run in list(self.ways.items()):
                try:
                    outcome, digest = run(job, f"{step}: {way}, {format_size(local)}", local)
                except Unavailable as why:
                    print(f"no {way} here: {why}")
                    del self.ways[way]
                    continue
                if outcome.status != 0 or digest != answer:
                    self.failed = True
                    print(f"{job.name}, {way}: status {outcome.status}, "
                          f"{'the same' if digest == answer else 'another'} answer\n{outcome.complaint}")
                else:
                    seconds[way].append(outcome.seconds)
        return seconds, peak, local

    def choice(self, job):
        """The engine that farpage run takes for the program of @job when none is named."""
        said = subprocess.run([*self.far, "--local", "64M", "--", *job.probe], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=True).stderr
        return re.search(r"engine (pager|swap)", said).group(1)

    def report_choice(self, job, medians):
        chosen = self.choice(job)
        right = medians[chosen] == min(medians["pager"], medians["swap"])
        self.chosen.append(right)
        return f"farpage run chooses {chosen}, the {'faster' if right else 'SLOWER'} one"

    def report(self, job, seconds, peak, local):
        medians = {way: statistics.median(times) for way, times in seconds.items() if times}
        words = [f"{job.name}: peak {format_size(peak)}, local {format_size(local)}, all local {medians['local']:.2f} s"]
        words += [f"{way} {medians[way]:.1f} s = {medians[way] / medians['local']:.1f}x" for way in WAYS if way in medians]
        for way, other, target in TARGETS:
            if way in medians and other in medians:
                ratio = medians[way] / medians[other]
                verdict = f" (at most {target:.2f}: {'met' if ratio <= target else 'MISSED'})" if target else ""
                words.append(f"{way}/{other} {ratio:.2f}{verdict}")
        if "pager" in medians and "swap" in medians:
            words.append(self.report_choice(job, medians))
        return "; ".join(words)


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", help="where farpage and farpage-memserver are")
    parser.add_argument("--program", action="append", help="only this one (sqlite3, sort, python3, numpy, Redis); can be repeated")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this one; can be repeated (the first four)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1, help="of the inputs")
    parser.add_argument("--swap-folder", default="/var/tmp", help="where swap file and backup go")
    parser.add_argument("--swap-size", type=int, default=1 << 30, help="bytes")
    return parser.parse_args()


def main():
    options = read_options()
    if os.geteuid() != 0:
        print("programs: needs root for control groups and swap")
        return 1
    if len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1:
        print("programs: this machine swaps already; its swap space may be used as well if ours is full")
    page_cluster = Path("/proc/sys/vm/page-cluster").read_text(encoding="ascii").strip()
    with Processes("bench") as processes:
        bench = Bench(options, processes)
        bench.progress.begin("gathering text from the package lists and /usr/share")
        jobs = make_jobs(processes.folder, options.scale) + make_more_jobs(options.scale)
        bench.progress.clear()
        reports = []
        for job in jobs:
            if not options.program or job.name in options.program:
                reports.append(bench.report(job, *bench.measure(job)))
                print(reports[-1], flush=True)
        print(f"\nmedians of {options.rounds}; vm.page-cluster {page_cluster}")
        print("\n".join(reports))
        if bench.chosen:
            print(f"farpage run chooses the faster engine for {sum(bench.chosen)} of {len(bench.chosen)} (at least four of five)")
        return 1 if bench.failed else 0


sys.exit(main())
