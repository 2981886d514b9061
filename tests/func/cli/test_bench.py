#!/usr/bin/python3
"""test_bench.py FARPAGE MEMSERVER: farpage bench against real donors on loopback, small and short."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import donor_says, given_back, start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
NOBODY = 65534
NO_RIGHT = "no right to use userfaultfd"


def fabric(uri):
    return uri.partition("://")[0]


def bench(*options, **more):
    return run(farpage, "bench", "--size", "16M", "--seconds", "0.05", *options, **more)


def refused(name, status, mentioned, result):
    """One line on standard error that says what is wrong; nothing on standard output."""
    ok(result.returncode == status and result.stdout == "" and mentioned in result.stderr
       and result.stderr.startswith("farpage: ") and result.stderr.count("\n") == 1, name, shown(result))


def leased(uri, key):
    return donor_says(farpage, uri, "--key", key).get("leased_bytes")


def check_figures(answer, uris, depths, label):
    """Every point is there, and its figures agree with each other."""
    expected = [(operation, depth) for operation in ("read", "write") for depth in depths]
    ok([donor["donor"] for donor in answer["donors"]] == uris
       and all([(point["operation"], point["depth"]) for point in donor["points"]] == expected
               for donor in answer["donors"]), f"{label}: each donor, operation and depth", answer)
    points = [point for donor in answer["donors"] for point in donor["points"]]
    ok(all(0 < point["p50_ns"] <= point["p99_ns"] <= point["p999_ns"] and point["pages"] > 0 for point in points),
       f"{label}: latencies in order", points)
    ok(all(point["seconds"] >= 0.05 and point["bytes_per_second"] // 4096 == point["pages_per_second"] and
           abs(point["pages"] / point["seconds"] - point["pages_per_second"]) <= 1 for point in points),
       f"{label}: rates are pages by time", points)
    # Little's law: what is in flight is rate times latency. The median may be far below the mean on a busy machine,
    # but not above it by much, for no more than `depth` can wait at once.
    ok(all(point["pages_per_second"] * point["p50_ns"] / 2e9 <= point["depth"] * 1.1 for point in points),
       f"{label}: no more in flight than asked for", points)


def test_figures(key, first, second, folder):
    picture, figures = Path(folder, "plot.svg"), Path(folder, "figures.json")
    result = bench("--donor", first, "--donor", second, "--key", key, "--depths", "1,4,32", "--plot", picture,
                   "--json", figures)
    ok(result.returncode == 0 and result.stderr == "", "two donors are measured", shown(result))
    answer = json.loads(figures.read_text(encoding="utf-8"))
    check_figures(answer, [first, second], [1, 4, 32], "JSON")
    row = rf"^{re.escape(first)} +{fabric(first)} +(?:read|write) +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +\d+ +[\d.]+$"
    ok(len(re.findall(row, result.stdout, re.M)) == 6, "the table has them, too", shown(result))
    ok("reads: thousand pages/s" in result.stdout and "writes: thousand pages/s" in result.stdout, "and a plot",
       shown(result))
    ok(re.search(r"^reads at depth 1: \S+ is [\d.]+ x as fast as \S+ \([\d.]+ us, [\d.]+ us\)$", result.stdout, re.M)
       and re.search(r"^reads at depth 32: \S+ is [\d.]+ x as fast as", result.stdout, re.M), "and what it means",
       shown(result))
    tags = [element.tag.split("}")[1] for element in xml.etree.ElementTree.parse(picture).iter()]
    # Four panels: rates with a line a donor, latencies with two.
    ok(tags[0] == "svg" and tags.count("polyline") == 2 * (2 + 4), "the picture is SVG with all lines", tags)
    if "skipped" in answer["userfaultfd"]:
        ok(NO_RIGHT in answer["userfaultfd"]["skipped"] and NO_RIGHT in result.stdout, "why no far faults", answer)
    else:
        faults = [donor["far_fault"] for donor in answer["donors"]]
        ok(all(fault["faults_far"] > fault["faults"] * 0.9 > 0 for fault in faults), "far faults are far", faults)
        ok(all(fault["p50_ns"] > answer["userfaultfd"]["p50_ns"] > 0 for fault in faults),
           "and take longer than userfaultfd alone", answer)
        ok(len(re.findall(r"^a far fault over .* \(p50\); alone, userfaultfd takes ", result.stdout, re.M)) == 2,
           "their shares are told", shown(result))
    ok(given_back(farpage, first, "--key", key) and given_back(farpage, second, "--key", key),
       "bench gives its leases back when it ends")


def test_no_faults(key, uri):
    result = bench("--donor", uri, "--key", key, "--depths", "2", "--no-faults", "--json", "-")
    answer = json.loads(result.stdout)
    ok(result.returncode == 0 and answer["userfaultfd"] is None and answer["donors"][0]["far_fault"] is None,
       "--no-faults measures none; --json - prints nothing but JSON", shown(result))
    check_figures(answer, [uri], [2], "one depth")


def test_automatic(key, uri):
    address = uri.replace(fabric(uri), "auto")
    result = bench("--donor", address, "--key", key, "--depths", "1", "--no-faults", "--json", "-")
    answer = json.loads(result.stdout)
    ok(result.returncode == 0 and answer["donors"][0]["fabric"] == fabric(uri), "auto:// is called by the way taken",
       shown(result))


def test_no_right(key, uri, folder):
    """As a user without the right to userfaultfd: everything else is measured, and the reason told."""
    if os.getuid() != 0 or Path("/proc/sys/vm/unprivileged_userfaultfd").read_text(encoding="ascii").strip() != "0":
        print("# who is not root, or may use userfaultfd anyhow, cannot be tried without the right to")
        return
    own_key, own_farpage = Path(folder, "nobody.key"), Path(folder, "farpage") # where nobody may go
    shutil.copy(farpage, own_farpage)
    shutil.copy(key, own_key)
    os.chown(own_key, NOBODY, NOBODY)
    own_key.chmod(0o600)
    os.chmod(folder, 0o755)
    result = run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", own_farpage, "bench", "--size",
                 "16M", "--seconds", "0.05", "--donor", uri, "--key", own_key, "--depths", "1")
    ok(result.returncode == 0 and NO_RIGHT in result.stdout and " write     1 " in result.stdout,
       "without the right to userfaultfd only the faults are left out", shown(result))


class Terminal:
    """A benchmark with a terminal as its standard error, and what was written there so far."""

    def __init__(self, *options):
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen([farpage, "bench", "--size", "16M", *map(str, options)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        self.text = ""

    def read(self, until=None):
        """Until the terminal has shown that, or to the end; whether it has."""
        while until is None or until not in self.text:
            try:
                piece = os.read(self.ours, 4096)
            except OSError: # the other end is closed
                piece = b""
            if not piece:
                return False
            self.text += piece.decode()
        return True

    def end(self):
        """Its exit status and standard output."""
        self.read()
        os.close(self.ours)
        out = self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(), out


def test_interrupt(key, uri, folder):
    picture = Path(folder, "part.svg")
    client = Terminal("--donor", uri, "--key", key, "--no-faults", "--depths", "1,2,3,4,5,6,7,8",
                      "--seconds", "1", "--json", "-", "--plot", picture)
    amid = client.read("read, depth 2")
    held = leased(uri, key)
    client.process.send_signal(signal.SIGINT)
    status, out = client.end()
    answer = json.loads(out)
    ok(amid and held == 16 << 20 and status == 130, "Ctrl-C ends it with 130", status, out, client.text)
    ok("\n" not in client.text and client.text.endswith("\r\x1b[K"), "without a word", client.text)
    points = [(point["operation"], point["depth"]) for point in answer["donors"][0]["points"]]
    ok(answer["interrupted"] and points[:1] == [("read", 1)] and len(points) < 16, "what was measured is shown", out)
    ok("(interrupted)" in "".join(xml.etree.ElementTree.parse(picture).getroot().itertext()), "and drawn")
    ok(given_back(farpage, uri, "--key", key), "bench gives its leases back after Ctrl-C")


def test_interrupt_faults(key, uri):
    client = Terminal("--donor", uri, "--key", key, "--depths", "1", "--seconds", "2")
    if client.read("far faults"):
        client.process.send_signal(signal.SIGTERM)
        status, out = client.end()
        ok(status == 143 and "write     1" in out, "SIGTERM amid far faults ends it with 143", status, out, client.text)
        ok(given_back(farpage, uri, "--key", key), "bench gives its leases back after SIGTERM amid far faults")
    else:
        ok(NO_RIGHT in client.end()[1], "no far faults without the right to userfaultfd")


def test_donor_dies(key):
    process, uri = start_donor(memserver, "--donate", "64M", "--slab", "16M", "--key", str(key))
    client = Terminal("--donor", uri, "--key", key, "--no-faults", "--depths", "1,8", "--seconds", "1")
    amid = client.read("read, depth 8")
    process.kill()
    status, out = client.end()
    ok(amid and status == 1 and "read      1" in out, "a donor that dies ends it with 1, and the table so far", status,
       out, client.text)
    # The client has said when it could not reach the donor, maybe, and when it gave it up; there is no more to say.
    lines = re.findall(r"farpage: .*", client.text)
    ok(all(f"farpage: donor {uri} " in line for line in lines) and " is gone " in lines[-1] and len(lines) <= 2,
       "the reason is told once", client.text)


def test_donor_dies_amid_faults(key):
    process, uri = start_donor(memserver, "--donate", "64M", "--slab", "16M", "--key", str(key))
    client = Terminal("--donor", uri, "--key", key, "--depths", "1", "--seconds", "1")
    if client.read("far faults"):
        process.kill()
        status, out = client.end()
        ok(status == 1 and "write     1" in out and f"donor {uri} " in client.text,
           "a donor that dies amid far faults ends it with 1, and the table so far", status, out, client.text)
    else:
        ok(NO_RIGHT in client.end()[1], "no far faults without the right to userfaultfd")


def test_slow(key):
    """A donor that runs for less than a point's warm-up at a time: each point waits for its first page."""
    process, uri = start_donor(memserver, "--donate", "64M", "--slab", "16M", "--key", str(key))
    over = threading.Event()

    def hold():
        while not over.wait(0.003):
            process.send_signal(signal.SIGSTOP)
            over.wait(0.1)
            process.send_signal(signal.SIGCONT)

    client = Terminal("--donor", uri, "--key", key, "--depths", "1,2", "--no-faults", "--json", "-", "--seconds", "0.05")
    begun = client.read("read, depth 1")
    holder = threading.Thread(target=hold)
    holder.start()
    status, out = client.end()
    over.set()
    holder.join()
    ok(begun and status == 0, "a donor that is slow is measured", status, out, client.text)
    check_figures(json.loads(out), [uri], [1, 2], "slow")


