#!/usr/bin/python3
"""test_disk.py: farpage disk with bad input, and the life of devices, also when daemons die."""
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import disks
from disks import FRONTEND, LOG, RUNTIME, unshared
from donor import Donor, donor_options, donors
from tap import FARPAGE, FOLDER, done, farpage, make_key, ok, refused, run, shown, skip, wait_until

MIB = 1 << 20


def bad_arguments_are_refused():
    for size, word in (("5000", "8192"), ("0", "no size"), ("4096", "out of range"), ("65T", "out of range"),
                       ("ten", "not a size"), ("-4096", "not a size")):
        refused(disks.attach("a", size, "--memory"), f"disk attach refuses --size {size}", "size", word, status=2)
    for name in ("a/b", "..", ".hidden", "-dash", "a b", "a\nb", "ä", "x" * 33, "%s", "a\x1b[31m"):
        refused(farpage("disk", "attach", f"--name={name}", "--size=1M", "--memory"),
                f"disk attach refuses the name {name!r}", "--name", status=2)
    refused(farpage("disk", "attach", "--size", "1M", "--memory"), "disk attach is refused without a name",
            "--name", status=2)
    refused(disks.attach("a", "1M"), "disk attach is refused without donors and --memory", "--donor", status=2)
    refused(disks.attach("a", "1M", "--memory", "--key", FOLDER / "nokey"), "disk attach refuses a missing key file",
            "nokey")
    refused(farpage("disk", "attach", "--name=a", "--size=1M", "--memory", "--frontend=nbd"),
            "disk attach refuses an unknown front end", "nbd", "ublk")
    refused(disks.attach("a", "1M", "--memory", "more"), "disk attach refuses an argument", "more", status=2)
    for verb in ("detach", "adopt", "leave"):
        refused(farpage("disk", verb), f"disk {verb} is refused without a name", "name", status=2)
        refused(farpage("disk", verb, "nosuch"), f"disk {verb} refuses a name without a device", "nosuch",
                status=1)
        refused(farpage("disk", verb, "../etc"), f"disk {verb} refuses ../etc as a name", "name")
    refused(farpage("disk"), "disk is refused without a verb", "verb", status=2)
    refused(farpage("disk", "eject"), "disk refuses an unknown verb", "eject", status=2)


def user_can_run():
    """Returns true if a user other than root can reach the command."""
    return run("setpriv", "--reuid=65534", FARPAGE, "--version").returncode == 0


def missing_devices_and_rights_are_told():
    """A mount namespace hides devices that the command needs."""
    attach = (FARPAGE, "disk", "attach", "--name=a", "--size=1M", "--memory", f"--log={LOG}")
    bare = "mount -t tmpfs none /dev; mknod /dev/null c 1 3"
    if FRONTEND == "fuse":
        refused(unshared(bare, *attach, "--frontend=fuse"), "disk attach --frontend=fuse is refused without /dev/fuse",
                "/dev/fuse", status=1)
        refused(unshared(bare + "; mknod /dev/fuse c 10 229", *attach, "--frontend=fuse"),
                "disk attach --frontend=fuse is refused without loop devices", "loop", status=1)
    refused(unshared(bare, *attach, "--frontend=ublk"),
            "disk attach --frontend=ublk is refused without /dev/ublk-control", "/dev/ublk-control", status=1)
    refused(unshared(bare, *attach), "disk attach without a front end names both when neither is possible",
            "/dev/ublk-control", "/dev/fuse", status=1)
    if user_can_run():
        for words in (attach[1:], ("disk", "detach", "a"), ("disk", "adopt", "a"), ("disk", "leave", "a")):
            refused(run("setpriv", "--reuid=65534", FARPAGE, *words), f"{' '.join(words[:2])} is refused without root",
                    "root", status=1)
    ok(disks.nothing_left(), "refused disk commands leave nothing", disks.left_over())


