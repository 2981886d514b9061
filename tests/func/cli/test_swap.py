#!/usr/bin/python3
"""test_swap.py FARPAGE MEMSERVER: farpage swap, with pages of this test's processes on the device."""
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
SWAPOFF = "168 " # number of the system call
BYTES = 4 << 20
PRIORITY = 32767 # the highest priority, so pages go to no other swap space


def swaps():
    """Returns /proc/swaps by device: size and used memory in KiB, and priority."""
    rows = [line.split() for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    return {row[0]: [int(word) for word in row[2:5]] for row in rows}


def swap_on(*options, **others):
    return disks.attach(others.pop("name", "swap"), others.pop("size", "16M"), *options, verb=("swap", "on"))


def refused(result, name, *words, status=1):
    ok(result.returncode == status and result.stderr.count("\n") == 1 and all(word in result.stderr for word in words),
       name, shown(result), f"words: {words}")


class Holder:
    """A process with memory that is swapped out and not resident. A page that is read back is clean, so the next
    pageout drops it without another write."""

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


def bad_swap_commands_are_refused(uri):
    refused(run(farpage, "swap"), "farpage swap is refused without a verb", "verb", status=2)
    refused(run(farpage, "swap", "off", "nosuch"), "swap off refuses a name without a device", "nosuch")
    refused(run(farpage, "swap", "off"), "swap off without a name is refused when there is no swap space", "swap")
    refused(run(farpage, "swap", "on", "--memory", "--size=16M", "--priority=40000"),
            "swap on refuses --priority 40000", "priority", status=2)
    refused(swap_on("--donor", uri, size="65M"), "swap on refuses a size above the donors' room", "64M", "--overcommit")
    disks.attach("disk", "8M", "--memory")
    refused(run(farpage, "swap", "off", "disk"), "swap off refuses a device that is no swap space", "no swap space")
    disks.detach("disk")
    folder = FOLDER / "mkswap"
    folder.write_text("#!/bin/sh\nexit 1\n")
    folder.chmod(0o755)
    hide = f"for at in /usr/sbin/mkswap /sbin/mkswap; do [ ! -e $at ] || mount --bind {folder} $at; done"
    result = unshared(hide, farpage, "swap", "on", "--size=16M", "--memory", "--frontend=fuse", f"--log={FOLDER / 'log'}")
    ok(result.returncode == 1 and "mkswap" in result.stderr.splitlines()[-1], "swap on fails when mkswap fails",
       shown(result))
    interrupter = FOLDER / "mkswap.interrupts"
    interrupter.write_text(f'#!/bin/sh\nkill -TERM $PPID\nexec {FOLDER}/mkswap.real "$@"\n')
    interrupter.chmod(0o755)
    hide = f"cp /sbin/mkswap {FOLDER}/mkswap.real; " + hide.replace(str(folder), str(interrupter))
    result = unshared(hide, farpage, "swap", "on", "--size=16M", "--memory", "--frontend=fuse", f"--log={FOLDER / 'log'}")
    ok(result.returncode == -signal.SIGTERM and "swap on:" not in result.stderr,
       "swap on ends by SIGTERM after its device exists", shown(result))
    ok(disks.nothing_left(), "refused swap commands leave nothing", disks.left_over())


def kernel_settings_are_raised_and_restored(uri):
    """swap on raises kernel settings. The command that removes the last device restores them."""
    ok(sysctls() == [1000, 10], "the kernel settings have their test values before swap on")
    result = swap_on("--memory")
    raised = sysctls()
    ok(raised[0] > 1000 and raised[1] >= 10 and
       result.stderr.splitlines()[-1].startswith(f"set for as long as swap is there: vm.min_free_kbytes 1000 -> {raised[0]}"),
       "swap on raises the kernel settings and tells so", shown(result), raised)
    swap_on("--memory", name="other")
    ok(sysctls() == raised, "a second swap on does not raise the kernel settings", sysctls())
    ok(run(farpage, "swap", "off").returncode == 0 and sysctls() == raised,
       "swap off of one of two devices keeps the kernel settings raised", sysctls())
    ok(run(farpage, "swap", "off", "other").returncode == 0 and sysctls() == [1000, 10],
       "swap off of the last device restores the kernel settings", sysctls())
    device = swap_on("--memory").stdout.splitlines()[-1]
    sysctls_write(raised[0] + 1, raised[1])
    run("swapoff", device)
    for which in ("keeper", "pid"):
        os.kill(disks.list()["swap"][which], signal.SIGKILL)
    wait(lambda: not processes())
    ok(sysctls() == [raised[0] + 1, raised[1]], "a killed daemon leaves the kernel settings as they are", sysctls())
    result = disks.detach("swap")
    ok(result.returncode == 0 and sysctls() == [raised[0] + 1, 10],
       "disk detach restores the kernel settings that nobody has changed since", shown(result), sysctls())
    sysctls_write(1000, 10)
    result = swap_on("--memory", "--keep-vm-settings")
    ok(sysctls() == [1000, 10] and "set for" not in result.stderr,
       "swap on --keep-vm-settings leaves the kernel settings as they are", shown(result), sysctls())
    run(farpage, "swap", "off")
    swap_on("--donor", uri, size="65M")
    ok(sysctls() == [1000, 10], "a swap on that fails leaves the kernel settings as they were", sysctls())
    disks.attach("disk", "8M", "--memory")
    ok(sysctls() == [1000, 10], "disk attach leaves the kernel settings as they are", sysctls())
    disks.detach("disk")
    ok(disks.nothing_left(), "swap on and off with kernel settings leave nothing", disks.left_over())


def second_swap_off_removes_the_rest(uri):
    """swap off stopped half-way, and left a device that is no swap space."""
    device = swap_on("--donor", uri).stdout.splitlines()[-1]
    with open(device, "rb"):
        refused(run(farpage, "swap", "off"), "swap off is refused while the device is open", device)
    ok(device not in swaps() and "swap" in disks.list(),
       "a swap off refused for an open device leaves a device without swap space", disks.list())
    result = run(farpage, "swap", "off")
    ok(result.returncode == 0 and result.stderr == "" and disks.nothing_left() and sysctls() == [1000, 10],
       "a second swap off removes the device and restores the kernel settings", shown(result), disks.left_over(),
       sysctls())
    device = swap_on("--donor", uri).stdout.splitlines()[-1]
    run("swapoff", device)
    for which in ("keeper", "pid"):
        os.kill(disks.list()["swap"][which], signal.SIGKILL)
    wait(lambda: not processes())
    result = run(farpage, "swap", "off")
    ok(result.returncode == 0 and disks.nothing_left() and sysctls() == [1000, 10],
       "swap off removes a device whose daemon died, and restores the kernel settings", shown(result),
       disks.left_over(), sysctls())


def vanished_device_file_is_no_vanished_device():
    """The device's file is gone, but the device exists."""
    device = Path(swap_on("--memory").stdout.strip())
    away = Path(f"{device}.farpage-test")
    device.rename(away)
    try:
        refused(disks.detach("swap"), "disk detach refuses swap space whose device file vanished", "swap space")
        refused(run(farpage, "swap", "off"), "swap off refuses swap space whose device file vanished", "vanished")
    finally:
        away.rename(device)
    ok(run(farpage, "swap", "off").returncode == 0 and str(device) not in swaps(),
       "swap off succeeds when the device file is back")
    disks.attach("disk", "8M", "--memory")
    device = Path(disks.list()["disk"]["device"])
    device.rename(away)
    try:
        result = disks.detach("disk")
    finally:
        away.rename(device)
    ok(result.returncode == 0 and disks.nothing_left(), "disk detach removes a disk whose device file vanished",
       shown(result),
       disks.left_over())


def swapped_pages_survive_swap_off(uri):
    result = swap_on("--donor", uri, "--priority", str(PRIORITY))
    device = result.stdout.splitlines()[-1] if result.stdout else "?"
    ok(result.returncode == 0 and swaps().get(device, [0, 0, 0])[2] == PRIORITY,
       "swap on makes swap space with the priority asked for", shown(result), swaps())
    rows = [line.split() for line in run(farpage, "swap", "list").stdout.splitlines()]
    ok(len(rows) == 2 and rows[1][:2] == ["swap", device] and rows[1][4] == str(PRIORITY),
       "swap list shows the swap space with its device and priority", rows)
    refused(disks.detach("swap"), "disk detach refuses a device that is swap space", "swap space")
    os.kill(disks.list()["swap"]["keeper"], signal.SIGTERM)
    ok(wait(lambda: "in use" in (FOLDER / "log").read_text()) and device in swaps(),
       "SIGTERM leaves swap space as it is, and the log says that it is in use", (FOLDER / "log").read_text())
    holders = [Holder(), Holder()]
    ok(all(holder.heard() for holder in holders) and
       wait(lambda: disks.list()["swap"]["bytes_used"] >= len(holders) * BYTES),
       "pages that are swapped out are written to the device", disks.list())
    ok(all(holder.is_intact() for holder in holders), "pages that are swapped in are right")
    ok(swaps()[device][1] * 1024 >= len(holders) * BYTES, "/proc/swaps counts the pages that are swapped out", swaps())
    swap_off_needs_room_in_memory(device)
    swap_off_can_be_interrupted(device)
    result = run(farpage, "swap", "off")
    ok(result.returncode == 0 and result.stderr == "" and device not in swaps(),
       "swap off ends the swap space and prints nothing", shown(result))
    ok(all(holder.is_intact() for holder in holders), "pages are right after swap off")
    while Holder.all:
        Holder.all.pop().end()
    ok(disks.nothing_left(), "swap on and off with swapped pages leave nothing", disks.left_over())


def swap_off_needs_room_in_memory(device):
    """swap off reads a fake meminfo that has no free memory."""
    if list(swaps()) != [device]:
        return # other swap space has room for the pages
    meminfo = FOLDER / "meminfo"
    meminfo.write_text("MemTotal: 100 kB\nMemAvailable: 12 kB\n")
    refused(unshared(f"mount --bind {meminfo} /proc/meminfo", farpage, "swap", "off"),
            "swap off without room in memory is refused with the figures", device, "12K", "8M")
    ok(device in swaps(), "swap space stays after a swap off refused for lack of memory")


def children(pid):
    return read(Path(f"/proc/{pid}/task/{pid}/children")).split()


def has_pending(pid, number):
    """Returns true if the process has the signal pending."""
    rows = dict(line.split(":", 1) for line in read(Path(f"/proc/{pid}/status")).splitlines())
    return any(int(rows.get(row, "0"), 16) >> (number - 1) & 1 for row in ("SigPnd", "ShdPnd"))


def swap_off_can_be_interrupted(device):
    """A stopped donor gives time to interrupt swapoff. The kernel checks for signals between two processes."""
    donor.send_signal(signal.SIGSTOP)
    with subprocess.Popen([farpage, "swap", "off"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as off:
        wait(lambda: any(read(Path(f"/proc/{child}/syscall")).startswith(SWAPOFF) for child in children(off.pid)))
        off.send_signal(signal.SIGINT)
        wait(lambda: any(has_pending(child, signal.SIGKILL) for child in children(off.pid)))
        donor.send_signal(signal.SIGCONT)
        text = off.communicate()[1]
    ok(off.returncode == 1 and text.count("\n") == 1 and "interrupted" in text, "SIGINT ends swap off with one line",
       text)
    ok(device in swaps(), "swap space stays after an interrupted swap off", swaps())


require()
if any(row[2] >= PRIORITY for row in swaps().values()):
    remove_folder()
    print("1..0 # SKIP this machine swaps elsewhere with the highest priority")
    sys.exit(0)
try:
    donor, address = start_donor(memserver, "--donate", "64M", "--slab", "4M")
    bad_swap_commands_are_refused(address)
    kernel_settings_are_raised_and_restored(address)
    second_swap_off_removes_the_rest(address)
    vanished_device_file_is_no_vanished_device()
    swapped_pages_survive_swap_off(address)
finally:
    donor.send_signal(signal.SIGCONT)
    while Holder.all:
        Holder.all.pop().end()
    disks.clean()
    stop_donors()
done()