def test_progress(key, uri):
    """On a terminal a line tells what is going on, and is gone at the end."""
    client = Terminal("--donor", uri, "--key", key, "--no-faults", "--depths", "1,64", "--seconds", "0.05")
    status, out = client.end()
    ok(status == 0 and "read, depth 1\r" in client.text and "write, depth 64\r" in client.text and "write    64" in out,
       "progress on a terminal", client.text)
    ok(client.text.endswith("\r\x1b[K") and "\n" not in client.text, "erased at the end", client.text)


def test_refusals(key, uri, folder):
    donor = ["--donor", uri, "--key", key]
    result = run(farpage, "bench", "--help")
    ok(result.returncode == 0 and result.stderr == "" and all(f"--{option} " in result.stdout for option in (
        "donor", "key", "size", "seconds", "depths", "no-faults", "plot", "json")), "--help names all options",
       shown(result))
    refused("no donor", 2, "--donor", run(farpage, "bench"))
    refused("an argument", 2, '"x"', bench(*donor, "x"))
    refused("too many donors", 2, "one to 8", bench(*donor * 9))
    for depths in ("0", "4,2", "1,1", "257", "2x", "-1", ",".join(map(str, range(1, 18)))):
        refused(f"--depths {depths[:8]}", 2, "--depths takes", bench(*donor, "--depths", depths))
    for seconds in ("0", "-1", "nan", "inf", "1s"):
        refused(f"--seconds '{seconds}'", 2, "--seconds takes", run(farpage, "bench", *donor, "--seconds", seconds))
    refused("--size too little", 2, "16M", run(farpage, "bench", *donor, "--size", "1M"))
    refused("a donor with too little free", 1, "has 64M free of the 64M that it lends, and 128M are needed",
            run(farpage, "bench", *donor, "--size", "113M"))
    refused("a donor that is none", 1, "bogus", run(farpage, "bench", "--donor", "bogus"))
    refused("a key that is none", 1, "key file", run(farpage, "bench", "--donor", uri, "--key", "/dev/null/key"))
    refused("without its key", 1, uri, bench("--donor", uri))
    refused("a plot that cannot be written", 1, "no/plot.svg", bench(*donor, "--plot", Path(folder, "no", "plot.svg")))
    refused("figures that cannot be written", 1, "no/f.json", bench(*donor, "--json", Path(folder, "no", "f.json")))
    result = bench(*donor, "--no-faults", "--depths", "1", "--plot", "/dev/full")
    ok(result.returncode == 1 and result.stderr.count("\n") == 1 and "/dev/full" in result.stderr,
       "a full disk is an error", shown(result))


def test(folder):
    key = Path(folder, "key")
    run(farpage, "key", key)
    first, second = (start_donor(memserver, "--donate", "64M", "--slab", "16M", "--key", str(key))[1] for _ in range(2))
    test_figures(key, first, second, folder)
    test_no_faults(key, first)
    test_automatic(key, first)
    test_no_right(key, first, folder)
    test_interrupt(key, first, folder)
    test_interrupt_faults(key, first)
    test_donor_dies(key)
    test_donor_dies_amid_faults(key)
    test_slow(key)
    test_progress(key, first)
    test_refusals(key, second, folder)


try:
    with tempfile.TemporaryDirectory(prefix="farpage-test-") as temporary:
        test(temporary)
finally:
    stop_donors()
done()
