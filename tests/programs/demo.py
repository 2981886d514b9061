"""
demo.py [--no-vm] BIN: runs real programs on real text, with all their memory local, and with three quarters, a half
and a quarter of it. Two donors on this machine lend the rest. Then a program swaps to donors, here and in a virtual
machine with RDMA (--no-vm: only here). BIN is the folder of farpage and the daemons. Exit status 1 if an answer
differs.
"""
import argparse
import filecmp
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from jobs import make_jobs, write_head
from memory_group import Unavailable
from processes import Processes, Progress, format_size, print_table
from swapped import Failed, run_swapped

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]

SCALE = 0.5 # of jobs.make_jobs: the memory of the largest program is then about 200 MB
DISK_NEEDED = 700 << 20
LOCAL_MIN = 8 << 20
SWAP_TEXT = 24 << 20 # size of the text to sort on swap; the sort takes twice as much memory
SWAP_SIZE = "512M"
AVAILABLE_MIN = 2 << 30 # swapping to memory of the same machine, it must not run short of it
GUEST_TEXT = 8 << 20 # emulated processors are slow
GUEST_SIZE = "256M"
GUEST_LIMIT = 300 # seconds
SHARES = (("3/4", 3, 4), ("1/2", 1, 2), ("1/4", 1, 4))
COLUMNS = ("program", "memory needed", "local budget", "share", "peak resident", "pages fetched", "all local", "with far memory",
           "slowdown", "same answer")
SWAP_COLUMNS = ("program", "swapping to", "memory needed", "limit", "pages out", "pages in", "all local", "a quarter", "slowdown",
                "same answer")


