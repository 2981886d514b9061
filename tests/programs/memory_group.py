"""Memory pressure on a job: a control group that limits its memory, and swap space for the rest. Needs root."""
import os
import subprocess
import threading
import time
from pathlib import Path


class Unavailable(Exception):
    """This machine lacks something, for the reason in the text."""


def write_setting(path, text):
    try:
        Path(path).write_text(str(text), encoding="ascii")
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


FIRST_PRIORITY = "32767" # before any swap space that the machine has of its own
HIGH_PART = 16 # as in cli/run/run_group.c


def command(*words):
    """Runs a command and returns its output. Raises Unavailable if the command fails."""
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode != 0:
        raise Unavailable(f"{words[0]}: {run.stdout.strip()}")
    return run.stdout.strip()


def swap_on(path):
    """Makes @path, a device or a file, swap space that the kernel uses first."""
    command("mkswap", path)
    command("swapon", "--priority", FIRST_PRIORITY, path)


class MemoryGroup:
    """
    A control group (version 1 or 2) that limits resident memory to @limit bytes. The kernel may kill jobs of a group
    although swap space is free (cli/run/run_group.h says why). Against this, memory.stat is read every 10 ms while the
    group stands, which helps with version 1, and memory.high is set with version 2.
    """

    def __init__(self, limit, purpose="bench"):
        name = f"farpage-job-{purpose}-{os.getpid()}" # farpage-NAME is the daemon's of device NAME
        if Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists():
            self.path = Path("/sys/fs/cgroup/memory", name)
            settings = {"memory.limit_in_bytes": limit}
        elif Path("/sys/fs/cgroup/cgroup.controllers").exists():
            write_setting("/sys/fs/cgroup/cgroup.subtree_control", "+memory")
            self.path = Path("/sys/fs/cgroup", name)
            settings = {"memory.high": limit - limit // HIGH_PART, "memory.max": limit}
        else:
            raise Unavailable("no control group for memory under /sys/fs/cgroup")
        try:
            self.path.mkdir()
        except OSError as error:
            raise Unavailable(f"{self.path}: {error.strerror}") from error
        self.done = threading.Event()
        self.reader = threading.Thread(target=self._read_stat)
        try:
            for name, value in settings.items():
                write_setting(self.path / name, value)
        except Unavailable:
            self.path.rmdir()
            raise
        self.reader.start()

    def prefix(self):
        """Returns the prefix for a command that should run inside the group."""
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.path / "cgroup.procs")]

    def _read_stat(self):
        while not self.done.wait(0.01):
            (self.path / "memory.stat").read_bytes()

    def close(self):
        self.done.set()
        self.reader.join()
        for _ in range(100): # the last process may still be going
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)
