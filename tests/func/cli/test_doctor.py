#!/usr/bin/python3
"""test_doctor.py FARPAGE MEMSERVER: farpage doctor on this host, whatever it has, and with donors of all kinds."""
import json
import os
import platform
import resource
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
IDS = {"rdma.devices", "rdma.cm", "rdma.port", "rdma.mtu", "rdma.limits",
       "faults.right", "faults.paging", "faults.forks",
       "memory.lock", "memory.donate", "memory.room", "memory.huge", "memory.hugetlb", "memory.overcommit", "memory.maps",
       "kernel.version", "kernel.io_uring", "kernel.madvise", "kernel.pressure", "kernel.ublk",
       "kernel.fuse", "cpu.count", "cpu.clock", "cpu.seal", "donor.reach", "donor.free", "donor.distance",
       "swap.rights", "swap.group", "swap.tools", "swap.readahead", "swap.reserves", "swap.space", "swap.safety", "swap.device"}


def examine(*options, **how):
    """The result of farpage doctor --json, and its findings: by id, or by (id, subject) if there is one."""
    result = run(farpage, "doctor", "--json", *options, **how)
    findings = json.loads(result.stdout)
    return result, {(one["id"], one["subject"]) if one["subject"] else one["id"]: one for one in findings}


def status(findings, *key):
    return findings.get(key if len(key) > 1 else key[0], {}).get("status")


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_host():
    start, before = time.monotonic(), processor_seconds()
    result, findings = examine()
    seconds, busy = time.monotonic() - start, processor_seconds() - before
    failed = [one for one in findings.values() if one["status"] == "fail"]
    ok(result.returncode == (1 if failed else 0) and result.stderr == "", "status 1 if something failed, else 0",
       shown(result))
    # This machine may have other things to do.
    ok(busy < 1 and seconds < 10, "within a second of a processor's time", f"{busy} s of {seconds} s")
    ok({key if isinstance(key, str) else key[0] for key in findings} == IDS, "every check is in the answer", findings)
    ok(all(set(one) == {"id", "subject", "status", "found", "why", "mend"} for one in findings.values()),
       "each finding has all its fields", shown(result))
    ok(all(one["status"] in ("pass", "warn", "fail", "skip") and one["found"] for one in findings.values()),
       "a status, and what was found", shown(result))
    ok(all(one["why"] and one["found"] for one in findings.values() if one["status"] in ("warn", "fail")),
       "and why it matters, if it is not as it should be", shown(result))
    there = Path("/sys/class/infiniband").is_dir() and os.listdir("/sys/class/infiniband")
    ok(("no RDMA device" in findings["rdma.devices"]["found"]) == (not there), "RDMA devices as in sysfs",
       findings["rdma.devices"])
    release = os.uname().release
    ok(release in findings["kernel.version"]["found"], "the kernel's version", findings["kernel.version"])
    count = len(os.sched_getaffinity(0))
    expected = "one processor" if count == 1 else f"{count} processors"
    ok(findings["cpu.count"]["found"].startswith(expected), "as many processors as there are", findings["cpu.count"])
    if platform.machine() == "x86_64" and findings["cpu.seal"]["status"] == "pass":
        _, slower = examine(env={**os.environ, "OPENSSL_ia32cap": "~0x200000200000000"})
        ok(slower["cpu.seal"]["status"] == "warn" and "slow" in slower["cpu.seal"]["found"], "no AES instructions",
           slower["cpu.seal"])

    text = run(farpage, "doctor")
    ok("\033" not in text.stdout and text.returncode == result.returncode, "text without colours into a pipe", shown(text))
    for one in findings.values():
        if one["status"] == "warn" and one["mend"]:
            ok(f"        mend  {one['mend']}\n" in text.stdout, f"text has how to mend {one['id']}", shown(text))
    ok(text.stdout.rstrip().endswith(" skipped"), "and a line that counts", shown(text))


def as_nobody():
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def test_rights():
    """As a user without rights, and with little memory to lock."""
    def little():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))

    how = {"preexec_fn": little, **as_nobody()}
    result, findings = examine("--donate", "1G", "--donor", "tcp://127.0.0.1:1", **how)
    setting = Path("/proc/sys/vm/unprivileged_userfaultfd")
    allowed = not setting.exists() or setting.read_text(encoding="ascii").strip() == "1" or \
        os.access("/dev/userfaultfd", os.R_OK | os.W_OK) and os.geteuid() != 0
    ok(status(findings, "faults.right") == ("pass" if allowed else "fail"), "a user's right to userfaultfd",
       findings["faults.right"])
    ok(allowed or "unprivileged_userfaultfd=1" in findings["faults.right"]["mend"], "and how to get it",
       findings["faults.right"])
    ok(status(findings, "memory.donate") in ("warn", "fail") and "64K, less than 1G" in findings["memory.donate"]["found"],
       "little memory to lock for a donor", findings["memory.donate"])
    ok(status(findings, "memory.lock") in ("pass", "fail") and "64K" in findings["memory.lock"]["found"],
       "and for a client, if there is RDMA", findings["memory.lock"])
    ok(result.stderr == "", "no complaints besides", shown(result))

    result, findings = examine("--donate", "512T")
    ok(status(findings, "memory.room") in ("warn", "fail"), "nobody has 512T to lend", findings["memory.room"])
    ok({status(findings, name) for name in ("faults.right", "faults.paging", "faults.forks")} == {"skip"},
       "a donor needs no userfaultfd", shown(result))


