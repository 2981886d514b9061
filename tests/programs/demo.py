"""
demo.py BIN: real programs on real text, once with all their memory and once with a quarter of it, the rest lent by
two donors on this machine; BIN is where farpage and farpage-memserver are. Exit status 1 if an answer differs.
"""
import filecmp
import json
import os
import shutil
import sys
from pathlib import Path

from jobs import make_jobs
from processes import Processes, Progress, format_size

SCALE = 0.5 # of jobs.make_jobs: the memory of the largest program is then about 200 MB
DISK_NEEDED = 700 << 20
LOCAL_MIN = 8 << 20
COLUMNS = ("program", "memory needed", "local budget", "peak resident", "pages fetched", "all local", "a quarter",
           "slowdown", "same answer")


class Demo:
    def __init__(self, bin_folder, processes):
        self.bin = Path(bin_folder).resolve()
        self.folder = Path(processes.folder)
        self.processes = processes
        self.progress = Progress()
        self.donors = []
        self.rows = []
        self.failed = False

    def start_donors(self):
        self.donors = self.processes.start_donors(self.bin, 2, "512M")
        print("two donors lend 512M each:", " ".join(self.donors), flush=True)

    def far_prefix(self, local, stats):
        donors = [word for donor in self.donors for word in ("--donor", donor)]
        return [str(self.bin / "farpage"), "run", "--local", f"{local >> 20}M", *donors, "--key",
                self.processes.key, "--stats", str(stats), "--"]

    def run(self, job):
        here, far, stats = (str(self.folder / f"{job.name}.{end}") for end in ("here", "far", "stats"))
        self.progress.begin(f"{job.name}: with all its memory")
        whole = self.processes.run(job, here, tick=self.progress.tick)
        if whole.status != 0:
            self.progress.clear()
            raise SystemExit(f"{job.name} fails by itself (status {whole.status}):\n{whole.complaint}")
        local = max(whole.peak // 4 >> 20 << 20, LOCAL_MIN)
        self.progress.begin(f"{job.name}: took {whole.seconds:.1f} s; now with {format_size(local)} of the"
                            f" {format_size(whole.peak)} it needs")
        quarter = self.processes.run(job, far, prefix=self.far_prefix(local, stats), tick=self.progress.tick)
        self.progress.clear()
        same = quarter.status == 0 and filecmp.cmp(here, far, shallow=False)
        self.add_row(job, whole, local, quarter, stats, same)
        for path in (here, far, stats):
            Path(path).unlink(missing_ok=True)

    def add_row(self, job, whole, local, quarter, stats, same):
        counters = {}
        if os.path.exists(stats):
            counters = json.loads(Path(stats).read_text(encoding="utf-8"))
        if not same:
            self.failed = True
            print(f"{job.name} behind farpage run: status {quarter.status}, another answer\n{quarter.complaint}")
        elif quarter.complaint:
            print(f"{job.name}: {quarter.complaint}", end="", flush=True)
        self.rows.append((job.name, format_size(whole.peak), format_size(local),
                          format_size(counters.get("resident_peak_bytes", 0)), f"{counters.get('fetched_pages', 0):,}",
                          f"{whole.seconds:.1f} s", f"{quarter.seconds:.1f} s", f"{quarter.seconds / whole.seconds:.1f}x",
                          "yes" if same else "NO"))

    def print_table(self):
        table = [COLUMNS, *self.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(COLUMNS))]
        print()
        for row in table:
            print("  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]))


def main():
    with Processes("demo") as processes:
        if shutil.disk_usage(processes.folder).free < DISK_NEEDED:
            raise SystemExit(f"demo: needs {DISK_NEEDED >> 20}M free in {os.path.dirname(processes.folder)};"
                             " TMPDIR can name another place")
        demo = Demo(sys.argv[1], processes)
        try:
            demo.progress.begin("gathering text from the package lists and /usr/share")
            jobs = make_jobs(processes.folder, SCALE)
            demo.progress.clear()
            demo.start_donors()
            for job in jobs:
                demo.run(job)
        finally:
            demo.progress.clear()
        demo.print_table()
        return 1 if demo.failed else 0


sys.exit(main())
