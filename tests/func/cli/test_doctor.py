#!/usr/bin/python3
"""test_doctor.py: farpage doctor on any host, and with donors of all kinds."""
import json
import os
import platform
import resource
import time
from pathlib import Path

from donor import Donor, no_donors
from tap import FOLDER, done, farpage, make_key, ok, refused, shown

IDS = {"rdma.devices", "rdma.cm", "rdma.port", "rdma.mtu", "rdma.limits",
       "faults.right", "faults.paging", "faults.forks",
       "memory.lock", "memory.donate", "memory.room", "memory.huge", "memory.hugetlb", "memory.overcommit", "memory.maps",
       "kernel.version", "kernel.io_uring", "kernel.pressure", "kernel.ublk",
       "kernel.fuse", "cpu.count", "cpu.clock", "cpu.seal", "donor.reach", "donor.free", "donor.distance",
       "swap.rights", "swap.group", "swap.tools", "swap.readahead", "swap.reserves", "swap.space", "swap.safety", "swap.device"}


def examine(*options, **how):
    """Runs farpage doctor --json. Returns the result, and its findings by id, or by id and subject."""
    result = farpage("doctor", "--json", *options, **how)
    findings = json.loads(result.stdout)
    return result, {(one["id"], one["subject"]) if one["subject"] else one["id"]: one for one in findings}


def status(findings, *key):
    return findings.get(key if len(key) > 1 else key[0], {}).get("status")


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def this_host_is_examined():
    start, before = time.monotonic(), processor_seconds()
    result, findings = examine()
    seconds, busy = time.monotonic() - start, processor_seconds() - before
    failed = [one for one in findings.values() if one["status"] == "fail"]
    ok(result.returncode == (1 if failed else 0) and result.stderr == "",
       "doctor has status 1 if a check failed, else 0", shown(result))
    # This machine may be busy, so the limit of elapsed time is higher.
    ok(busy < 1 and seconds < 10, "doctor takes less than a second of processor time", f"{busy} s of {seconds} s")
    ok({key if isinstance(key, str) else key[0] for key in findings} == IDS, "doctor --json has every check", findings)
    ok(all(set(one) == {"id", "subject", "status", "found", "why", "mend"} for one in findings.values()),
       "each finding has all its fields", shown(result))
    ok(all(one["status"] in ("pass", "warn", "fail", "skip") and one["found"] for one in findings.values()),
       "each finding has a status and what was found", shown(result))
    ok(all(one["why"] and one["found"] for one in findings.values() if one["status"] in ("warn", "fail")),
       "each warning and failure tells why it matters", shown(result))
    there = Path("/sys/class/infiniband").is_dir() and os.listdir("/sys/class/infiniband")
    ok(("no RDMA device" in findings["rdma.devices"]["found"]) == (not there),
       "doctor finds RDMA devices where sysfs has them", findings["rdma.devices"])
    release = os.uname().release
    ok(release in findings["kernel.version"]["found"], "doctor tells the kernel's version", findings["kernel.version"])
    count = len(os.sched_getaffinity(0))
    expected = "one processor" if count == 1 else f"{count} processors"
    ok(findings["cpu.count"]["found"].startswith(expected), "doctor counts the usable processors",
       findings["cpu.count"])
    if platform.machine() == "x86_64" and findings["cpu.seal"]["status"] == "pass":
        _, slower = examine(env={**os.environ, "OPENSSL_ia32cap": "~0x200000200000000"})
        ok(slower["cpu.seal"]["status"] == "warn" and "slow" in slower["cpu.seal"]["found"],
           "doctor warns of a processor without AES instructions", slower["cpu.seal"])

    text = farpage("doctor")
    ok("\033" not in text.stdout and text.returncode == result.returncode, "doctor prints no colours into a pipe",
       shown(text))
    for one in findings.values():
        if one["status"] == "warn" and one["mend"]:
            ok(f"        mend  {one['mend']}\n" in text.stdout, f"doctor prints how to mend {one['id']}", shown(text))
    ok(text.stdout.rstrip().endswith(" skipped"), "doctor's last line counts the checks", shown(text))


def as_nobody():
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def missing_rights_are_told():
    """Runs doctor as a user without rights and with little lockable memory."""
    def little():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))

    how = {"preexec_fn": little, **as_nobody()}
    result, findings = examine("--donate", "1G", "--donor", "tcp://127.0.0.1:1", **how)
    setting = Path("/proc/sys/vm/unprivileged_userfaultfd")
    allowed = not setting.exists() or setting.read_text(encoding="ascii").strip() == "1" or \
        os.access("/dev/userfaultfd", os.R_OK | os.W_OK) and os.geteuid() != 0
    ok(status(findings, "faults.right") == ("pass" if allowed else "fail"),
       "doctor checks a user's right to userfaultfd", findings["faults.right"])
    ok(allowed or "unprivileged_userfaultfd=1" in findings["faults.right"]["mend"],
       "doctor tells how to get the right to userfaultfd", findings["faults.right"])
    ok(status(findings, "memory.donate") in ("warn", "fail") and "64K, less than 1G" in findings["memory.donate"]["found"],
       "doctor warns a donor of little lockable memory", findings["memory.donate"])
    ok(status(findings, "memory.lock") in ("pass", "fail") and "64K" in findings["memory.lock"]["found"],
       "doctor tells a client's lockable memory", findings["memory.lock"])
    ok(result.stderr == "", "doctor prints nothing on standard error for a user without rights", shown(result))

    result, findings = examine("--donate", "512T")
    ok(status(findings, "memory.room") in ("warn", "fail"), "doctor warns of less memory than --donate 512T",
       findings["memory.room"])
    ok({status(findings, name) for name in ("faults.right", "faults.paging", "faults.forks")} == {"skip"},
       "doctor skips the checks of userfaultfd for a donor", shown(result))


