#!/usr/bin/python3
"""test_swap.py: farpage swap, with pages of this test's processes on the device."""
import json
import mmap
import os
import signal
from pathlib import Path

import disks
from disks import processes, read, swaps, sysctls, sysctls_write, unshared
from donor import Donor
from tap import FARPAGE, FOLDER, at_end, done, farpage, ok, refused, run, shown, skip_all, start, wait_until

MADV_PAGEOUT = 21
SWAPOFF = "168 " # number of the system call
BYTES = 4 << 20
PRIORITY = 32767 # the highest priority, so pages go to no other swap space


def swap_on(*options, **others):
    return disks.attach(others.pop("name", "swap"), others.pop("size", "16M"), *options, verb=("swap", "on"))


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
        # Linux collects new pages in a batch per CPU (folio_add_lru), and MADV_PAGEOUT leaves other CPUs' batches alone.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
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


def bad_swap_commands_are_refused(donor):
    refused(farpage("swap"), "farpage swap is refused without a verb", "verb", status=2)
    refused(farpage("swap", "off", "nosuch"), "swap off refuses a name without a device", "nosuch", status=1)
    refused(farpage("swap", "off"), "swap off without a name is refused when there is no swap space", "swap", status=1)
    refused(farpage("swap", "on", "--memory", "--size=16M", "--priority=40000"),
            "swap on refuses --priority 40000", "priority", status=2)
    refused(swap_on("--donor", donor.uri, size="65M"), "swap on refuses a size above the donors' room", "64M", "--overcommit", status=1)
    disks.attach("disk", "8M", "--memory")
    refused(farpage("swap", "off", "disk"), "swap off refuses a device that is no swap space", "no swap space", status=1)
    result = farpage("swap", "list", "--json")
    ok(result.returncode == 0 and json.loads(result.stdout) == {"swaps": []}, "swap list --json lists no other devices",
       shown(result))
    disks.detach("disk")
    folder = FOLDER / "mkswap"
    folder.write_text("#!/bin/sh\nexit 1\n")
    folder.chmod(0o755)
    hide = f"for at in /usr/sbin/mkswap /sbin/mkswap; do [ ! -e $at ] || mount --bind {folder} $at; done"
    result = unshared(hide, FARPAGE, "swap", "on", "--size=16M", "--memory", "--frontend=fuse", f"--log={FOLDER / 'log'}")
    ok(result.returncode == 1 and "mkswap" in result.stderr.splitlines()[-1], "swap on fails when mkswap fails",
       shown(result))
    interrupter = FOLDER / "mkswap.interrupts"
    interrupter.write_text(f'#!/bin/sh\nkill -TERM $PPID\nexec {FOLDER}/mkswap.real "$@"\n')
    interrupter.chmod(0o755)
    hide = f"cp /sbin/mkswap {FOLDER}/mkswap.real; " + hide.replace(str(folder), str(interrupter))
    result = unshared(hide, FARPAGE, "swap", "on", "--size=16M", "--memory", "--frontend=fuse", f"--log={FOLDER / 'log'}")
    ok(result.returncode == -signal.SIGTERM and "swap on:" not in result.stderr,
       "swap on ends by SIGTERM after its device exists", shown(result))
    ok(disks.nothing_left(), "refused swap commands leave nothing", disks.left_over())