def test_donors(folder):
    key, other = Path(folder, "key"), Path(folder, "other")
    for path in (key, other):
        run(farpage, "key", path)
    good = start_donor(memserver, "--donate", "256M", "--slab", "16M", "--key", str(key))[1]

    result, findings = examine("--donor", good, "--key", key)
    ok(status(findings, "donor.reach", good) == "pass" and good in findings["donor.reach", good]["found"],
       "a donor answers, over its fabric", shown(result))
    ok(findings["donor.free", good]["found"].startswith("256M free of 256M in slabs of 16M, other clients: 0"), "what it has free",
       shown(result))
    ok("median of 16" in findings["donor.distance", good]["found"], "how far it is", shown(result))

    for name, options, found, mend in (("no key", [], "key is needed", "--key"),
                                       ("the wrong key", ["--key", other], "wrong key", "--key")):
        result, findings = examine("--donor", good, *options)
        finding = findings["donor.reach", good]
        ok(result.returncode == 1 and finding["status"] == "fail" and found in finding["found"] and mend in finding["mend"],
           name, finding)
        ok(status(findings, "donor.free", good) == "skip", "nothing more is said of it", findings)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        unused = socket.create_server(("127.0.0.1", 0))
        nobody = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        unused.close()
        start = time.monotonic()
        result, findings = examine("--donor", mute, "--donor", nobody, "--donor", good, "--donor", "bogus", "--key", key)
        seconds = time.monotonic() - start
    ok(seconds < 3, "all donors within the time of one", f"{seconds} s")
    for uri, found in ((mute, "no answer"), (nobody, "connection refused"), ("bogus", "not an address")):
        finding = findings["donor.reach", uri]
        ok(finding["status"] == "fail" and finding["found"] == found and finding["mend"], f"{found}: told, and how to mend",
           finding)
    ok(status(findings, "donor.reach", good) == "pass" and result.returncode == 1 and result.stderr == "",
       "the others answer all the same", shown(result))

    if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
        result, findings = examine("--donor", "rdma://127.0.0.1:1")
        ok(status(findings, "rdma.devices") == "fail", "rdma:// without a device is a failure of this host", shown(result))


def test_swap():
    """How safe swap would be, which a donor on this very machine is not."""
    good = start_donor(memserver, "--donate", "64M", "--slab", "16M")[1]
    result, findings = examine("--swap", "64M", "--donor", good)
    root = os.geteuid() == 0
    ok(status(findings, "swap.rights") in (("pass", "fail") if root else ("fail",)), "the rights of a daemon",
       findings["swap.rights"])
    ok(status(findings, "swap.space") == "pass" and "64M free on the donors" in findings["swap.space"]["found"], "room",
       findings["swap.space"])
    safety = [one for key, one in findings.items() if key[0] == "swap.safety"]
    ok(len(safety) == 1 and safety[0]["status"] == "fail" and result.returncode == 1 and
       (not root or "unsafe: the donor is this very machine" in safety[0]["found"] or
        "no block devices" in safety[0]["found"]), "its own memory is no place to swap to", safety)
    result, findings = examine("--swap", "65M", "--donor", good)
    ok(status(findings, "swap.space") == "fail" and "64M free together" in findings["swap.space"]["found"],
       "more than the donors have", findings["swap.space"])
    result, findings = examine("--swap", "64M", **as_nobody())
    ok(status(findings, "swap.rights") == "fail" and "root" in findings["swap.rights"]["mend"], "a user may not swap",
       findings["swap.rights"])
    result, findings = examine(**as_nobody())
    ok({status(findings, "swap.rights")} | {one["status"] for key, one in findings.items() if key[0] == "swap.safety"} ==
       {"skip"}, "nor is bothered with that", findings)
    result, findings = examine("--donate", "64M")
    ok({status(findings, name) for name in ("swap.rights", "swap.group", "swap.tools", "swap.readahead", "swap.safety")} == {"skip"},
       "nor is a donor", findings)


def test_usage(folder):
    for name, options, code, text in (("an argument", ["x"], 2, '"x"'),
                                      ("an unknown option", ["--bogus"], 2, "--bogus"),
                                      ("not a size", ["--donate", "much"], 2, "--donate"),
                                      ("not a size of a device", ["--swap", "much"], 2, "--swap"),
                                      ("a key for nobody", ["--key", "x"], 2, "--donor"),
                                      ("a key file that is not there",
                                       ["--key", Path(folder, "no"), "--donor", "tcp://127.0.0.1:1"], 1, "cannot read")):
        result = run(farpage, "doctor", *options)
        ok(result.returncode == code and text in result.stderr and result.stdout == "" and
           result.stderr.count("\n") == 1, f"{name} is told in one line", shown(result))
    result = run(farpage, "doctor", "--help")
    ok(result.returncode == 0 and all(word in result.stdout for word in ("--donate SIZE", "--swap SIZE", "--json", "exit status", "rdma://")),
       "--help teaches", shown(result))


try:
    with tempfile.TemporaryDirectory(prefix="farpage-test-") as temporary:
        test_host()
        test_rights()
        test_donors(temporary)
        test_swap()
        test_usage(temporary)
finally:
    stop_donors()
done()