class Demo:
    def __init__(self, bin_folder, processes):
        self.bin = Path(bin_folder).resolve()
        self.folder = Path(processes.folder)
        self.processes = processes
        self.progress = Progress()
        self.donors = []
        self.rows, self.swap_rows = [], []
        self.failed = False

    def start_donors(self):
        self.donors = self.processes.start_donors(self.bin, 2, "512M")
        print("two donors lend 512M each:", " ".join(self.donors), flush=True)

    def far_prefix(self, local, stats):
        donors = [word for donor in self.donors for word in ("--donor", donor)]
        return [str(self.bin / "farpage"), "run", "--local", f"{local >> 20}M", *donors, "--key",
                self.processes.key, "--stats", str(stats), "--"]

    def run(self, job):
        here = str(self.folder / f"{job.name}.here")
        self.progress.begin(f"{job.name}: with all its memory")
        whole = self.processes.run(job, here, tick=self.progress.tick)
        self.progress.clear()
        if whole.status != 0:
            raise SystemExit(f"{job.name} fails by itself (status {whole.status}):\n{whole.complaint}")
        for share, part, of in SHARES:
            self.run_far(job, here, whole, share, max(whole.peak * part // of >> 20 << 20, LOCAL_MIN))
        os.unlink(here)

    def run_far(self, job, here, whole, share, local):
        far, stats = (str(self.folder / f"{job.name}.{end}") for end in ("far", "stats"))
        self.progress.begin(f"{job.name}: took {whole.seconds:.1f} s; now with {format_size(local)} of the"
                            f" {format_size(whole.peak)} it needs")
        outcome = self.processes.run(job, far, prefix=self.far_prefix(local, stats), tick=self.progress.tick)
        self.progress.clear()
        same = outcome.status == 0 and filecmp.cmp(here, far, shallow=False)
        self.add_row(job, whole, share, local, outcome, stats, same)
        for path in (far, stats):
            Path(path).unlink(missing_ok=True)

    def add_row(self, job, whole, share, local, outcome, stats, same):
        counters = {}
        if os.path.exists(stats):
            counters = json.loads(Path(stats).read_text(encoding="utf-8"))
        if not same:
            self.failed = True
            print(f"{job.name} behind farpage run: status {outcome.status}, another answer\n{outcome.complaint}")
        elif outcome.complaint:
            print(f"{job.name}: {outcome.complaint}", end="", flush=True)
        self.rows.append((job.name, format_size(whole.peak), format_size(local), share,
                          format_size(counters.get("resident_peak_bytes", 0)), f"{counters.get('fetched_pages', 0):,}",
                          f"{whole.seconds:.1f} s", f"{outcome.seconds:.1f} s", f"{outcome.seconds / whole.seconds:.1f}x",
                          "yes" if same else "NO"))

    def swap_here(self, text):
        available = next(int(line.split()[1]) << 10 for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
                         if line.startswith("MemAvailable:"))
        if available < AVAILABLE_MIN:
            raise Unavailable(f"{format_size(available)} of memory available, less than {format_size(AVAILABLE_MIN)}")
        part = self.folder / "swap-text"
        write_head(text, part, SWAP_TEXT)
        counters = run_swapped(self.bin, self.processes, self.progress, self.donors, part, "fuse", SWAP_SIZE, "this machine")
        self.add_swap_row("FUSE over tcp", counters)

    def swap_in_guest(self, text):
        """Swaps with ublk over soft-RoCE, in a virtual machine."""
        self.progress.begin("getting ready what a virtual machine boots from")
        image = subprocess.run([CHECKOUT / "tests/vm/image.sh"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, check=False)
        if image.returncode != 0 or not shutil.which("qemu-system-x86_64"):
            raise Unavailable(image.stderr.strip() or "qemu-system-x86_64 is not installed")
        part, answer = self.folder / "guest-text", self.folder / "guest-answer"
        write_head(text, part, GUEST_TEXT)
        self.progress.begin("sort: the same in a virtual machine, with RDMA")
        words = ["/usr/bin/python3", "-B", str(HERE / "swapped.py"), str(self.bin), str(part), "ublk", "virtual machine",
                 "rdma://10.77.0.1:0", GUEST_SIZE]
        commands = f". tests/vm/guest.sh && rxe_up && modprobe ublk_drv && {shlex.join(words)}"
        with open(answer, "wb") as out, open(self.folder / "guest-log", "wb") as log:
            guest = self.processes.start(["/usr/bin/python3", "-B", "tests/vm/vm.py", "--hold", "-t", str(GUEST_LIMIT), commands],
                                         cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
            status = self.processes.wait(guest, tick=self.progress.tick)
        self.progress.clear()
        if status != 0:
            raise Failed((self.folder / "guest-log").read_text(encoding="utf-8", errors="replace").strip())
        self.add_swap_row("ublk over soft-RoCE, in a VM", json.loads(answer.read_text(encoding="utf-8")))

    def add_swap_row(self, where, counters):
        if not counters["same"]:
            self.failed = True
            print(f"{counters['program']} swapping to {counters['device']}: status {counters['status']}, another answer\n"
                  f"{counters['complaint']}")
        seconds = counters["here_seconds"], counters["far_seconds"]
        self.swap_rows.append((counters["program"], where, format_size(counters["peak"]), format_size(counters["limit"]),
                               f"{counters['pages_out']:,}", f"{counters['pages_in']:,}", f"{seconds[0]:.1f} s",
                               f"{seconds[1]:.1f} s", f"{seconds[1] / seconds[0]:.1f}x", "yes" if counters["same"] else "NO"))

    def try_swap(self, name, swap, text):
        try:
            swap(text)
        except Unavailable as why:
            self.progress.clear()
            print(f"no swapping {name}: {why}", flush=True)
        except Failed as why:
            self.failed = True
            self.progress.clear()
            print(f"swapping {name} failed: {why}", flush=True)

    def print_tables(self):
        print_table(COLUMNS, self.rows, left=1)
        if self.swap_rows:
            print_table(SWAP_COLUMNS, self.swap_rows, left=2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--no-vm", action="store_true")
    options = parser.parse_args()
    with Processes("demo") as processes:
        if shutil.disk_usage(processes.folder).free < DISK_NEEDED:
            raise SystemExit(f"demo: needs {DISK_NEEDED >> 20}M free in {os.path.dirname(processes.folder)};"
                             " TMPDIR can name another place")
        demo = Demo(options.bin, processes)
        try:
            demo.progress.begin("gathering text from the package lists and /usr/share")
            jobs = make_jobs(processes.folder, SCALE)
            demo.progress.clear()
            demo.start_donors()
            for job in jobs:
                demo.run(job)
            text = demo.folder / "text"
            demo.try_swap("on this machine", demo.swap_here, text)
            if not options.no_vm:
                demo.try_swap("in a virtual machine", demo.swap_in_guest, text)
        finally:
            demo.progress.clear()
        demo.print_tables()
        return 1 if demo.failed else 0


sys.exit(main())