def donors_are_examined():
    key, other = make_key(), make_key("other")
    good = Donor("--donate", "256M", "--slab", "16M", "--key", key).uri

    result, findings = examine("--donor", good, "--key", key)
    ok(status(findings, "donor.reach", good) == "pass" and good in findings["donor.reach", good]["found"],
       "doctor reaches a donor over its fabric", shown(result))
    ok(findings["donor.free", good]["found"].startswith("256M free of 256M in slabs of 16M, other clients: 0"),
       "doctor tells a donor's free memory, slab size and clients", shown(result))
    ok("median of 16" in findings["donor.distance", good]["found"], "doctor tells a donor's distance as a median",
       shown(result))

    for name, options, found, mend in (("doctor tells that a donor needs a key, and how to mend it", [],
                                        "key is needed", "--key"),
                                       ("doctor tells that a key is wrong, and how to mend it", ["--key", other],
                                        "wrong key", "--key")):
        result, findings = examine("--donor", good, *options)
        finding = findings["donor.reach", good]
        ok(result.returncode == 1 and finding["status"] == "fail" and found in finding["found"] and mend in finding["mend"],
           name, finding)
        ok(status(findings, "donor.free", good) == "skip", "doctor skips further checks of a donor that refuses it",
           findings)

    with no_donors() as (mute, nobody):
        start = time.monotonic()
        result, findings = examine("--donor", mute, "--donor", nobody, "--donor", good, "--donor", "bogus", "--key", key)
        seconds = time.monotonic() - start
    ok(seconds < 3, "doctor asks four donors in less than three seconds", f"{seconds} s")
    for uri, found in ((mute, "no answer"), (nobody, "connection refused"), ("bogus", "not an address")):
        finding = findings["donor.reach", uri]
        ok(finding["status"] == "fail" and finding["found"] == found and finding["mend"],
           f"doctor tells '{found}' of a donor, and how to mend it", finding)
    ok(status(findings, "donor.reach", good) == "pass" and result.returncode == 1 and result.stderr == "",
       "doctor reaches a good donor beside bad ones", shown(result))

    if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
        result, findings = examine("--donor", "rdma://127.0.0.1:1")
        ok(status(findings, "rdma.devices") == "fail", "doctor fails an rdma:// donor on a host without an RDMA device",
           shown(result))


def swap_is_examined():
    """Checks the findings about swap. A donor on the same machine is not safe."""
    good = Donor("--donate", "64M", "--slab", "16M").uri
    result, findings = examine("--swap", "64M", "--donor", good)
    root = os.geteuid() == 0
    ok(status(findings, "swap.rights") in (("pass", "fail") if root else ("fail",)),
       "doctor checks the rights of a swap daemon", findings["swap.rights"])
    ok(status(findings, "swap.space") == "pass" and "64M free on the donors" in findings["swap.space"]["found"],
       "doctor tells the donors' room for swap", findings["swap.space"])
    safety = [one for key, one in findings.items() if key[0] == "swap.safety"]
    ok(len(safety) == 1 and safety[0]["status"] == "fail" and result.returncode == 1 and
       (not root or "unsafe: the donor is this very machine" in safety[0]["found"] or
        "no block devices" in safety[0]["found"]), "doctor fails swap on a donor of the same machine", safety)
    result, findings = examine("--swap", "65M", "--donor", good)
    ok(status(findings, "swap.space") == "fail" and "64M free together" in findings["swap.space"]["found"],
       "doctor fails swap larger than the donors' room", findings["swap.space"])
    result, findings = examine("--swap", "64M", **as_nobody())
    ok(status(findings, "swap.rights") == "fail" and "root" in findings["swap.rights"]["mend"],
       "doctor fails swap for a user who is not root", findings["swap.rights"])
    result, findings = examine(**as_nobody())
    ok({status(findings, "swap.rights")} | {one["status"] for key, one in findings.items() if key[0] == "swap.safety"} ==
       {"skip"}, "doctor skips the checks of swap for a user without --swap", findings)
    result, findings = examine("--donate", "64M")
    ok({status(findings, name) for name in ("swap.rights", "swap.group", "swap.tools", "swap.readahead", "swap.safety")} == {"skip"},
       "doctor skips the checks of swap for a donor", findings)


def wrong_usage_is_refused():
    for name, options, code, text in (("an argument", ["x"], 2, '"x"'),
                                      ("an unknown option", ["--bogus"], 2, "--bogus"),
                                      ("a --donate that is no size", ["--donate", "much"], 2, "--donate"),
                                      ("a --swap that is no size", ["--swap", "much"], 2, "--swap"),
                                      ("a key without a donor", ["--key", "x"], 2, "--donor"),
                                      ("a missing key file",
                                       ["--key", FOLDER / "no", "--donor", "tcp://127.0.0.1:1"], 1, "cannot read")):
        refused(farpage("doctor", *options), f"doctor refuses {name} in one line", text, status=code)
    result = farpage("doctor", "--help")
    ok(result.returncode == 0 and all(word in result.stdout for word in ("--donate SIZE", "--swap SIZE", "--json", "exit status", "rdma://")),
       "doctor --help has the options and the exit status", shown(result))


this_host_is_examined()
missing_rights_are_told()
donors_are_examined()
swap_is_examined()
wrong_usage_is_refused()
done()
