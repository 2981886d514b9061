#!/usr/bin/python3
"""test_swap.py FARPAGE MEMSERVER: farpage swap, with pages of this process on the device."""
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402
from disks import FOLDER, Disks, processes, read, remove_folder, require, sysctls, sysctls_write, unshared, wait # noqa: E402

farpage, memserver = sys.argv[1:3]
disks = Disks(farpage)
MADV_PAGEOUT = 21
SWAPOFF = "168 " # its number
BYTES = 4 << 20
PRIORITY = 32767 # the highest: pages go nowhere else


def swaps():
    """/proc/swaps: size, used, priority in KiB by device."""
    rows = [line.split() for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    return {row[0]: [int(word) for word in row[2:5]] for row in rows}


def swap_on(*options, **others):
    return disks.attach(others.pop("name", "swap"), others.pop("size", "16M"), *options, verb=("swap", "on"))


def refused(result, name, *words, status=1):
    ok(result.returncode == status and result.stderr.count("\n") == 1 and all(word in result.stderr for word in words),
       name, shown(result), f"words: {words}")


class Holder:
    """A process with memory that is swapped out, and nowhere else: read back once, it is clean, and dropped the next time
    without being written again."""

    all = []

    def __init__(self):
        self.said, said = os.pipe()
        words, self.words = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.hold(said, words)
            finally:
                os._exit(1)
        os.close(said)
        os.close(words)
        self.all.append(self)

    @staticmethod
    def hold(said, words):
        memory = mmap.mmap(-1, BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, BYTES, 4096):
            memory[at:at + 8] = (at ^ os.getpid()).to_bytes(8, "little")
        memory.madvise(MADV_PAGEOUT)
        os.write(said, b"+")
        while os.read(words, 1) == b"?":
            good = all(memory[at:at + 8] == (at ^ os.getpid()).to_bytes(8, "little") for at in range(0, BYTES, 4096))
            memory.madvise(MADV_PAGEOUT)
            os.write(said, b"+" if good else b"-")

    def heard(self):
        return os.read(self.said, 1) == b"+"

    def is_intact(self):
        os.write(self.words, b"?")
        return self.heard()

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.said)
        os.close(self.words)


def test_refusals(uri):
    refused(run(farpage, "swap"), "no verb", "verb", status=2)
    refused(run(farpage, "swap", "off", "nosuch"), "off, and there is none", "nosuch")
    refused(run(farpage, "swap", "off"), "off without a name", "swap")
    refused(run(farpage, "swap", "on", "--memory", "--size=16M", "--priority=40000"), "a priority that is none",
            "priority", status=2)
    refused(swap_on("--donor", uri, size="65M"), "more than the donors have", "64M", "--overcommit")
    disks.attach("disk", "8M", "--memory")
    refused(run(farpage, "swap", "off", "disk"), "off, and it is no swap space", "no swap space")
    disks.detach("disk")
    folder = FOLDER / "mkswap"
    folder.write_text("#!/bin/sh\nexit 1\n")
    folder.chmod(0o755)
    hide = f"for at in /usr/sbin/mkswap /sbin/mkswap; do [ ! -e $at ] || mount --bind {folder} $at; done"
    result = unshared(hide, farpage, "swap", "on", "--size=16M", "--memory", "--frontend=fuse", f"--log={FOLDER / 'log'}")
    ok(result.returncode == 1 and "mkswap" in result.stderr.splitlines()[-1], "mkswap fails", shown(result))
    interrupter = FOLDER / "mkswap.interrupts"
    interrupter.write_text(f'#!/bin/sh\nkill -TERM $PPID\nexec {FOLDER}/mkswap.real "$@"\n')
    interrupter.chmod(0o755)
    hide = f"cp /sbin/mkswap {FOLDER}/mkswap.real; " + hide.replace(str(folder), str(interrupter))
    result = unshared(hide, farpage, "swap", "on", "--size=16M", "--memory", "--frontend=fuse", f"--log={FOLDER / 'log'}")
    ok(result.returncode == -signal.SIGTERM and "swap on:" not in result.stderr, "ended when the device is there",
       shown(result))
    ok(disks.nothing_left(), "nothing is left of all that", disks.left_over())