def bad_donors_are_refused(donor):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
    refused(disks.attach("a", "1M", "--donor", nobody), "disk attach refuses a donor that does not answer", nobody,
            status=1)
    refused(disks.attach("a", "1M", "--donor", "bogus"), "disk attach refuses a donor that is no address", "bogus",
            status=1)
    refused(disks.attach("a", "65M", "--donor", donor.uri), "disk attach refuses a size above the donors' room", "65M", "64M",
            "--overcommit", status=1)
    refused(disks.attach("a", "1M", "--donor", donor.uri, "--replicas", "2"), "disk attach refuses more replicas than donors",
            "replicas")
    ok(disks.nothing_left(), "a disk attach that is refused for its donors leaves nothing", disks.left_over())
    result = disks.attach("a", "1G", "--donor", donor.uri, "--overcommit")
    ok(result.returncode == 0 and disks.known()["a"]["size"] == 1 << 30,
       "disk attach --overcommit takes a size above the donors' room", shown(result))
    disks.detach("a")


def every_user_lists_devices():
    if not user_can_run():
        skip("every user lists devices", "a user other than root cannot reach the command")
        return
    FOLDER.chmod(0o711)

    def listed():
        return run("setpriv", "--reuid=65534", FARPAGE, "disk", "list").stdout

    ok(wait_until(lambda: listed() == farpage("disk", "list").stdout and listed().count("serving") == 2),
       "disk list of another user shows the same as that of root", listed(), farpage("disk", "list").stdout)
    private = [path.name for path in (RUNTIME / "one").iterdir() if path.stat().st_mode & 0o077]
    ok(sorted(private) == ["device", "status"], "other users can read only the device's path and its status", private)
    (RUNTIME / "one/status").unlink() # the daemon continues to write the file without a name
    ok(re.search(r"^one .* unknown", listed(), re.M), "the state of a device without a status is unknown to another user",
       listed())
    FOLDER.chmod(0o700)


def devices_are_attached_used_and_detached(donor):
    result = disks.attach("one", "16M", "--donor", donor.uri)
    device = result.stdout.splitlines()[-1] if result.stdout else "?"
    ok(result.returncode == 0 and Path(device).is_block_device(), "the last line of disk attach is the device's path",
       shown(result))
    refused(disks.attach("one", "16M", "--donor", donor.uri), "disk attach refuses a name in use", "one", "in use", status=1)
    other = disks.attach("two", "8M", "--memory").stdout.splitlines()[-1]
    with open(device, "r+b", buffering=0) as first, open(other, "r+b", buffering=0) as second:
        ok(first.seek(0, os.SEEK_END) == 16 * MIB and second.seek(0, os.SEEK_END) == 8 * MIB,
           "two devices have the sizes that were asked for")
        for disk, byte in ((first, b"1"), (second, b"2")):
            disk.seek(MIB)
            disk.write(byte * MIB)
            os.fsync(disk.fileno())
            os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for disk, byte in ((first, b"1"), (second, b"2")):
            disk.seek(MIB)
            ok(disk.read(MIB) == byte * MIB, f"{disk.name}: a read returns the written bytes")
            disk.seek(4 * MIB)
            ok(disk.read(MIB) == bytes(MIB), "pages of a device that were not written are zeroes")
    known = disks.known()
    ok(list(known) == ["one", "two"] and known["one"]["device"] == device and known["one"]["state"] == "serving" and
       known["one"]["bytes_used"] == MIB and known["one"]["donors"][0]["donor"] == donor.uri,
       "disk list --json has both devices and their data", known)
    rows = [line.split() for line in farpage("disk", "list").stdout.splitlines()]
    ok(rows[1] == ["one", "16M", device, FRONTEND, "serving", "1M", "1"], "disk list prints the device in a table",
       rows)
    ok(donor.says()["leased_bytes"] > 0, "the donor lends memory to a written device")
    every_user_lists_devices()
    result = disks.detach("one")
    ok(result.returncode == 0 and result.stderr == "" and list(disks.known()) == ["two"],
       "disk detach removes one device and keeps the other", shown(result))
    ok(donor.given_back(), "the donor has its memory back after disk detach")
    disks.detach("two")
    ok(disks.nothing_left(), "disk detach of two devices leaves nothing", disks.left_over())


