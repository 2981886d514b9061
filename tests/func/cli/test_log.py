#!/usr/bin/python3
"""test_log.py SOURCE MEMSERVER BLOCKDEV: the daemons' entries in the journal, and the time in their log files. This test's
socket is in place of the journal's."""
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import disks
from donor import Donor
from tap import FARPAGE, FOLDER, at_end, done, farpage, make_key, ok, shown, skip, wait_until

source, memserver, blockdev = Path(sys.argv[1]), *sys.argv[2:]
IDS = dict(re.findall(r'#define EVENT_(\w+) "([0-9a-f]{32})"', (source / "common/events.h").read_text(encoding="utf-8")))
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 1 << 12, 1 << 14, 1 << 18
NAMES = {number: name for name, number in IDS.items()}
STAMPED = re.compile(r"20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d\.\d{3}Z farpage-memserver: .")


def run_mounted():
    """Puts this test and its daemons into a mount namespace with a folder of the test as /run. Returns true if it is."""
    libc, place = ctypes.CDLL(None), FOLDER / "fake-run"
    place.mkdir()
    return not (libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) or
                libc.mount(str(place).encode(), b"/run", None, MS_BIND, None))


class Journal:
    """The journal's socket. Each daemon's standard error is one end of a pair of sockets, which JOURNAL_STREAM names."""

    def __init__(self):
        path = Path("/run/systemd/journal/socket")
        path.parent.mkdir(parents=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.stream, self.end = socket.socketpair()
        self.stream.setblocking(False)
        self.entries = []
        # The kernel keeps only a few datagrams for a socket that nobody reads.
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while entry := self.socket.recv(1 << 16):
            self.entries.append(dict(line.split("=", 1) for line in entry.decode().splitlines()))

    def spawn(self, command, **options):
        stat = os.fstat(self.end.fileno())
        env = {**os.environ, "JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
        return subprocess.Popen([*map(str, command)], **{**options, "stderr": self.end.fileno(), "env": env})

    def text(self):
        """What was written to standard error."""
        try:
            return self.stream.recv(1 << 16).decode()
        except BlockingIOError:
            return ""

    def event(self, name, **fields):
        """Waits for an entry with this MESSAGE_ID and these fields."""
        return wait_until(lambda: any(entry.get("MESSAGE_ID") == IDS[name] and fields.items() <= entry.items()
                                      for entry in self.entries))

    def told(self):
        return "\n".join(f"{NAMES.get(entry.get('MESSAGE_ID'))}: {entry}" for entry in self.entries)


def manual_pages_list_the_events():
    listed = {page: set(re.findall(r"^(?:\.B|\.It Li) ([0-9a-f]{32})$", (source / "docs/man" / page).read_text(encoding="utf-8"),
                                   re.MULTILINE)) for page in ("farpage-memserver.8", "farpage-blockdev.8")}
    every = set().union(*listed.values())
    ok(len(IDS) > 10 and every == set(IDS.values()) == set(NAMES), "the manual pages list every MESSAGE_ID, and each is unique",
       [NAMES.get(number, number) for number in every ^ set(IDS.values())])


def donor_to_a_file_logs_the_time():
    donor = Donor("--donate", "8M", "--slab", "4M")
    wait_until(lambda: "started" in donor.log.read_text())
    lines = donor.log.read_text().splitlines()
    ok(len(lines) > 1 and all(STAMPED.match(line) for line in lines), "each line in a donor's log file begins with the time",
       *lines)


def starting_device_logs_no_time():
    """`farpage run --engine swap` keeps these lines in a file, and shows them to its user."""
    log = FOLDER / "starting"
    command = [blockdev, "--name=starting", "--size=16M", "--donor=tcp://127.0.0.1:1", f"--key={FOLDER}/no-key"]
    for options in (("--memory",), ()):
        with open(log, "wb") as file, open(os.devnull, "wb") as ready:
            subprocess.run([*command, f"--ready-fd={ready.fileno()}", *options], stderr=file, stdin=subprocess.DEVNULL,
                           pass_fds=[ready.fileno()], check=False)
        lines = log.read_text().splitlines()
        ok(lines and all(line.startswith("farpage-blockdev: ") for line in lines), "a line of a starting device has no time", *lines)
    with open(log, "wb") as file:
        subprocess.run(command, stderr=file, stdin=subprocess.DEVNULL, check=False)
    lines = log.read_text().splitlines()
    ok(lines and all("Z farpage-blockdev: " in line for line in lines), "a line of a device that nobody waits for has the time", *lines)


def device_of_a_unit_sends_events(journal):
    """The command is started by a unit, and the daemon replaces its standard error when its device is ready."""
    donor = Donor("--donate", "64M", "--slab", "4M", program=memserver)
    at_end(donor.kill)
    command = journal.spawn([FARPAGE, "disk", "attach", "--name=moved", "--size=16M", "--frontend", disks.FRONTEND, "--donor",
                             donor.uri, "--log", os.devnull, "--timeout-ms=60000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    ok(command.wait(60) == 0, "a device is attached from the journal", journal.told())
    write(disks.known()["moved"]["device"])
    donor.signal(signal.SIGSTOP)
    ok(journal.event("DONOR_AWAY", DONOR=donor.uri, SYSLOG_IDENTIFIER="farpage-blockdev"),
       "the daemon of a device sends events after its log was moved", journal.told())
    donor.signal(signal.SIGCONT)
    ok(journal.event("DONOR_BACK", DONOR=donor.uri), "a device sends an event when its donor is back", journal.told())
    ok(disks.detach("moved").returncode == 0, "the device is detached")


def write(path):
    """Writes to a device, which then leases a slab."""
    with open(path, "r+b", buffering=0) as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())


def daemons_send_events(journal):
    key = make_key()
    donor = Donor("--donate", "64M", "--slab", "4M", "--admin-key", make_key("admin"), "--key", key, program=memserver,
                  spawn=journal.spawn)
    at_end(donor.stop)
    at_end(donor.process.kill)
    ok(journal.event("DONOR_STARTED", DONOR="tcp://127.0.0.1:0", PRIORITY="6", SYSLOG_IDENTIFIER="farpage-memserver"),
       "a donor that starts sends an event with its address", journal.told())
    device = journal.spawn([blockdev, "--name=logged", "--size=16M", "--frontend", disks.FRONTEND, "--donor", donor.uri,
                            "--key", key], stdin=subprocess.DEVNULL)
    at_end(device.wait)
    at_end(device.terminate)
    ok(wait_until(lambda: disks.known().get("logged", {}).get("state") == "serving"), "the device is served", journal.told())
    path = disks.known()["logged"]["device"]
    write(path)
    taken_slabs_are_told(journal, donor, path)
    upgrade_is_told(journal, donor)
    donor.signal(signal.SIGSTOP)
    ok(journal.event("DONOR_AWAY", DONOR=donor.uri, SYSLOG_IDENTIFIER="farpage-blockdev"),
       "a device sends an event when its donor is away", journal.told())
    donor.signal(signal.SIGCONT)
    ok(journal.event("DONOR_BACK", DONOR=donor.uri), "a device sends an event when its donor is back", journal.told())
    write(path)
    for which in ("keeper", "pid"):
        os.kill(disks.known()["logged"][which], signal.SIGKILL)
    ok(journal.event("CLIENT_LOST"), "a donor sends an event when a client vanishes", journal.told())
    clients = {entry["CLIENT"] for entry in journal.entries if entry.get("MESSAGE_ID") in (IDS["CLIENT_LOST"], IDS["SLAB_TAKEN"])}
    ok(len(clients) == 1, "the events of a client have the same CLIENT", journal.told())
    text = journal.text()
    ok(text == "", "daemons with a journal write nothing to standard error", text)
    disks.detach("logged")


def taken_slabs_are_told(journal, donor, path):
    result = farpage("donors", "drain", donor.uri, "--admin-key", FOLDER / "admin", "--force", "--deadline", "1")
    ok(result.returncode == 0, "the donor is drained by force", shown(result))
    ok(journal.event("DONOR_DRAINING", PRIORITY="4") and journal.event("DONOR_DRAINED"),
       "a donor sends events when a drain begins and when it is complete", journal.told())
    ok(journal.event("SLAB_TAKEN"), "a donor sends an event when it takes a slab by force", journal.told())
    ok(journal.event("DATA_LOST", SYSLOG_IDENTIFIER="farpage-blockdev"),
       "a device sends an event when data is lost with a slab", journal.told())
    farpage("donors", "undrain", donor.uri, "--admin-key", FOLDER / "admin")
    ok(journal.event("DONOR_LENDING"), "a donor sends an event when a drain ends", journal.told())
    try:
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.read(4096)
    except OSError:
        pass
    ok(journal.event("REQUESTS_FAILED", DEVICE=path), "a device sends an event when requests fail", journal.told())


def upgrade_is_told(journal, donor):
    donor.signal(signal.SIGUSR2)
    ok(journal.event("NOT_UPGRADED"), "a donor without a port sends an event when an upgrade fails", journal.told())
    with socket.create_server(("127.0.0.1", 0)) as unused:
        uri = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
    other = Donor("--donate", "8M", "--slab", "4M", uri=uri, program=memserver, spawn=journal.spawn)
    try:
        other.signal(signal.SIGUSR2)
        ok(journal.event("UPGRADED", SYSLOG_IDENTIFIER="farpage-memserver"),
           "the next program sends an event when an upgrade succeeds", journal.told())
    finally:
        other.kill()


manual_pages_list_the_events()
donor_to_a_file_logs_the_time()
starting_device_logs_no_time()
if why := disks.lacking():
    skip("daemons send events to the journal", why)
    done()
if not run_mounted():
    skip("daemons send events to the journal", "no mount namespaces")
    done()
shared = Journal()
daemons_send_events(shared)
device_of_a_unit_sends_events(shared)
done()