def test_sysctls(uri):
    """What is raised with a device, and put back with it, whoever removes it."""
    ok(sysctls() == [1000, 10], "before")
    result = swap_on("--memory")
    raised = sysctls()
    ok(raised[0] > 1000 and raised[1] >= 10 and
       result.stderr.splitlines()[-1].startswith(f"set for as long as swap is there: vm.min_free_kbytes 1000 -> {raised[0]}"),
       "swap on raises them, and says so", shown(result), raised)
    swap_on("--memory", name="other")
    ok(sysctls() == raised, "another device needs no more", sysctls())
    ok(run(farpage, "swap", "off").returncode == 0 and sysctls() == raised, "the first goes: they stay", sysctls())
    ok(run(farpage, "swap", "off", "other").returncode == 0 and sysctls() == [1000, 10], "and so does the last: as before",
       sysctls())
    device = swap_on("--memory").stdout.splitlines()[-1]
    sysctls_write(raised[0] + 1, raised[1])
    run("swapoff", device)
    for which in ("keeper", "pid"):
        os.kill(disks.list()["swap"][which], signal.SIGKILL)
    wait(lambda: not processes())
    ok(sysctls() == [raised[0] + 1, raised[1]], "the daemon is killed: nobody puts anything back", sysctls())
    result = disks.detach("swap")
    ok(result.returncode == 0 and sysctls() == [raised[0] + 1, 10],
       "whoever removes what is left does, but for what somebody has changed", shown(result), sysctls())
    sysctls_write(1000, 10)
    result = swap_on("--memory", "--keep-vm-settings")
    ok(sysctls() == [1000, 10] and "set for" not in result.stderr, "--keep-vm-settings", shown(result), sysctls())
    run(farpage, "swap", "off")
    swap_on("--donor", uri, size="65M")
    ok(sysctls() == [1000, 10], "a device that could not be made leaves them as they were", sysctls())
    disks.attach("disk", "8M", "--memory")
    ok(sysctls() == [1000, 10], "nor are they raised for a disk", sysctls())
    disks.detach("disk")
    ok(disks.nothing_left(), "nothing is left", disks.left_over())


def test_rest(uri):
    """What a swap off that could not go on has left."""
    device = swap_on("--donor", uri).stdout.splitlines()[-1]
    with open(device, "rb"):
        refused(run(farpage, "swap", "off"), "off, and somebody has the device open", device)
    ok(device not in swaps() and "swap" in disks.list(), "it is no swap space any more, and there still", disks.list())
    result = run(farpage, "swap", "off")
    ok(result.returncode == 0 and result.stderr == "" and disks.nothing_left() and sysctls() == [1000, 10],
       "off once more removes it, and puts back what was raised", shown(result), disks.left_over(), sysctls())
    device = swap_on("--donor", uri).stdout.splitlines()[-1]
    run("swapoff", device)
    for which in ("keeper", "pid"):
        os.kill(disks.list()["swap"][which], signal.SIGKILL)
    wait(lambda: not processes())
    result = run(farpage, "swap", "off")
    ok(result.returncode == 0 and disks.nothing_left() and sysctls() == [1000, 10],
       "also when its daemon has died since", shown(result), disks.left_over(), sysctls())


def test_vanished():
    """The device's file is gone, the device is not."""
    device = Path(swap_on("--memory").stdout.strip())
    away = Path(f"{device}.farpage-test")
    device.rename(away)
    try:
        refused(disks.detach("swap"), "its file vanished: it is not detached all the same", "swap space")
        refused(run(farpage, "swap", "off"), "nor is it swapped off", "vanished")
    finally:
        away.rename(device)
    ok(run(farpage, "swap", "off").returncode == 0 and str(device) not in swaps(), "off, once the file is back")
    disks.attach("disk", "8M", "--memory")
    device = Path(disks.list()["disk"]["device"])
    device.rename(away)
    try:
        result = disks.detach("disk")
    finally:
        away.rename(device)
    ok(result.returncode == 0 and disks.nothing_left(), "a disk without its file is detached", shown(result),
       disks.left_over())