def times_found(process, words):
    """Returns how often these bytes are in the memory of a process."""
    count = 0
    with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            first, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - first <= 1 << 30:
                memory.seek(first)
                count += memory.read(end - first).count(words)
    return count


def encrypted_pages_are_unreadable_to_donors(donor):
    words = b"what nobody else is to read ...."
    for options in ["--encrypt"], []: # in this order, because plain pages may stay in the donor's memory
        device = disks.attach("a", "8M", "--donor", donor.uri, *options).stdout.strip()
        with open(device, "r+b", buffering=0) as disk:
            disk.write(words * (MIB // len(words)))
            os.fsync(disk.fileno())
            os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            disk.seek(0)
            ok(disk.read(MIB) == words * (MIB // len(words)),
               f"a device attached with {options} returns the written bytes")
        count = times_found(donor.process, words)
        ok(disks.known()["a"]["encrypted"] == bool(options) and (count == 0) == bool(options),
           "the donor of an encrypted device has no plain page" if options else
           "the donor of a device without --encrypt has plain pages", count)
        disks.detach("a")


def repeated_attach_leaves_nothing(donor):
    before = len(os.listdir("/proc/self/fd"))
    good = all(disks.attach("again", "8M", "--donor", donor.uri).returncode == 0 and disks.detach("again").returncode == 0
               for _ in range(5))
    ok(good, "a device is attached and detached five times")
    ok(disks.nothing_left() and donor.given_back(), "five attaches and detaches leave nothing", disks.left_over())
    ok(len(os.listdir("/proc/self/fd")) == before, "attach and detach leave no descriptor in the test's process")


def mounted_device_is_not_detached(donor):
    if not shutil.which("mkfs.ext4"):
        return # e2fsprogs is not installed
    device = disks.attach("a", "16M", "--donor", donor.uri).stdout.strip()
    where = FOLDER / "mount"
    where.mkdir()
    ok(run("mkfs.ext4", "-q", device).returncode == 0 and run("mount", device, where).returncode == 0,
       "a device takes a file system and is mounted")
    refused(disks.detach("a"), "disk detach refuses a mounted device", device, f"mounted on {where}", status=1)
    (where / "file").write_text("as it was")
    ok((where / "file").read_text() == "as it was", "a file on the device is intact after a refused detach")
    run("umount", where)
    where.rmdir()
    result = disks.detach("a")
    ok(result.returncode == 0 and disks.nothing_left(), "disk detach removes the device after unmount", shown(result),
       disks.left_over())


def a_device_follows_its_donors_file(donor):
    """The file is named by a relative path, and the donor that the device began with is removed."""
    other, path = donors(1, "--donate", "64M", "--slab", "4M")[0], FOLDER / "donors"
    path.write_text(f"{donor.uri}\n", encoding="utf-8")
    result = disks.attach("a", "16M", "--donor", "@donors", cwd=FOLDER)
    device = result.stdout.strip()
    ok(Path(device).is_block_device(), "a device is made with the donors of a file", shown(result))
    with open(device, "r+b", buffering=0) as disk:
        disk.write(b"7" * MIB)
        os.fsync(disk.fileno())
        path.write_text(f"{other.uri}\n", encoding="utf-8")
        ok(wait_until(lambda: [one["donor"] for one in disks.known()["a"]["donors"]] == [other.uri]),
           "a device lets a donor go that its file does not name any more", disks.known(), disks.read(LOG))
        os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        disk.seek(0)
        ok(disk.read(MIB) == b"7" * MIB, "the device has its contents from the added donor", disks.read(LOG))
    ok(disks.detach("a").returncode == 0 and donor.given_back() and other.given_back(),
       "the device is detached, and both donors have their memory back")


def sigterm_detaches_and_sighup_does_not(donor):
    """SIGHUP ends nothing. SIGTERM detaches the device."""
    disks.attach("a", "8M", "--donor", donor.uri)
    before = disks.known()["a"]
    for pid in (before["keeper"], before["pid"]): # as a terminal that closes does
        os.kill(pid, signal.SIGHUP)
    ok(wait_until(lambda: LOG.read_text().count("SIGHUP: there is nothing to read again") == 2) and
       disks.known()["a"]["state"] == "serving" and disks.known()["a"]["pid"] == before["pid"],
       "a device goes on after SIGHUP of its daemon", LOG.read_text())
    os.kill(disks.known()["a"]["keeper"], signal.SIGTERM)
    ok(disks.nothing_left(), "SIGTERM to the daemon removes the device", disks.left_over())


def daemon_stays_without_a_successor():
    """The daemon ends only when another one can start. Otherwise all I/O would wait."""
    key, moved = make_key("adopt.key"), FOLDER / "moved.key"
    disks.attach("a", "8M", "--memory", "--key", key)
    keeper = disks.known()["a"]["keeper"]
    key.rename(moved)
    refused(farpage("disk", "adopt", "a"), "disk adopt is refused without the device's key file", str(key), status=1)
    status = disks.known()["a"]
    ok(status["state"] == "serving" and status["keeper"] == keeper, "the daemon goes on after a refused adopt", status)
    disks.detach("a")
    moved.unlink()
    ok(disks.nothing_left(), "disk detach removes a device whose adopt was refused", disks.left_over())


def killed_worker_loses_its_fuse_device(donor):
    """With FUSE the device is lost, and the log says so. tests/vm tests devices that outlive their daemon."""
    device = disks.attach("a", "8M", "--donor", donor.uri).stdout.strip()
    os.kill(disks.known()["a"]["pid"], signal.SIGKILL)
    ok(disks.nothing_left(), "the keeper removes the device of a killed worker", disks.left_over())
    ok(f"{device} and all that was in it is lost" in LOG.read_text(),
       "the log says that the killed worker's device is lost", LOG.read_text())


def dead_daemons_device_is_left(donor):
    disks.attach("a", "8M", "--donor", donor.uri)
    status = disks.known()["a"]
    for pid in (status["keeper"], status["pid"]):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not disks.processes())
    left = disks.known()["a"]
    ok(left["state"] == "left" and left["device"] == status["device"] and left["size"] == 8 * MIB,
       "disk list shows the device of a dead daemon as left", left)
    refused(disks.attach("a", "8M", "--donor", donor.uri), "disk attach refuses the name of a dead daemon's device", "in use",
            status=1)
    refused(farpage("disk", "adopt", "a"), "disk adopt refuses a FUSE device", "detach a", status=1)
    result = disks.detach("a")
    ok(result.returncode == 0 and result.stderr == "", "disk detach removes the device of a dead daemon", shown(result))
    ok(disks.nothing_left(), "disk detach leaves nothing of a dead daemon's device", disks.left_over())


def worker_serves_without_its_keeper(donor):
    disks.attach("a", "8M", "--donor", donor.uri)
    os.kill(disks.known()["a"]["keeper"], signal.SIGKILL)
    ok(wait_until(lambda: "farpage disk adopt" in LOG.read_text()), "the log recommends disk adopt when a keeper has died",
       LOG.read_text())
    ok(disks.known()["a"]["state"] == "serving", "a worker serves its device without its keeper")
    refused(farpage("disk", "adopt", "a"), "disk adopt refuses a device without its keeper", "handed over", status=1)
    refused(farpage("disk", "leave", "a"), "disk leave refuses a device without its keeper", "handed over", status=1)
    result = disks.detach("a")
    ok(result.returncode == 0 and disks.nothing_left(), "disk detach removes a device without its keeper",
       shown(result), disks.left_over())


def write_all(device, byte):
    """Writes 16 MiB. Returns None, or the error."""
    try:
        with open(device, "r+b", buffering=0) as disk:
            for _ in range(16):
                disk.write(byte * MIB)
            os.fsync(disk.fileno())
            os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        return error
    return None


def device_recovers_when_its_donors_return():
    """The device has one copy. All donors die, and are started again."""
    two = donors(2, "--donate=64M", "--slab=1M", "--reserve=1M")
    device = disks.attach("a", "16M", *donor_options(two)).stdout.strip()
    ok(write_all(device, b"1") is None and farpage("disk", "list").returncode == 0,
       "a device with two donors is written")
    for donor in two:
        donor.kill()
    ok(wait_until(lambda: disks.known()["a"]["state"] == "failed"), "disk list shows a device without any donor as failed",
       disks.known())
    status, table = disks.known()["a"], farpage("disk", "list")
    ok(status["why"] == "2 of 2 donors are lost" and status["pages_missing"] == 16 * MIB // 4096,
       "disk list tells the lost donors and the missing pages of a failed device", status)
    ok(table.returncode == 4 and " failed " in table.stdout and "0 of 2" in table.stdout,
       "disk list has status 4 and shows a failed device", shown(table))
    ok(wait_until(lambda: f"{device} has failed" in LOG.read_text()), "the log says that the device has failed",
       LOG.read_text())
    for donor in two:
        donor.again()
    ok(wait_until(lambda: all(donor["reachable"] for donor in disks.known()["a"]["donors"])),
       "disk list shows restarted donors as reachable", disks.known())
    status, table = disks.known()["a"], farpage("disk", "list")
    ok(status["state"] == "degraded" and "were lost" in status["why"],
       "disk list shows a device with lost pages as degraded", status)
    ok(table.returncode == 3 and " degraded " in table.stdout, "disk list has status 3 and shows a degraded device",
       shown(table))
    ok(write_all(device, b"2") is None, "a degraded device can be written")
    with open(device, "rb") as disk:
        ok(disk.read(16 * MIB) == b"2" * (16 * MIB), "a degraded device returns the bytes of later writes")
    ok(disks.known()["a"]["state"] == "serving" and farpage("disk", "list").returncode == 0,
       "disk list shows a device as serving when all lost pages are written again", disks.known())
    ok(wait_until(lambda: f"{device} is whole again" in LOG.read_text()), "the log says that the device is whole again",
       LOG.read_text())
    disks.detach("a")
    ok(disks.nothing_left(), "disk detach leaves nothing of a device whose donors died", disks.left_over())


def killed_attach_leaves_nothing():
    """The attach command is killed, so the device is removed. A stopped donor and a long timeout give time for that."""
    donor = Donor("--donate", "64M", "--slab", "4M")
    donor.signal(signal.SIGSTOP)
    with subprocess.Popen([FARPAGE, "disk", "attach", "--name=a", "--size=8M", f"--frontend={FRONTEND}", f"--log={LOG}",
                           f"--donor={donor.uri}", "--timeout-ms=10000"], stderr=subprocess.DEVNULL) as attach:
        wait_until((RUNTIME / "a" / "control").exists)
        ok(disks.known()["a"]["state"] == "adopting" and attach.poll() is None,
           "disk list shows a device as adopting while attach waits")
        attach.kill()
    donor.signal(signal.SIGCONT)
    ok(disks.nothing_left(), "a killed attach command leaves nothing", disks.left_over())


disks.require()
bad_arguments_are_refused()
missing_devices_and_rights_are_told()
lender = Donor("--donate", "64M", "--slab", "4M")
bad_donors_are_refused(lender)
devices_are_attached_used_and_detached(lender)
encrypted_pages_are_unreadable_to_donors(lender)
repeated_attach_leaves_nothing(lender)
mounted_device_is_not_detached(lender)
a_device_follows_its_donors_file(lender)
sigterm_detaches_and_sighup_does_not(lender)
daemon_stays_without_a_successor()
device_recovers_when_its_donors_return()
if FRONTEND == "fuse":
    killed_worker_loses_its_fuse_device(lender)
    dead_daemons_device_is_left(lender)
    worker_serves_without_its_keeper(lender)
killed_attach_leaves_nothing()
done()