def kernel_settings_are_raised_and_restored(donor):
    """swap on raises kernel settings. The command that removes the last device restores them."""
    ok(sysctls() == [1000, 10], "the kernel settings have their test values before swap on")
    result = swap_on("--memory")
    raised = sysctls()
    ok(raised[0] > 1000 and raised[1] >= 10 and
       result.stderr.splitlines()[-1].startswith(f"set for as long as swap is there: vm.min_free_kbytes 1000 -> {raised[0]}"),
       "swap on raises the kernel settings and tells so", shown(result), raised)
    swap_on("--memory", name="other")
    ok(sysctls() == raised, "a second swap on does not raise the kernel settings", sysctls())
    ok(farpage("swap", "off").returncode == 0 and sysctls() == raised,
       "swap off of one of two devices keeps the kernel settings raised", sysctls())
    ok(farpage("swap", "off", "other").returncode == 0 and sysctls() == [1000, 10],
       "swap off of the last device restores the kernel settings", sysctls())
    device = swap_on("--memory").stdout.splitlines()[-1]
    sysctls_write(raised[0] + 1, raised[1])
    run("swapoff", device)
    for which in ("keeper", "pid"):
        os.kill(disks.known()["swap"][which], signal.SIGKILL)
    wait_until(lambda: not processes())
    ok(sysctls() == [raised[0] + 1, raised[1]], "a killed daemon leaves the kernel settings as they are", sysctls())
    result = disks.detach("swap")
    ok(result.returncode == 0 and sysctls() == [raised[0] + 1, 10],
       "disk detach restores the kernel settings that nobody has changed since", shown(result), sysctls())
    sysctls_write(1000, 10)
    result = swap_on("--memory", "--keep-vm-settings")
    ok(sysctls() == [1000, 10] and "set for" not in result.stderr,
       "swap on --keep-vm-settings leaves the kernel settings as they are", shown(result), sysctls())
    farpage("swap", "off")
    swap_on("--donor", donor.uri, size="65M")
    ok(sysctls() == [1000, 10], "a swap on that fails leaves the kernel settings as they were", sysctls())
    disks.attach("disk", "8M", "--memory")
    ok(sysctls() == [1000, 10], "disk attach leaves the kernel settings as they are", sysctls())
    disks.detach("disk")
    ok(disks.nothing_left(), "swap on and off with kernel settings leave nothing", disks.left_over())


def second_swap_off_removes_the_rest(donor):
    """swap off stopped half-way, and left a device that is no swap space."""
    device = swap_on("--donor", donor.uri).stdout.splitlines()[-1]
    with open(device, "rb"):
        refused(farpage("swap", "off"), "swap off is refused while the device is open", device, status=1)
    ok(device not in swaps() and "swap" in disks.known(),
       "a swap off refused for an open device leaves a device without swap space", disks.known())
    result = farpage("swap", "off")
    ok(result.returncode == 0 and result.stderr == "" and disks.nothing_left() and sysctls() == [1000, 10],
       "a second swap off removes the device and restores the kernel settings", shown(result), disks.left_over(),
       sysctls())
    device = swap_on("--donor", donor.uri).stdout.splitlines()[-1]
    run("swapoff", device)
    for which in ("keeper", "pid"):
        os.kill(disks.known()["swap"][which], signal.SIGKILL)
    wait_until(lambda: not processes())
    result = farpage("swap", "off")
    ok(result.returncode == 0 and disks.nothing_left() and sysctls() == [1000, 10],
       "swap off removes a device whose daemon died, and restores the kernel settings", shown(result),
       disks.left_over(), sysctls())


def vanished_device_file_is_no_vanished_device():
    """The device's file is gone, but the device exists."""
    device = Path(swap_on("--memory").stdout.strip())
    away = Path(f"{device}.farpage-test")
    device.rename(away)
    try:
        refused(disks.detach("swap"), "disk detach refuses swap space whose device file vanished", "swap space", status=1)
        refused(farpage("swap", "off"), "swap off refuses swap space whose device file vanished", "vanished", status=1)
    finally:
        away.rename(device)
    ok(farpage("swap", "off").returncode == 0 and str(device) not in swaps(),
       "swap off succeeds when the device file is back")
    disks.attach("disk", "8M", "--memory")
    device = Path(disks.known()["disk"]["device"])
    device.rename(away)
    try:
        result = disks.detach("disk")
    finally:
        away.rename(device)
    ok(result.returncode == 0 and disks.nothing_left(), "disk detach removes a disk whose device file vanished",
       shown(result),
       disks.left_over())