def test_on_off(uri):
    result = swap_on("--donor", uri, "--priority", str(PRIORITY))
    device = result.stdout.splitlines()[-1] if result.stdout else "?"
    ok(result.returncode == 0 and swaps().get(device, [0, 0, 0])[2] == PRIORITY, "on, with the priority asked for",
       shown(result), swaps())
    rows = [line.split() for line in run(farpage, "swap", "list").stdout.splitlines()]
    ok(len(rows) == 2 and rows[1][:2] == ["swap", device] and rows[1][4] == str(PRIORITY), "swap list shows it", rows)
    refused(disks.detach("swap"), "it is not detached meanwhile", "swap space")
    os.kill(disks.list()["swap"]["keeper"], signal.SIGTERM)
    ok(wait(lambda: "in use" in (FOLDER / "log").read_text()) and device in swaps(), "nor by SIGTERM, and the log says so",
       (FOLDER / "log").read_text())
    holders = [Holder(), Holder()]
    ok(all(holder.heard() for holder in holders) and
       wait(lambda: disks.list()["swap"]["bytes_used"] >= len(holders) * BYTES), "pages are written to the device",
       disks.list())
    ok(all(holder.is_intact() for holder in holders), "and read back")
    ok(swaps()[device][1] * 1024 >= len(holders) * BYTES, "pages are swapped out", swaps())
    test_no_room(device)
    test_interrupted(device)
    result = run(farpage, "swap", "off")
    ok(result.returncode == 0 and result.stderr == "" and device not in swaps(), "off", shown(result))
    ok(all(holder.is_intact() for holder in holders), "what was swapped out is as it was")
    while Holder.all:
        Holder.all.pop().end()
    ok(disks.nothing_left(), "nothing is left", disks.left_over())


def test_no_room(device):
    """A machine that has no memory left: by what it is told."""
    if list(swaps()) != [device]:
        return # other swap space would have room
    meminfo = FOLDER / "meminfo"
    meminfo.write_text("MemTotal: 100 kB\nMemAvailable: 12 kB\n")
    refused(unshared(f"mount --bind {meminfo} /proc/meminfo", farpage, "swap", "off"),
            "off, and there is no room: refused with the figures", device, "12K", "8M")
    ok(device in swaps(), "it is still swap space")


def children(pid):
    return read(Path(f"/proc/{pid}/task/{pid}/children")).split()


def has_pending(pid, number):
    """Whether a signal has come that it could not take yet."""
    rows = dict(line.split(":", 1) for line in read(Path(f"/proc/{pid}/status")).splitlines())
    return any(int(rows.get(row, "0"), 16) >> (number - 1) & 1 for row in ("SigPnd", "ShdPnd"))


def test_interrupted(device):
    """The donor is held up, so that there is time to interrupt. The kernel looks up between two processes."""
    donor.send_signal(signal.SIGSTOP)
    with subprocess.Popen([farpage, "swap", "off"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as off:
        wait(lambda: any(read(Path(f"/proc/{child}/syscall")).startswith(SWAPOFF) for child in children(off.pid)))
        off.send_signal(signal.SIGINT)
        wait(lambda: any(has_pending(child, signal.SIGKILL) for child in children(off.pid)))
        donor.send_signal(signal.SIGCONT)
        text = off.communicate()[1]
    ok(off.returncode == 1 and text.count("\n") == 1 and "interrupted" in text, "interrupted, in one line", text)
    ok(device in swaps(), "it is still swap space", swaps())


require()
if any(row[2] >= PRIORITY for row in swaps().values()):
    remove_folder()
    print("1..0 # SKIP this machine swaps elsewhere with the highest priority")
    sys.exit(0)
try:
    donor, address = start_donor(memserver, "--donate", "64M", "--slab", "4M")
    test_refusals(address)
    test_sysctls(address)
    test_rest(address)
    test_vanished()
    test_on_off(address)
finally:
    donor.send_signal(signal.SIGCONT)
    while Holder.all:
        Holder.all.pop().end()
    disks.clean()
    stop_donors()
done()
