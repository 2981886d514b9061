"""Memory pressure as farpage's rivals meet it: a control group with a limit, and swap on zram or in a file.

All of it needs root. Each thing made here has close(), which may be called again and takes back what was done.
"""
import os
import subprocess
import threading
import time
from pathlib import Path

FIRST_PRIORITY = "32767" # before any swap space that the machine has of its own


class Unavailable(Exception):
    """Why something cannot be had on this machine."""


def _command(*words):
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode != 0:
        raise Unavailable(f"{words[0]}: {run.stdout.strip()}")
    return run.stdout.strip()


def _write(path, text):
    try:
        Path(path).write_text(str(text), encoding="ascii")
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


class MemoryGroup:
    """
    A control group (version 1 or 2) that limits resident memory to @limit bytes. While it stands, its memory.stat is
    read every 10 ms: with version 1, jobs are killed for lack of memory with swap free otherwise.
    """

    def __init__(self, limit):
        name = f"farpage-bench-{os.getpid()}"
        if Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists():
            self.path = Path("/sys/fs/cgroup/memory", name)
            limit_file = "memory.limit_in_bytes"
        elif Path("/sys/fs/cgroup/cgroup.controllers").exists():
            _write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")
            self.path = Path("/sys/fs/cgroup", name)
            limit_file = "memory.max"
        else:
            raise Unavailable("no control group for memory under /sys/fs/cgroup")
        try:
            self.path.mkdir()
        except OSError as error:
            raise Unavailable(f"{self.path}: {error.strerror}") from error
        self.done = threading.Event()
        self.reader = threading.Thread(target=self._read_stat)
        try:
            _write(self.path / limit_file, limit)
        except Unavailable:
            self.path.rmdir()
            raise
        self.reader.start()

    def prefix(self):
        """What to put before a command that is to run inside."""
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


class Zram:
    """Swap on a zram device of its own, compressed by lz4."""

    def __init__(self, size):
        if not Path("/sys/class/zram-control").exists():
            subprocess.run(["modprobe", "zram"], stderr=subprocess.DEVNULL, check=False)
        try:
            self.number = Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
        except OSError as error:
            raise Unavailable("no zram in this kernel") from error
        self.device = f"/dev/zram{self.number}"
        try:
            _write(f"/sys/block/zram{self.number}/comp_algorithm", "lz4")
            _write(f"/sys/block/zram{self.number}/disksize", size)
            _command("mkswap", self.device)
            _command("swapon", "--priority", FIRST_PRIORITY, self.device)
        except Unavailable:
            self.close()
            raise

    def close(self):
        if not os.path.exists(self.device):
            return
        subprocess.run(["swapoff", self.device], stderr=subprocess.DEVNULL, check=False)
        try:
            Path("/sys/class/zram-control/hot_remove").write_text(self.number, encoding="ascii")
        except OSError as error:
            print(f"zram{self.number} is still there: {error.strerror}")


class SwapFile:
    """Swap in a file of @size bytes in @folder, which must be on a disk."""

    def __init__(self, folder, size):
        self.path = os.path.join(folder, f"farpage-bench-{os.getpid()}.swap")
        try:
            kind = _command("stat", "--file-system", "--format=%T", folder)
            if kind in ("tmpfs", "ramfs", "overlayfs"):
                raise Unavailable(f"{folder} is {kind}, not a disk; --swap-folder can name another")
            _command("fallocate", "--length", str(size), self.path)
            os.chmod(self.path, 0o600)
            _command("mkswap", self.path)
            _command("swapon", "--priority", FIRST_PRIORITY, self.path)
        except Unavailable:
            self.close()
            raise

    def close(self):
        if not os.path.exists(self.path):
            return
        subprocess.run(["swapoff", self.path], stderr=subprocess.DEVNULL, check=False)
        os.unlink(self.path)
