#!/usr/bin/python3
"""test_disk.py FARPAGE MEMSERVER: farpage disk: bad input, and the life of devices, with daemons that die in it."""
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import donor_says, given_back, start_donor, stop_donors # noqa: E402
from disks import FOLDER, FRONTEND, LOG, RUNTIME, Disks, is_alive, require, unshared, wait # noqa: E402

farpage, memserver = sys.argv[1:3]
disks = Disks(farpage)
MIB = 1 << 20


def refused(result, name, *words, status=None):
    """One line, which says @words, and nothing is left."""
    ok((result.returncode == status if status else result.returncode in (1, 2)) and result.stderr.count("\n") == 1 and
       all(word in result.stderr for word in words) and result.stdout == "", name, shown(result), f"words: {words}")


def test_bad_words():
    for size, word in (("5000", "8192"), ("0", "no size"), ("4096", "out of range"), ("65T", "out of range"),
                       ("ten", "not a size"), ("-4096", "not a size")):
        refused(disks.attach("a", size, "--memory"), f"size {size}", "size", word, status=2)
    for name in ("a/b", "..", ".hidden", "-dash", "a b", "a\nb", "ä", "x" * 33, "%s", "a\x1b[31m"):
        refused(run(farpage, "disk", "attach", f"--name={name}", "--size=1M", "--memory"), f"name {name!r}", "--name",
                status=2)
    refused(run(farpage, "disk", "attach", "--size", "1M", "--memory"), "no name", "--name", status=2)
    refused(disks.attach("a", "1M"), "neither donors nor memory", "--donor", status=2)
    refused(disks.attach("a", "1M", "--memory", "--key", FOLDER / "nokey"), "no such key file", "nokey")
    refused(run(farpage, "disk", "attach", "--name=a", "--size=1M", "--memory", "--frontend=nbd"), "no such front end",
            "nbd", "ublk")
    refused(disks.attach("a", "1M", "--memory", "more"), "a word too many", "more", status=2)
    for verb in ("detach", "adopt", "leave"):
        refused(run(farpage, "disk", verb), f"{verb} without a name", "name", status=2)
        refused(run(farpage, "disk", verb, "nosuch"), f"{verb} what is not there", "nosuch", status=1)
        refused(run(farpage, "disk", verb, "../etc"), f"{verb} what is no name", "name")
    refused(run(farpage, "disk"), "no verb", "verb", status=2)
    refused(run(farpage, "disk", "eject"), "no such verb", "eject", status=2)


def test_bad_places():
    """Machines that lack something, in a mount namespace that does not show it."""
    attach = (farpage, "disk", "attach", "--name=a", "--size=1M", "--memory", f"--log={LOG}")
    bare = "mount -t tmpfs none /dev; mknod /dev/null c 1 3"
    if FRONTEND == "fuse":
        refused(unshared(bare, *attach, "--frontend=fuse"), "no FUSE", "/dev/fuse", status=1)
        refused(unshared(bare + "; mknod /dev/fuse c 10 229", *attach, "--frontend=fuse"), "no loop devices", "loop",
                status=1)
    refused(unshared(bare, *attach, "--frontend=ublk"), "no ublk", "/dev/ublk-control", status=1)
    refused(unshared(bare, *attach), "neither, and the choice left open", "/dev/ublk-control", "/dev/fuse", status=1)
    if os.access("/proc/self/exe", os.R_OK) and run("setpriv", "--reuid=65534", farpage, "--version").returncode == 0:
        for words in (attach[1:], ("disk", "detach", "a"), ("disk", "list"), ("disk", "adopt", "a"), ("disk", "leave", "a"),
                      ("swap", "list")):
            refused(run("setpriv", "--reuid=65534", farpage, *words), f"not root: {' '.join(words[:2])}", "root", status=1)
    ok(disks.nothing_left(), "nothing is left of all that", disks.left_over())


