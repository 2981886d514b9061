"""disks: devices for tests in Python, by FUSE or FARPAGE_TEST_FRONTEND. Each test has its own runtime folder."""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tap import run

FRONTEND = os.environ.get("FARPAGE_TEST_FRONTEND", "fuse")
FOLDER = Path(tempfile.mkdtemp(prefix="farpage-test-"))
RUNTIME = FOLDER / "run"
LOG = FOLDER / "log"
os.environ["FARPAGE_RUNTIME"] = str(RUNTIME)
# farpage swap on raises these settings. The test gives it copies of the files in /proc/sys/vm, not this machine's own.
SYSCTLS = {"min_free_kbytes": 1000, "watermark_scale_factor": 10}
os.environ["FARPAGE_SYSCTL_VM"] = str(FOLDER)


def sysctls_write(*values):
    for name, value in zip(SYSCTLS, values):
        (FOLDER / name).write_text(f"{value}\n", encoding="ascii")


def sysctls():
    return [int(read(FOLDER / name)) for name in SYSCTLS]


def remove_folder():
    for path in FOLDER.iterdir():
        path.unlink()
    FOLDER.rmdir()


def require():
    """Skips the test if devices are not possible here."""
    why = None
    if os.geteuid() != 0:
        why = "block devices need root"
    elif FRONTEND == "fuse" and not (os.access("/dev/fuse", os.W_OK) and os.access("/dev/loop-control", os.W_OK)):
        why = "no FUSE or no loop devices"
    elif FRONTEND == "ublk" and not os.access("/dev/ublk-control", os.W_OK):
        why = "no /dev/ublk-control"
    sysctls_write(*SYSCTLS.values())
    if why:
        remove_folder()
        print(f"1..0 # SKIP {why}")
        sys.exit(0)


def wait(condition, seconds=10):
    """Waits until the condition is true. Returns false if that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Disks:
    """The farpage command with this test's options."""

    def __init__(self, farpage):
        self.farpage = farpage

    def call(self, *words, **options):
        return run(self.farpage, *words, **options)

    def attach(self, name, size, *options, verb=("disk", "attach"), **others):
        return self.call(*verb, "--name", name, "--size", size, "--frontend", FRONTEND, "--log", LOG, *options, **others)

    def detach(self, name):
        return self.call("disk", "detach", name)

    def list(self):
        """Returns the data of each device that disk list knows, by name."""
        return {disk["name"]: disk for disk in json.loads(self.call("disk", "list", "--json").stdout)["disks"]}

    def left_over(self):
        """Returns the remains of this test's devices on the machine."""
        left = [str(path) for path in RUNTIME.iterdir()] if RUNTIME.exists() else []
        left += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(FOLDER) in line]
        left += [line for line in loops() if str(FOLDER) in line]
        return left + processes()

    def nothing_left(self):
        """Returns true if no remains are left soon. A process needs a moment to end after it has removed its device."""
        return wait(lambda: self.left_over() == [])

    def clean(self):
        """Removes the remains of a failed test."""
        for name in [path.name for path in RUNTIME.iterdir()] if RUNTIME.exists() else []:
            self.call("swap", "off", name)
            self.detach(name)
        if RUNTIME.exists():
            RUNTIME.rmdir()
        LOG.unlink(missing_ok=True)
        remove_folder()


def loops():
    """Returns the loop devices with their backing files."""
    return [f"{path.parent.parent}: {read(path)}" for path in Path("/sys/block").glob("loop*/loop/backing_file")]


def read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def processes():
    """Returns the daemons of this test's devices."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        command = read(path / "cmdline")
        if "farpage-blockdev" in command and str(FOLDER) in read(path / "environ"):
            found.append(f"{path.name}: {command}".replace("\0", " "))
    return found


def is_alive(pid):
    """Returns true if the process runs. A zombie does not run."""
    return read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def unshared(script, *words):
    """Runs @script and then a command in a new mount namespace. Returns the finished command."""
    return subprocess.run(["unshare", "--mount", "sh", "-ec", script + '\nexec "$@"', "sh", *map(str, words)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                          check=False)