def swapped_pages_survive_swap_off(donor):
    result = swap_on("--donor", donor.uri, "--priority", str(PRIORITY))
    device = result.stdout.splitlines()[-1] if result.stdout else "?"
    ok(result.returncode == 0 and swaps().get(device, [0, 0, 0])[2] == PRIORITY,
       "swap on makes swap space with the priority asked for", shown(result), swaps())
    rows = [line.split() for line in farpage("swap", "list").stdout.splitlines()]
    ok(len(rows) == 2 and rows[1][:2] == ["swap", device] and rows[1][4] == str(PRIORITY),
       "swap list shows the swap space with its device and priority", rows)
    result = farpage("swap", "list", "--json")
    listed = json.loads(result.stdout)["swaps"]
    ok(result.returncode == 0 and len(listed) == 1 and listed[0]["name"] == "swap" and listed[0]["device"] == device and
       listed[0]["state"] == "serving" and listed[0]["bytes_used"] == disks.known()["swap"]["bytes_used"] and
       listed[0]["swap"] == {"size": swaps()[device][0] * 1024, "used": swaps()[device][1] * 1024, "priority": PRIORITY},
       "swap list --json has the swap space beside the figures of disk list", shown(result), swaps())
    refused(disks.detach("swap"), "disk detach refuses a device that is swap space", "swap space", status=1)
    os.kill(disks.known()["swap"]["keeper"], signal.SIGTERM)
    ok(wait_until(lambda: "in use" in (FOLDER / "log").read_text()) and device in swaps(),
       "SIGTERM leaves swap space as it is, and the log says that it is in use", (FOLDER / "log").read_text())
    holders = [Holder(), Holder()]
    ok(all(holder.heard() for holder in holders) and
       wait_until(lambda: disks.known()["swap"]["bytes_used"] >= len(holders) * BYTES),
       "pages that are swapped out are written to the device", disks.known())
    ok(all(holder.is_intact() for holder in holders), "pages that are swapped in are right")
    ok(swaps()[device][1] * 1024 >= len(holders) * BYTES, "/proc/swaps counts the pages that are swapped out", swaps())
    swap_off_needs_room_in_memory(device)
    swap_off_can_be_interrupted(donor, device)
    result = farpage("swap", "off")
    ok(result.returncode == 0 and result.stderr == "" and device not in swaps(),
       "swap off ends the swap space and prints nothing", shown(result))
    ok(all(holder.is_intact() for holder in holders), "pages are right after swap off")
    end_holders()
    ok(disks.nothing_left(), "swap on and off with swapped pages leave nothing", disks.left_over())


def swap_off_needs_room_in_memory(device):
    """swap off reads a fake meminfo that has no free memory."""
    if list(swaps()) != [device]:
        return # other swap space has room for the pages
    meminfo = FOLDER / "meminfo"
    meminfo.write_text("MemTotal: 100 kB\nMemAvailable: 12 kB\n")
    refused(unshared(f"mount --bind {meminfo} /proc/meminfo", FARPAGE, "swap", "off"),
            "swap off without room in memory is refused with the figures", device, "12K", "8M", status=1)
    ok(device in swaps(), "swap space stays after a swap off refused for lack of memory")


def children(pid):
    return read(Path(f"/proc/{pid}/task/{pid}/children")).split()


def has_pending(pid, number):
    """Returns true if the process has the signal pending."""
    rows = dict(line.split(":", 1) for line in read(Path(f"/proc/{pid}/status")).splitlines())
    return any(int(rows.get(row, "0"), 16) >> (number - 1) & 1 for row in ("SigPnd", "ShdPnd"))


def swap_off_can_be_interrupted(donor, device):
    """A stopped donor gives time to interrupt swapoff. The kernel checks for signals between two processes."""
    donor.signal(signal.SIGSTOP)
    with start("swap", "off") as off:
        wait_until(lambda: any(read(Path(f"/proc/{child}/syscall")).startswith(SWAPOFF) for child in children(off.pid)))
        off.send_signal(signal.SIGINT)
        wait_until(lambda: any(has_pending(child, signal.SIGKILL) for child in children(off.pid)))
        donor.signal(signal.SIGCONT)
        text = off.communicate()[1]
    ok(off.returncode == 1 and text.count("\n") == 1 and "interrupted" in text, "SIGINT ends swap off with one line",
       text)
    ok(device in swaps(), "swap space stays after an interrupted swap off", swaps())


def end_holders():
    while Holder.all:
        Holder.all.pop().end()


disks.require()
if any(row[2] >= PRIORITY for row in swaps().values()):
    skip_all("this machine swaps elsewhere with the highest priority")
at_end(end_holders)
lender = Donor("--donate", "64M", "--slab", "4M")
bad_swap_commands_are_refused(lender)
kernel_settings_are_raised_and_restored(lender)
second_swap_off_removes_the_rest(lender)
vanished_device_file_is_no_vanished_device()
swapped_pages_survive_swap_off(lender)
done()