def test_bad_donors(uri):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
    refused(disks.attach("a", "1M", "--donor", nobody), "a donor that is not there", nobody, status=1)
    refused(disks.attach("a", "1M", "--donor", "bogus"), "a donor that is none", "bogus", status=1)
    refused(disks.attach("a", "65M", "--donor", uri), "more than the donors have", "65M", "64M", "--overcommit", status=1)
    refused(disks.attach("a", "1M", "--donor", uri, "--replicas", "2"), "more replicas than donors", "replicas")
    ok(disks.nothing_left(), "nothing is left of that", disks.left_over())
    result = disks.attach("a", "1G", "--donor", uri, "--overcommit")
    ok(result.returncode == 0 and disks.list()["a"]["size"] == 1 << 30, "unless it is said so", shown(result))
    disks.detach("a")


def test_life(uri):
    result = disks.attach("one", "16M", "--donor", uri)
    device = result.stdout.splitlines()[-1] if result.stdout else "?"
    ok(result.returncode == 0 and Path(device).is_block_device(), "the last line is the device", shown(result))
    refused(disks.attach("one", "16M", "--donor", uri), "the name is in use", "one", "in use", status=1)
    other = disks.attach("two", "8M", "--memory").stdout.splitlines()[-1]
    with open(device, "r+b", buffering=0) as first, open(other, "r+b", buffering=0) as second:
        ok(first.seek(0, os.SEEK_END) == 16 * MIB and second.seek(0, os.SEEK_END) == 8 * MIB, "both are as large as asked")
        for disk, byte in ((first, b"1"), (second, b"2")):
            disk.seek(MIB)
            disk.write(byte * MIB)
            os.fsync(disk.fileno())
            os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for disk, byte in ((first, b"1"), (second, b"2")):
            disk.seek(MIB)
            ok(disk.read(MIB) == byte * MIB, f"what was written to {disk.name} is there")
            disk.seek(4 * MIB)
            ok(disk.read(MIB) == bytes(MIB), "and zeroes elsewhere")
    known = disks.list()
    ok(list(known) == ["one", "two"] and known["one"]["device"] == device and known["one"]["state"] == "serving" and
       known["one"]["bytes_used"] == MIB and known["one"]["donors"][0]["donor"] == uri, "the list knows", known)
    rows = [line.split() for line in disks.call("disk", "list").stdout.splitlines()]
    ok(rows[1] == ["one", "16M", device, FRONTEND, "serving", "1M", "1"], "as a table", rows)
    ok(donor_says(farpage, uri)["leased_bytes"] > 0, "the donor has lent something")
    result = disks.detach("one")
    ok(result.returncode == 0 and result.stderr == "" and list(disks.list()) == ["two"], "detached, the other stays",
       shown(result))
    ok(given_back(farpage, uri), "the donor has all of it back")
    disks.detach("two")
    ok(disks.nothing_left(), "nothing is left", disks.left_over())


def times_found(process, words):
    """How often these bytes are in the memory of a process."""
    count = 0
    with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            first, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - first <= 1 << 30:
                memory.seek(first)
                count += memory.read(end - first).count(words)
    return count


