"""
programs.py BIN: how much slower real programs run with a part of their peak memory, each way in one run:

    pager       farpage run --engine pager, the rest on one tcp donor
    two donors  the same with two donors
    unpinned    the same with two donors, and no process has a processor of its own
    swap        farpage run --engine swap, over one donor
    zram        in a control group of that limit, swapping to lz4-compressed memory
    swap file   the same, swapping to a file on a disk

and, with --way, each protection of the job's pages alone, over two donors:

    backup      the pager with --backup, on the disk of the swap file
    encrypt     the pager with --encrypt
    replicas    the pager with --replicas 2

A donor stands for another machine. So the program and farpage's own processes run on the first processor, and the
donors on the second. Only "unpinned" leaves that to the kernel. The processor time of donors is reported separately.

Medians of the rounds, and their ratios to zram. Exit status 1 if an answer differs or a run fails.

With --corpus, the programs are those of tests/programs/corpus.py that have the given names and are installed.
"""
import argparse
import contextlib
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "programs"))
import corpus                                               # noqa: E402
from jobs import Job, make_jobs, make_more_jobs             # noqa: E402
from memory_group import MemoryGroup, Unavailable           # noqa: E402
from pressure import SwapFile, Zram                         # noqa: E402
from processes import Processes, Progress, format_size, pinned, print_table  # noqa: E402

LOCAL_MIN = 8 << 20
WAYS = ("pager", "two donors", "unpinned", "swap", "zram", "swap file", "backup", "encrypt", "replicas")
COLUMNS = ("way", "seconds", "spread", "slowdown", "client", "donors", "pages in", "time / zram", "pages / zram")
TOTALS = ("program", "local", "s, all local", "s, pager", "time / zram", "pages / zram")
AIMS = "the pager is to take at most 1.25 times the time of zram, and to bring in at most 1.15 times as many pages"
CLIENT, DONORS = 0, 1  # processors


def corpus_jobs(names, folder):
    """Returns the jobs of the programs of the corpus with these names. Each job runs in a folder with its inputs."""
    wanted = [one for one in corpus.PROGRAMS if one.name in names]
    for name in set(names) - {one.name for one in wanted}:
        raise SystemExit(f"programs: the corpus has no program named {name!r}; docs/programs.md has the names")
    for number, one in enumerate(wanted):
        place = Path(folder, f"corpus-{number}")
        why = corpus.lacking(one) or corpus.prepare(one, place)
        if why:
            print(f"{one.name}: skipped: {why}")
        else:
            command = corpus.command_of(one)
            yield Job(one.name, command, environment=corpus.environment_of(one), probe=command, folder=place)


class Run:
    """The figures of one run: seconds, processor seconds of the client and of the donors, pages fetched."""

    def __init__(self, outcome, donors=0.0, pages=None):
        self.seconds = outcome.seconds
        self.client = outcome.processor
        self.donors = donors
        self.pages = pages


class Donors:
    def __init__(self, bin_folder, processes, count, donate, prefix):
        before = len(processes.made)
        self.addresses = processes.start_donors(bin_folder, count, donate, prefix=prefix)
        self.pids = [process.pid for process in processes.made[before:]]
        self.key = processes.key

    def processor_seconds(self):
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime and stime of proc(5)
        return ticks / os.sysconf("SC_CLK_TCK")

    def options(self):
        return [word for donor in self.addresses for word in ("--donor", donor)] + ["--key", self.key]


def pages_swapped_in():
    return int(re.search(r"^pswpin (\d+)$", Path("/proc/vmstat").read_text(encoding="ascii"), re.M).group(1))


