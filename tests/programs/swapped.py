"""
Runs a real program on donors' memory as swap space: `farpage swap on`, the job in a control group with a part of its
memory, `farpage swap off`. The demo uses this module here, and runs it as a program in a virtual machine:

swapped.py BIN TEXT FRONTEND WHERE LISTEN SIZE: prints the counters as one line of JSON. TEXT is the file to sort.
"""
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from jobs import sort_job
from memory_group import FIRST_PRIORITY, MemoryGroup, Unavailable
from processes import Processes, Progress, uninterrupted

PAGE = 4096
LIMIT_MIN = 6 << 20


class Failed(Exception):
    """Something failed that should work."""


class SwapDevice:
    """Provides swap space on @donors, from `farpage swap on` to `farpage swap off`."""

    def __init__(self, bin_folder, processes, donors, frontend, size):
        self.farpage = str(bin_folder / "farpage")
        self.name = f"demo-{os.getpid()}"
        processes.at_end(self.close) # also if what follows is interrupted
        words = ["swap", "on", "--name", self.name, "--size", size, "--frontend", frontend, "--key", processes.key,
                 "--priority", FIRST_PRIORITY, *(word for donor in donors for word in ("--donor", donor))]
        made = self._run(*words)
        if made.returncode != 0:
            raise Failed(f"farpage swap on: status {made.returncode}\n{made.stderr.strip()}")
        self.path = made.stdout.strip().splitlines()[-1]

    def _run(self, *words):
        with uninterrupted():
            return subprocess.run([self.farpage, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=False, start_new_session=True)

    def status(self):
        devices = json.loads(self._run("disk", "list", "--json").stdout)["disks"]
        return next(device for device in devices if device["name"] == self.name)

    def close(self):
        """May be called again."""
        if not self.name:
            return
        ended = self._run("swap", "off", self.name)
        if ended.returncode != 0 and os.path.isdir(f"/run/farpage/{self.name}"):
            print(f"{self.name} is still there: {ended.stderr.strip()}", file=sys.stderr)
        self.name = None


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def run_swapped(bin_folder, processes, progress, donors, text, frontend, size, where):
    """
    Runs the job with all its memory, then with a quarter of it and the rest on @donors. Returns the counters. Raises
    Unavailable if this machine lacks something, and Failed for an error.
    """
    if os.geteuid() != 0:
        raise Unavailable("swap is root's: sudo ./dev demo")
    for device in ("/dev/fuse", "/dev/loop-control") if frontend == "fuse" else ("/dev/ublk-control",):
        if not os.path.exists(device):
            raise Unavailable(f"this kernel has no {device}")
    job = sort_job(text, os.path.getsize(text) * 3)
    here, far = (os.path.join(processes.folder, f"swapped.{end}") for end in ("here", "far"))
    progress.begin(f"{job.name}, {where}: with all its memory")
    whole = processes.run(job, here, tick=progress.tick)
    limit = max(whole.peak // 4 >> 20 << 20, LIMIT_MIN)
    progress.begin(f"{job.name}, {where}: took {whole.seconds:.1f} s; now with {limit >> 20}M, swapping to donors")
    device = SwapDevice(bin_folder, processes, donors, frontend, size)
    group = MemoryGroup(limit, "demo")
    processes.at_end(group.close)
    quarter = processes.run(job, far, prefix=group.prefix(), tick=progress.tick)
    status = device.status()
    group.close()
    device.close()
    progress.clear()
    counters = {
        "program": job.name, "where": where, "device": device.path, "peak": whole.peak, "limit": limit,
        "here_seconds": whole.seconds, "far_seconds": quarter.seconds, "status": [whole.status, quarter.status],
        "complaint": quarter.complaint, "same": quarter.status == whole.status == 0 and digest_of(here) == digest_of(far),
        "digest": digest_of(here), "pages_out": status["bytes"]["write"] // PAGE, "pages_in": status["bytes"]["read"] // PAGE,
    }
    for path in (here, far):
        os.unlink(path)
    return counters


def main():
    folder, text, frontend, where, listen, size = sys.argv[1:]
    with Processes("swapped") as processes:
        # Emulated, an RDMA device in software takes seconds to register 64 MiB.
        donors = processes.start_donors(Path(folder), 2, size, listen, slab="8M")
        try:
            counters = run_swapped(Path(folder), processes, Progress(), donors, text, frontend, size, where)
        except (Failed, Unavailable) as why:
            print(why, file=sys.stderr)
            return 1
    print(json.dumps(counters))
    return 0


if __name__ == "__main__":
    sys.exit(main())