def test_encrypted(process, uri):
    words = b"what nobody else is to read ...."
    for options in ["--encrypt"], []: # in this order: what it had once may be anywhere
        device = disks.attach("a", "8M", "--donor", uri, *options).stdout.strip()
        with open(device, "r+b", buffering=0) as disk:
            disk.write(words * (MIB // len(words)))
            os.fsync(disk.fileno())
            os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            disk.seek(0)
            ok(disk.read(MIB) == words * (MIB // len(words)), f"{options}: what was written is there")
        count = times_found(process, words)
        ok(disks.list()["a"]["encrypted"] == bool(options) and (count == 0) == bool(options),
           "encrypted, the donor has none of it" if options else "not encrypted, the donor has it", count)
        disks.detach("a")


def test_cycles(uri):
    before = len(os.listdir("/proc/self/fd"))
    good = all(disks.attach("again", "8M", "--donor", uri).returncode == 0 and disks.detach("again").returncode == 0
               for _ in range(5))
    ok(good, "five times attached and detached")
    ok(disks.nothing_left() and given_back(farpage, uri), "nothing is left", disks.left_over())
    ok(len(os.listdir("/proc/self/fd")) == before, "not even here")


def test_mounted(uri):
    if not shutil.which("mkfs.ext4"):
        return # of e2fsprogs
    device = disks.attach("a", "16M", "--donor", uri).stdout.strip()
    where = FOLDER / "mount"
    where.mkdir()
    ok(run("mkfs.ext4", "-q", device).returncode == 0 and run("mount", device, where).returncode == 0, "mounted")
    refused(disks.detach("a"), "it is not detached then", device, f"mounted on {where}", status=1)
    (where / "file").write_text("as it was")
    ok((where / "file").read_text() == "as it was", "the mount goes on")
    run("umount", where)
    where.rmdir()
    result = disks.detach("a")
    ok(result.returncode == 0 and disks.nothing_left(), "unmounted, it is", shown(result), disks.left_over())


def test_signals(uri):
    """SIGHUP ends nothing, SIGTERM is detach."""
    disks.attach("a", "8M", "--donor", uri)
    before = disks.list()["a"]
    for pid in (before["keeper"], before["pid"]): # as from a terminal that goes away
        os.kill(pid, signal.SIGHUP)
    ok(wait(lambda: LOG.read_text().count("SIGHUP: there is nothing to read anew") == 2) and
       disks.list()["a"]["state"] == "serving" and disks.list()["a"]["pid"] == before["pid"],
       "a device goes on after SIGHUP of its daemon", LOG.read_text())
    os.kill(disks.list()["a"]["keeper"], signal.SIGTERM)
    ok(disks.nothing_left(), "SIGTERM detaches", disks.left_over())


def test_no_successor():
    """The daemon that serves goes only when another one can start: else all I/O would wait."""
    key, moved = FOLDER / "adopt.key", FOLDER / "moved.key"
    run(farpage, "key", key)
    disks.attach("a", "8M", "--memory", "--key", key)
    keeper = disks.list()["a"]["keeper"]
    key.rename(moved)
    refused(disks.call("disk", "adopt", "a"), "no daemon could be started without its key", str(key), status=1)
    status = disks.list()["a"]
    ok(status["state"] == "serving" and status["keeper"] == keeper, "the one there is goes on", status)
    disks.detach("a")
    moved.unlink()
    ok(disks.nothing_left(), "until it is detached", disks.left_over())


def test_worker_dies(uri):
    """FUSE: the device is lost, and that is said. A device that outlives its daemon: tests/vm."""
    device = disks.attach("a", "8M", "--donor", uri).stdout.strip()
    os.kill(disks.list()["a"]["pid"], signal.SIGKILL)
    ok(disks.nothing_left(), "a worker that was killed: its device is cleared away", disks.left_over())
    ok(f"{device} and all that was in it is lost" in LOG.read_text(), "and the log says so", LOG.read_text())


def test_all_die(uri):
    disks.attach("a", "8M", "--donor", uri)
    status = disks.list()["a"]
    for pid in (status["keeper"], status["pid"]):
        os.kill(pid, signal.SIGKILL)
    wait(lambda: not is_alive(status["pid"]) and not is_alive(status["keeper"]))
    left = disks.list()["a"]
    ok(left["state"] == "left" and left["device"] == status["device"] and left["size"] == 8 * MIB,
       "a daemon that died is listed as left", left)
    refused(disks.attach("a", "8M", "--donor", uri), "its name is in use", "in use", status=1)
    refused(disks.call("disk", "adopt", "a"), "by FUSE it cannot be adopted", "detach a", status=1)
    result = disks.detach("a")
    ok(result.returncode == 0 and result.stderr == "", "it is removed on request", shown(result))
    ok(disks.nothing_left(), "nothing is left", disks.left_over())


def test_keeper_dies(uri):
    disks.attach("a", "8M", "--donor", uri)
    os.kill(disks.list()["a"]["keeper"], signal.SIGKILL)
    ok(wait(lambda: "farpage disk adopt" in LOG.read_text()), "a keeper that died is missed", LOG.read_text())
    ok(disks.list()["a"]["state"] == "serving", "the device is served all the same")
    refused(disks.call("disk", "adopt", "a"), "handing over is refused", "handed over", status=1)
    refused(disks.call("disk", "leave", "a"), "so is leaving", "handed over", status=1)
    result = disks.detach("a")
    ok(result.returncode == 0 and disks.nothing_left(), "and detached", shown(result), disks.left_over())


def write_all(device, byte):
    """16 MiB; None, or why not."""
    try:
        with open(device, "r+b", buffering=0) as disk:
            for _ in range(16):
                disk.write(byte * MIB)
            os.fsync(disk.fileno())
            os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        return error
    return None


def test_donors_return():
    """One copy; all donors die, and are started again."""
    donors = [start_donor(memserver, "--donate=64M", "--slab=1M", "--reserve=1M") for _ in range(2)]
    uris = [uri for _, uri in donors]
    device = disks.attach("a", "16M", *(word for uri in uris for word in ("--donor", uri))).stdout.strip()
    ok(write_all(device, b"1") is None and disks.call("disk", "list").returncode == 0, "a device with two donors")
    for process, _ in donors:
        process.kill()
        process.wait()
    ok(wait(lambda: disks.list()["a"]["state"] == "failed"), "without any donor it has failed", disks.list())
    status, table = disks.list()["a"], disks.call("disk", "list")
    ok(status["why"] == "2 of 2 donors are lost" and status["pages_missing"] == 16 * MIB // 4096, "the list says why", status)
    ok(table.returncode == 4 and " failed " in table.stdout and "0 of 2" in table.stdout, "disk list of a device that has failed: exit status 4", shown(table))
    ok(wait(lambda: f"{device} has failed" in LOG.read_text()), "the log says that it has failed", LOG.read_text())
    for uri in uris:
        start_donor(memserver, "--donate=64M", "--slab=1M", "--reserve=1M", "--listen", uri)
    ok(wait(lambda: all(donor["reachable"] for donor in disks.list()["a"]["donors"])),
       "donors that were started again are used again", disks.list())
    status, table = disks.list()["a"], disks.call("disk", "list")
    ok(status["state"] == "degraded" and "were lost" in status["why"], "what was lost leaves the device degraded", status)
    ok(table.returncode == 3 and " degraded " in table.stdout, "then the exit status is 3", shown(table))
    ok(write_all(device, b"2") is None, "the device can be written again")
    with open(device, "rb") as disk:
        ok(disk.read(16 * MIB) == b"2" * (16 * MIB), "what was written anew can be read")
    ok(disks.list()["a"]["state"] == "serving" and disks.call("disk", "list").returncode == 0,
       "once all is written anew the device serves as before", disks.list())
    ok(wait(lambda: f"{device} is whole again" in LOG.read_text()), "the log says that it is whole again", LOG.read_text())
    disks.detach("a")
    ok(disks.nothing_left(), "nothing is left of the device", disks.left_over())


def test_attach_dies():
    """Nobody waits for the device any more: it goes. The donor is held up so that there is time for that."""
    process, uri = start_donor(memserver, "--donate", "64M", "--slab", "4M")
    process.send_signal(signal.SIGSTOP)
    with subprocess.Popen([farpage, "disk", "attach", "--name=a", "--size=8M", f"--frontend={FRONTEND}", f"--log={LOG}",
                           f"--donor={uri}"], stderr=subprocess.DEVNULL) as attach:
        wait((RUNTIME / "a" / "control").exists)
        ok(disks.list()["a"]["state"] == "adopting" and attach.poll() is None, "a device that is not ready yet")
        attach.kill()
    process.send_signal(signal.SIGCONT)
    ok(disks.nothing_left(), "the command was killed meanwhile: nothing stays", disks.left_over())


require()
try:
    test_bad_words()
    test_bad_places()
    donor_process, donor = start_donor(memserver, "--donate", "64M", "--slab", "4M")
    test_bad_donors(donor)
    test_life(donor)
    test_encrypted(donor_process, donor)
    test_cycles(donor)
    test_mounted(donor)
    test_signals(donor)
    test_no_successor()
    test_donors_return()
    if FRONTEND == "fuse":
        test_worker_dies(donor)
        test_all_die(donor)
        test_keeper_dies(donor)
    test_attach_dies()
finally:
    disks.clean()
    stop_donors()
done()