class Bench:
    def __init__(self, options, processes):
        self.options = options
        self.processes = processes
        self.progress = Progress()
        self.bin = Path(options.bin).resolve()
        ways = {"pager": lambda *run: self.run_far(*run, "pager", 1),
                "two donors": lambda *run: self.run_far(*run, "pager", 2),
                "unpinned": lambda *run: self.run_far(*run, "pager", 2, pin=False),
                "swap": lambda *run: self.run_far(*run, "swap", 1),
                "zram": lambda *run: self.run_pressed(*run, Zram(options.swap_size)),
                "swap file": lambda *run: self.run_pressed(*run, SwapFile(options.swap_folder, options.swap_size)),
                "backup": self.run_backup,
                "encrypt": lambda *run: self.run_far(*run, "pager", 2, "--encrypt"),
                "replicas": lambda *run: self.run_far(*run, "pager", 2, "--replicas", "2")}
        self.ways = {way: ways[way] for way in options.way or WAYS[:6]}
        self.donate = f"{max(int(2048 * options.scale), 256)}M"
        self.failed = False
        self.totals = []  # a row for each program and share
        self.chosen = []  # of the programs, whether the engine that was chosen for it is the faster one
        self.answer = None

    @contextlib.contextmanager
    def donors(self, count, pin=True):
        """Starts new donors, so that a run does not depend on the run before."""
        before = len(self.processes.made)
        try:
            yield Donors(self.bin, self.processes, count, self.donate, pinned(DONORS) if pin else ())
        finally:
            for process in self.processes.made[before:]:
                self.processes.end(process)

    def run(self, job, prefix=(), pin=True):
        """Runs @job. Its answer must equal the answer of all other runs. Returns the outcome."""
        read, write = os.pipe()
        digest = hashlib.blake2b()

        def take():
            with os.fdopen(read, "rb", buffering=0) as answer:
                while block := answer.read(1 << 20):
                    digest.update(block)

        taker = threading.Thread(target=take)
        taker.start()
        prefix = [*(pinned(CLIENT) if pin else ()), *prefix]
        try:
            outcome = self.processes.run(job, os.fdopen(write, "wb"), prefix=prefix, tick=self.progress.tick)
        finally:
            self.progress.clear()
        taker.join()
        self.answer = self.answer or digest.hexdigest()
        same = digest.hexdigest() == self.answer
        if outcome.status != 0 or not same:
            self.failed = True
            raise Unavailable(f"status {outcome.status}, {'the same' if same else 'another'} answer\n{outcome.complaint}")
        return outcome

    def run_far(self, job, local, engine, count, *more, pin=True):
        stats = Path(self.processes.folder, "stats")
        with self.donors(count, pin) as donors:
            outcome = self.run(job, [str(self.bin / "farpage"), "run", *donors.options(), "--engine", engine, "--local",
                                     str(local), "--stats", str(stats), *more, "--"], pin)
            print(f"  {outcome.complaint.strip()}", flush=True)
            return Run(outcome, donors.processor_seconds(), json.loads(stats.read_text(encoding="ascii"))["fetched_pages"])

    def run_backup(self, job, local):
        with tempfile.TemporaryDirectory(prefix="farpage-bench-", dir=self.options.swap_folder) as folder:
            return self.run_far(job, local, "pager", 2, "--backup", str(Path(folder, "backup")))

    def run_pressed(self, job, local, swap):
        self.processes.at_end(swap.close)
        group = MemoryGroup(local)
        self.processes.at_end(group.close)
        swapped = pages_swapped_in()
        try:
            outcome = self.run(job, group.prefix())
            return Run(outcome, pages=pages_swapped_in() - swapped)
        finally:
            group.close()
            swap.close()

    def measure(self, job):
        """Measures and reports @job with each share of its memory."""
        self.answer = None
        self.progress.begin(f"{job.name}: with all its memory")
        whole = [self.run(job) for _ in range(self.options.rounds)]
        peak, seconds = whole[0].peak, statistics.median(outcome.seconds for outcome in whole)
        for share in self.options.share:
            local = max(int(peak * share) >> 20 << 20, LOCAL_MIN)
            runs = {way: [] for way in self.ways}
            for number in range(self.options.rounds):
                for way in self.ways:
                    self.progress.begin(f"{job.name}, {format_size(local)} local, round {number + 1}: {way}")
                    try:
                        runs[way].append(self.ways[way](job, local))
                    except Unavailable as why:
                        self.progress.clear()
                        print(f"{job.name}, {way}: {why}", flush=True)
            self.report(job, share, local, seconds, {way: of for way, of in runs.items() if of})

    def choice(self, job):
        """Returns the engine that farpage run chooses for the program of @job."""
        with self.donors(1) as donors:
            said = subprocess.run([str(self.bin / "farpage"), "run", *donors.options(), "--local", "64M", "--", *job.probe],
                                  cwd=job.folder, env=job.environment, stdin=subprocess.DEVNULL, capture_output=True,
                                  check=True).stderr.decode("utf-8", "replace")
        return re.search(r"engine (pager|swap)", said).group(1)

    def report(self, job, share, local, seconds, runs):
        def median(way, what):
            return statistics.median(getattr(run, what) for run in runs[way])

        def ratio(way, what):
            return f"{median(way, what) / median('zram', what):.2f}" if "zram" in runs and median("zram", what) else ""

        rows = []
        for way in runs:
            times = [run.seconds for run in runs[way]]
            rows.append((way, f"{median(way, 'seconds'):.1f}", f"{(max(times) - min(times)) / median(way, 'seconds'):.0%}",
                         f"{median(way, 'seconds') / seconds:.1f}x", f"{median(way, 'client'):.1f}", f"{median(way, 'donors'):.1f}",
                         f"{median(way, 'pages'):,.0f}", ratio(way, "seconds"), ratio(way, "pages")))
        print(f"\n{job.name}: {share} of its memory, {format_size(local)}; with all of it {seconds:.2f} s", end="")
        print_table(COLUMNS, rows, left=1)
        if "pager" in runs:
            self.totals.append((job.name, format_size(local), f"{seconds:.2f}", f"{median('pager', 'seconds'):.2f}",
                                ratio("pager", "seconds"), ratio("pager", "pages")))
        if "pager" in runs and "swap" in runs:
            chosen = self.choice(job)
            right = median(chosen, "seconds") == min(median(way, "seconds") for way in ("pager", "swap"))
            self.chosen.append(right)
            print(f"farpage run chooses {chosen}, the {'faster' if right else 'SLOWER'} one")
        print(flush=True)


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", help="where farpage and farpage-memserver are")
    parser.add_argument("--program", action="append", help="only this one (sqlite3, sort, python3, numpy, Redis); can be repeated")
    parser.add_argument("--corpus", action="append", metavar="NAME", help="instead, this one of docs/programs.md; can be repeated")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this one; can be repeated (the first six)")
    parser.add_argument("--share", action="append", type=Fraction, help="of the peak memory; can be repeated (3/4, 1/2 and 1/4)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1, help="of the inputs")
    parser.add_argument("--swap-folder", default="/var/tmp", help="where swap file and backup go")
    parser.add_argument("--swap-size", type=int, default=1 << 30, help="bytes")
    options = parser.parse_args()
    options.share = options.share or [Fraction(3, 4), Fraction(1, 2), Fraction(1, 4)]
    return options


def main():
    options = read_options()
    if os.geteuid() != 0:
        print("programs: needs root for control groups and swap")
        return 1
    if os.cpu_count() < 2:
        print("programs: needs two processors, one of them for the donors")
        return 1
    if len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1:
        print("programs: this machine swaps already; its swap space may be used as well if ours is full")
    page_cluster = Path("/proc/sys/vm/page-cluster").read_text(encoding="ascii").strip()
    with Processes("bench") as processes:
        bench = Bench(options, processes)
        bench.progress.begin("making the inputs")
        if options.corpus:
            jobs = list(corpus_jobs(options.corpus, processes.folder))
        else:
            jobs = make_jobs(processes.folder, options.scale) + make_more_jobs(options.scale)
        bench.progress.clear()
        for job in jobs:
            if not options.program or job.name in options.program:
                bench.measure(job)
        print_table(TOTALS, bench.totals, left=1)
        print(f"medians of {options.rounds}; vm.page-cluster {page_cluster}; {AIMS}")
        if bench.chosen:
            print(f"farpage run chooses the faster engine {sum(bench.chosen)} times of {len(bench.chosen)}")
        return 1 if bench.failed else 0


sys.exit(main())
