"""disks: devices for tests in Python, by FUSE or FARPAGE_TEST_FRONTEND. Each test has its own runtime folder."""
import json
import os
from pathlib import Path

from tap import FOLDER, at_end, farpage, run, skip_all, wait_until

FRONTEND = os.environ.get("FARPAGE_TEST_FRONTEND", "fuse")
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


sysctls_write(*SYSCTLS.values())


def lacking():
    """Returns why devices are not possible here, or None if they are. They are then removed at the end of the test."""
    if os.geteuid() != 0:
        return "block devices need root"
    if FRONTEND == "fuse" and not (os.access("/dev/fuse", os.W_OK) and os.access("/dev/loop-control", os.W_OK)):
        return "no FUSE or no loop devices"
    if FRONTEND == "ublk" and not os.access("/dev/ublk-control", os.W_OK):
        return "no /dev/ublk-control"
    at_end(clean)
    return None


def require():
    """Skips the test if devices are not possible here."""
    if why := lacking():
        skip_all(why)


def attach(name, size, *options, verb=("disk", "attach"), **others):
    return farpage(*verb, "--name", name, "--size", size, "--frontend", FRONTEND, "--log", LOG, *options, **others)


def detach(name):
    return farpage("disk", "detach", name)


def known():
    """Returns the data of each device that disk list knows, by name."""
    return {disk["name"]: disk for disk in json.loads(farpage("disk", "list", "--json").stdout)["disks"]}


def left_over():
    """Returns the remains of this test's devices on the machine."""
    left = [str(path) for path in RUNTIME.glob("*") if path.name != ".lock"]
    left += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(FOLDER) in line]
    left += [line for line in loops() if str(FOLDER) in line]
    return left + processes()


def nothing_left():
    """Returns true if no remains are left soon. A process needs a moment to end after it has removed its device."""
    return wait_until(lambda: left_over() == [])


def clean():
    """Removes the remains of a failed test."""
    for name in [path.name for path in RUNTIME.iterdir()] if RUNTIME.exists() else []:
        farpage("swap", "off", name)
        detach(name)


def loops():
    """Returns the loop devices with their backing files."""
    return [f"{path.parent.parent}: {read(path)}" for path in Path("/sys/block").glob("loop*/loop/backing_file")]


def read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def groups():
    """Returns the control groups of farpage. os.walk() passes over groups that are removed meanwhile."""
    return [os.path.join(top, name) for top, names, _ in os.walk("/sys/fs/cgroup") for name in names
            if name.startswith("farpage-")]


def processes():
    """Returns the daemons of this test's devices."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        command = read(path / "cmdline")
        if "farpage-blockdev" in command and str(FOLDER) in read(path / "environ"):
            found.append(f"{path.name}: {command}".replace("\0", " "))
    return found


def swaps():
    """Returns /proc/swaps by device: size and used memory in KiB, and priority."""
    rows = [line.split() for line in Path("/proc/swaps").read_text(encoding="ascii").splitlines()[1:]]
    return {row[0]: [int(word) for word in row[2:5]] for row in rows}


def unshared(script, *words):
    """Runs @script and then a command in a new mount namespace. Returns the finished command."""
    return run("unshare", "--mount", "sh", "-ec", script + '\nexec "$@"', "sh", *words)
