"""Donors and measured runs, and a folder for their files. All processes end when Processes ends, in whatever way.

Each process has its own session, so Ctrl-C reaches only the script, which then ends the processes in order.
"""
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from donor import Donor # noqa: E402


class Outcome:
    """The result of a run: seconds, seconds of processor time, peak resident memory in bytes, exit status, standard
    error."""

    def __init__(self, seconds, processor, peak, status, complaint):
        self.seconds = seconds
        self.processor = processor
        self.peak = peak
        self.status = status
        self.complaint = complaint


def pinned(processor):
    """Returns the prefix for a command that should run only on this processor."""
    return ["taskset", "--cpu-list", str(processor)]


INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Processes:
    def __init__(self, purpose):
        self.purpose = purpose
        self.folder = None
        self.key = None # the file, once there are donors
        self.made = [] # processes that run, and what else is to be called at the end: the last first

    def __enter__(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
        for number in INTERRUPTS:
            signal.signal(number, _interrupted)
        self.folder = tempfile.mkdtemp(prefix=f"farpage-{self.purpose}-")
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        except SystemExit:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_IGN) # cleaning up is not interrupted
        for one in reversed(self.made[:]):
            if isinstance(one, subprocess.Popen):
                self.end(one)
            else:
                one()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, command, **options):
        process = subprocess.Popen(command, start_new_session=True, **options)
        self.made.append(process)
        return process

    def at_end(self, undo):
        """Registers @undo() for the end. Registered functions are called in reverse order."""
        self.made.append(undo)

    def end(self, process):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                break
            _kill_session(process.pid, number)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                pass
        self.made.remove(process)

    def start_donors(self, bin_folder, count, donate, listen="tcp://127.0.0.1:0", slab="64M", prefix=()):
        """Starts donors behind @prefix, by default on free loopback ports. The first call makes a key. Returns the
        addresses."""
        self.key = os.path.join(self.folder, "key")
        if not os.path.exists(self.key) and \
           subprocess.run([bin_folder / "farpage", "key", self.key], stdout=subprocess.DEVNULL, check=False).returncode:
            raise SystemExit(1) # it has said why
        def spawn(command, **options):
            return self.start([*prefix, *command], **options)

        return [Donor("--donate", donate, "--slab", slab, "--key", self.key, uri=listen, spawn=spawn,
                      program=bin_folder / "farpage-memserver", log=os.path.join(self.folder, "donors.log")).uri
                for _ in range(count)]

    def wait(self, process, tick=None):
        """Waits for the end of a started process. Returns its status."""
        _wait(process, time.monotonic(), tick)
        self.made.remove(process)
        return process.returncode

    def run(self, job, output, prefix=(), tick=None, environment=None):
        """
        Runs @job behind @prefix. Its standard output goes to @output, a path or a writable file. Calls tick(seconds)
        some times a second.
        """
        out = open(output, "wb") if isinstance(output, str) else output
        complaint_path = os.path.join(self.folder, "complaint")
        with open(job.stdin or os.devnull, "rb") as stdin, open(complaint_path, "wb+") as complaint:
            start = time.monotonic()
            process = self.start([*prefix, *job.command], cwd=job.folder or self.folder, env={**job.environment, **(environment or {})},
                                 stdin=stdin, stdout=out, stderr=complaint)
            out.close()
            usage = _wait(process, start, tick)
            seconds = time.monotonic() - start
            self.made.remove(process)
            complaint.seek(0)
            text = complaint.read().decode("utf-8", "replace")
        os.unlink(complaint_path)
        return Outcome(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, process.returncode, text)


def _interrupted(number, _frame):
    raise SystemExit(128 + number)


@contextlib.contextmanager
def uninterrupted():
    """Delays signals, so that the work inside is not left half done. A signal that came meanwhile ends the script
    afterwards."""
    caught = []
    before = {number: signal.signal(number, lambda number, _: caught.append(number)) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        raise SystemExit(128 + caught[0])


def _kill_session(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def _wait(process, start, tick):
    """Waits for @process. Returns the resources that the process and its children used."""
    handle = os.pidfd_open(process.pid)
    try:
        while not select.select([handle], [], [], 0.2 if tick else None)[0]:
            tick(time.monotonic() - start)
    finally:
        os.close(handle)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


class Progress:
    """Shows progress: a terminal has one line that is rewritten, other files get a line for each step."""

    def __init__(self, stream=sys.stderr):
        self.stream = stream
        self.live = stream.isatty()
        self.step = ""

    def begin(self, step):
        self.step = step
        print(f"\r\033[K{step} ..." if self.live else f"{step} ...", end="" if self.live else "\n", file=self.stream,
              flush=True)

    def tick(self, seconds):
        if self.live:
            print(f"\r\033[K{self.step} ... {seconds:.0f} s", end="", file=self.stream, flush=True)

    def clear(self):
        if self.live:
            print("\r\033[K", end="", file=self.stream, flush=True)


def format_size(size):
    """Returns a size as farpage writes it: 43.1M."""
    for unit in ("", "K", "M", "G", "T"):
        if size < 1024 or unit == "T":
            return f"{size:.1f}{unit}".replace(".0", "") if unit else str(size)
        size /= 1024


def print_table(columns, rows, left):
    """The first @left columns are words."""
    table = [columns, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    print()
    for row in table:
        print("  ".join(cell.ljust(width) if i < left else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))
