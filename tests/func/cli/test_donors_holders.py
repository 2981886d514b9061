#!/usr/bin/python3
"""test_donors_holders.py: farpage donors holders tells host, user and command of jobs and devices, and since when they
hold memory. A client that reconnects, and a donor that is upgraded, keep these."""
import json
import os
import pwd
import re
import signal

import disks
from donor import Donor
from tap import done, farpage, ok, shown, skip, start, wait_until

SLAB = 8 << 20
PROGRAM = "import os, sys; memory = os.urandom(64 << 20); print('here', flush=True); sys.stdin.read(); sum(memory)"
HOST = os.uname().nodename[:31]
USER = pwd.getpwuid(os.getuid()).pw_name


def holders():
    return json.loads(farpage("donors", "holders", donor.uri, "--json").stdout)["holders"]


def holder_of(command):
    return next((holder for holder in holders() if holder["command"] == command), None)


def row(*options):
    return farpage("donors", "holders", donor.uri, "--noheadings", *options)


def job_is_named():
    holder = holder_of("python3")
    ok(holder and (holder["host"], holder["user"]) == (HOST, USER), "a job's holder has its host and user", holders())
    ok(holder and holder["pid"] != program.pid and os.path.exists(f"/proc/{holder['pid']}"),
       "the holder's process is the program, not farpage run", holder)
    ok(holder and holder["leased_bytes"] == holder["slabs"] * SLAB >= 48 << 20 and holder["key"] == "" and
       not holder["vanished"], "the holder has its leased memory, and no key at a donor without keys", holder)
    ok(re.search(rf"says: farpage \(pid \d+\) of {USER} on {HOST}\n", donor.log.read_text()),
       "the donor's log names the user of farpage run, too", donor.log.read_text())
    result = row("--output", "client,host,user,command,pid,key,slabs,state")
    ok(result.stdout.split() == [holder["client"], HOST, USER, "python3", str(holder["pid"]), "-",
                                 str(holder["slabs"]), "connected"], "the table has the same", shown(result))
    ok(wait_until(lambda: holder_of("python3")["held_seconds"] >= 2), "the time since the job's first slab goes on",
       holders())
    return holder


def upgrade_keeps(before):
    held = holder_of("python3")["held_seconds"]
    lines = donor.log.read_text().count("has come back")
    donor.signal(signal.SIGUSR2)
    ok(wait_until(lambda: donor.log.read_text().count("has come back") > lines),
       "the job reconnects to its upgraded donor", donor.log.read_text())
    after = holder_of("python3")
    ok("took over" in donor.log.read_text() and after and held >= 2 and after["held_seconds"] >= held,
       "the upgraded donor goes on counting since when the job holds memory", held, after)
    for name in ("client", "host", "user", "command", "pid"):
        ok(after and after[name] == before[name], f"the upgraded donor knows the job's {name}", after)


def device_is_named():
    attached = disks.attach("far", "32M", "--donor", donor.uri)
    ok(attached.returncode == 0, "a device is attached", shown(attached))
    with open(attached.stdout.strip(), "r+b", buffering=0) as device:
        device.write(os.urandom(4 << 20))
        os.fsync(device.fileno())
    holder = holder_of("blockdev far")
    ok(holder and (holder["host"], holder["user"]) == (HOST, USER) and os.path.exists(f"/proc/{holder['pid']}"),
       "a device's holder has its host and user, and the device's name as its command", holders())
    result = farpage("donors", "drain", donor.uri, "--timeout", "0")
    ok(f"blockdev far (pid {holder['pid']}) of {USER} on {HOST}" in result.stdout and " since " in result.stdout,
       "donors drain names the device that it waits for", shown(result))
    farpage("donors", "undrain", donor.uri)
    ok(disks.detach("far").returncode == 0, "the device is detached")


donor = Donor("--donate", "256M", "--slab", SLAB)
donor.kill() # an upgrade keeps the port only if the donor was told the port
donor.again()
program = start("run", "--local", "16M", "--donor", donor.uri, "--engine", "pager", "--", "/usr/bin/python3", "-c", PROGRAM)
program.stdout.readline()
job = job_is_named()
result = row()
ok(len(result.stdout.splitlines()) == 1 and len(result.stdout.rstrip("\n")) <= 80, "a row of the table has at most 80 columns",
   shown(result))
upgrade_keeps(job)
output, errors = program.communicate()
ok(program.returncode == 0, "the job ends with status 0", output, errors)
if why := disks.lacking():
    skip("a device's holder has its host, user and command", why)
else:
    device_is_named()
done()
