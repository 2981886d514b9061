#!/usr/bin/python3
"""test_bench.py: small and short runs of farpage bench against real donors on loopback."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from donor import Donor, donor_options
from tap import FARPAGE, FOLDER, done, farpage, make_key, ok, refused, run, shown

KEY = make_key()
NOBODY = 65534
NO_RIGHT = "no right to use userfaultfd"


def fabric(uri):
    return uri.partition("://")[0]


def bench(*options, **more):
    return farpage("bench", "--size", "16M", "--seconds", "0.05", *options, **more)


def lender():
    return Donor("--donate", "64M", "--slab", "16M", "--key", KEY)


def check_figures(answer, uris, depths, label):
    """Every point is in the answer, and its figures agree with each other."""
    expected = [(operation, depth) for operation in ("read", "write") for depth in depths]
    ok([donor["donor"] for donor in answer["donors"]] == uris
       and all([(point["operation"], point["depth"]) for point in donor["points"]] == expected
               for donor in answer["donors"]), f"{label}: bench measures each donor, operation and depth", answer)
    points = [point for donor in answer["donors"] for point in donor["points"]]
    ok(all(0 < point["p50_ns"] <= point["p99_ns"] <= point["p999_ns"] and point["pages"] > 0 for point in points),
       f"{label}: each point's latencies are in order", points)
    ok(all(point["seconds"] >= 0.05 and point["bytes_per_second"] // 4096 == point["pages_per_second"] and
           abs(point["pages"] / point["seconds"] - point["pages_per_second"]) <= 1 for point in points),
       f"{label}: each point's rates are pages divided by time", points)
    # Little's law: the requests in flight are rate times latency. On a busy machine the median may be far below the
    # mean. The median cannot be much above the mean, because at most `depth` requests wait at once.
    ok(all(point["pages_per_second"] * point["p50_ns"] / 2e9 <= point["depth"] * 1.1 for point in points),
       f"{label}: each point has no more pages in flight than its depth", points)


def bench_measures_two_donors(first, second):
    uris = [first.uri, second.uri]
    figures = FOLDER / "figures.json"
    result = bench(*donor_options([first, second]), "--key", KEY, "--depths", "1,4,32", "--json", figures)
    ok(result.returncode == 0 and result.stderr == "", "bench measures two donors", shown(result))
    answer = json.loads(figures.read_text(encoding="utf-8"))
    check_figures(answer, uris, [1, 4, 32], "JSON")
    row = rf"^{re.escape(first.uri)} +{fabric(first.uri)} +(?:read|write) +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +\d+ +[\d.]+$"
    ok(len(re.findall(row, result.stdout, re.M)) == 6, "the table has a row for each donor, operation and depth",
       shown(result))
    ok("reads: thousand pages/s" in result.stdout and "writes: thousand pages/s" in result.stdout,
       "bench prints plots of reads and writes", shown(result))
    ok(re.search(r"^reads at depth 1: \S+ is [\d.]+ x as fast as \S+ \([\d.]+ us, [\d.]+ us\)$", result.stdout, re.M)
       and re.search(r"^reads at depth 32: \S+ is [\d.]+ x as fast as", result.stdout, re.M),
       "bench compares the two donors at the lowest and the highest depth", shown(result))
    if "skipped" in answer["userfaultfd"]:
        ok(NO_RIGHT in answer["userfaultfd"]["skipped"] and NO_RIGHT in result.stdout,
           "bench tells why it measures no far faults", answer)
    else:
        faults = [donor["far_fault"] for donor in answer["donors"]]
        ok(all(fault["faults_far"] > fault["faults"] * 0.9 > 0 for fault in faults),
           "over nine of ten measured faults are far", faults)
        ok(all(fault["p50_ns"] > answer["userfaultfd"]["p50_ns"] > 0 for fault in faults),
           "a far fault takes longer than userfaultfd alone", answer)
        ok(len(re.findall(r"^a far fault over .* \(p50\); alone, userfaultfd takes ", result.stdout, re.M)) == 2,
           "bench prints userfaultfd's share of a far fault for each donor", shown(result))
    ok(first.given_back("--key", KEY) and second.given_back("--key", KEY),
       "bench releases its leases when it ends")


def no_faults_leaves_out_faults(donor):
    result = bench("--donor", donor.uri, "--key", KEY, "--depths", "2", "--no-faults", "--json", "-")
    answer = json.loads(result.stdout)
    ok(result.returncode == 0 and answer["userfaultfd"] is None and answer["donors"][0]["far_fault"] is None,
       "bench --no-faults measures no faults, and --json - prints only JSON", shown(result))
    check_figures(answer, [donor.uri], [2], "one depth")


def auto_is_reported_as_its_fabric(donor):
    address = donor.uri.replace(fabric(donor.uri), "auto")
    result = bench("--donor", address, "--key", KEY, "--depths", "1", "--no-faults", "--json", "-")
    answer = json.loads(result.stdout)
    ok(result.returncode == 0 and answer["donors"][0]["fabric"] == fabric(donor.uri),
       "bench reports the fabric that an auto:// donor uses", shown(result))


def missing_right_leaves_out_only_faults(donor):
    """A user without the right to userfaultfd gets all other figures, and the reason for the missing ones."""
    if os.getuid() != 0 or Path("/proc/sys/vm/unprivileged_userfaultfd").read_text(encoding="ascii").strip() != "0":
        print("# who is not root, or may use userfaultfd anyhow, cannot be tried without the right to")
        return
    own_key, own_farpage = FOLDER / "nobody.key", FOLDER / "farpage" # in a folder that nobody may enter
    shutil.copy(FARPAGE, own_farpage)
    shutil.copy(KEY, own_key)
    os.chown(own_key, NOBODY, NOBODY)
    own_key.chmod(0o600)
    os.chmod(FOLDER, 0o755)
    result = run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", own_farpage, "bench", "--size",
                 "16M", "--seconds", "0.05", "--donor", donor.uri, "--key", own_key, "--depths", "1")
    ok(result.returncode == 0 and NO_RIGHT in result.stdout and " write     1 " in result.stdout,
       "bench without the right to userfaultfd leaves out only the faults", shown(result))


class Terminal:
    """A benchmark with a terminal as its standard error. text has everything that it wrote there so far."""

    def __init__(self, *options):
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen([FARPAGE, "bench", "--size", "16M", *map(str, options)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        self.text = ""

    def read(self, until=None):
        """Reads until the terminal has shown @until, or to the end. Returns true if the terminal has shown it."""
        while until is None or until not in self.text:
            try:
                piece = os.read(self.ours, 4096)
            except OSError: # the benchmark's end of the terminal is closed
                piece = b""
            if not piece:
                return False
            self.text += piece.decode()
        return True

    def end(self):
        """Waits for the benchmark's end. Returns its exit status and standard output."""
        self.read()
        os.close(self.ours)
        out = self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(), out


def interrupted_bench_shows_its_figures(donor):
    client = Terminal("--donor", donor.uri, "--key", KEY, "--no-faults", "--depths", "1,2,3,4,5,6,7,8",
                      "--seconds", "1", "--json", "-")
    amid = client.read("read, depth 2")
    held = donor.says("--key", KEY).get("leased_bytes")
    client.process.send_signal(signal.SIGINT)
    status, out = client.end()
    answer = json.loads(out)
    ok(amid and held == 16 << 20 and status == 130, "Ctrl-C ends bench with status 130", status, out, client.text)
    ok("\n" not in client.text and client.text.endswith("\r\x1b[K"), "bench prints no message after Ctrl-C",
       client.text)
    points = [(point["operation"], point["depth"]) for point in answer["donors"][0]["points"]]
    ok(answer["interrupted"] and points[:1] == [("read", 1)] and len(points) < 16,
       "bench shows the figures that it has after Ctrl-C", out)
    ok(donor.given_back("--key", KEY), "bench releases its leases after Ctrl-C")


def bench_ends_when_interrupted_amid_far_faults(donor):
    client = Terminal("--donor", donor.uri, "--key", KEY, "--depths", "1", "--seconds", "2")
    if client.read("far faults"):
        client.process.send_signal(signal.SIGTERM)
        status, out = client.end()
        ok(status == 143 and "write     1" in out, "SIGTERM amid far faults ends bench with status 143", status, out,
           client.text)
        ok(donor.given_back("--key", KEY), "bench releases its leases after SIGTERM amid far faults")
    else:
        ok(NO_RIGHT in client.end()[1], "bench measures no far faults without the right to userfaultfd")


def bench_ends_when_a_donor_dies():
    donor = lender()
    client = Terminal("--donor", donor.uri, "--key", KEY, "--no-faults", "--depths", "1,8", "--seconds", "1")
    amid = client.read("read, depth 8")
    donor.kill()
    status, out = client.end()
    ok(amid and status == 1 and "read      1" in out, "bench ends with status 1 and the table so far when a donor dies",
       status, out, client.text)
    # The client may log that it cannot reach the donor. It then logs that it gives the donor up, and nothing more.
    lines = re.findall(r"farpage: .*", client.text)
    ok(all(f"farpage: donor {donor.uri} " in line for line in lines) and " is gone " in lines[-1] and len(lines) <= 2,
       "bench tells once that the donor is gone", client.text)


def bench_ends_when_a_donor_dies_amid_far_faults():
    donor = lender()
    client = Terminal("--donor", donor.uri, "--key", KEY, "--depths", "1", "--seconds", "1")
    if client.read("far faults"):
        donor.kill()
        status, out = client.end()
        ok(status == 1 and "write     1" in out and f"donor {donor.uri} " in client.text,
           "bench ends with status 1 and the table so far when a donor dies amid far faults", status, out, client.text)
    else:
        ok(NO_RIGHT in client.end()[1], "bench measures no far faults without the right to userfaultfd")


def slow_donor_is_measured():
    """The donor runs for less than a point's warm-up at a time. Each point waits for its first page."""
    donor = lender()
    over = threading.Event()

    def hold():
        while not over.wait(0.003):
            donor.signal(signal.SIGSTOP)
            over.wait(0.1)
            donor.signal(signal.SIGCONT)

    client = Terminal("--donor", donor.uri, "--key", KEY, "--depths", "1,2", "--no-faults", "--json", "-", "--seconds", "0.05")
    begun = client.read("read, depth 1")
    holder = threading.Thread(target=hold)
    holder.start()
    status, out = client.end()
    over.set()
    holder.join()
    ok(begun and status == 0, "bench measures a slow donor", status, out, client.text)
    check_figures(json.loads(out), [donor.uri], [1, 2], "slow donor")


def progress_is_shown_on_a_terminal(donor):
    """On a terminal a line shows the progress, and is erased at the end."""
    client = Terminal("--donor", donor.uri, "--key", KEY, "--no-faults", "--depths", "1,64", "--seconds", "0.05")
    status, out = client.end()
    ok(status == 0 and "read, depth 1\r" in client.text and "write, depth 64\r" in client.text and "write    64" in out,
       "bench shows its progress on a terminal", client.text)
    ok(client.text.endswith("\r\x1b[K") and "\n" not in client.text, "bench erases the line of progress at the end",
       client.text)


def bad_options_are_refused(donor):
    options = ["--donor", donor.uri, "--key", KEY]
    result = farpage("bench", "--help")
    ok(result.returncode == 0 and result.stderr == "" and all(f"--{name} " in result.stdout for name in (
        "donor", "key", "size", "seconds", "depths", "no-faults", "json")), "bench --help names all options",
       shown(result))
    refused(farpage("bench"), "bench refuses to run without a donor", "--donor", status=2)
    refused(bench(*options, "x"), "bench refuses an argument", '"x"', status=2)
    refused(bench(*options * 9), "bench refuses nine donors", "one to 8", status=2)
    for depths in ("0", "4,2", "1,1", "257", "2x", "-1", ",".join(map(str, range(1, 18)))):
        refused(bench(*options, "--depths", depths), f"bench refuses --depths {depths[:8]}", "--depths takes", status=2)
    for seconds in ("0", "-1", "nan", "inf", "1s"):
        refused(farpage("bench", *options, "--seconds", seconds), f"bench refuses --seconds '{seconds}'",
                "--seconds takes", status=2)
    refused(farpage("bench", *options, "--size", "1M"), "bench refuses a --size below 16M", "16M", status=2)
    refused(farpage("bench", *options, "--size", "113M"), "bench refuses a donor with too little free memory",
            "has 64M free of the 64M that it lends, and 128M are needed", status=1)
    refused(farpage("bench", "--donor", "bogus"), "bench refuses a donor that is no address", "bogus", status=1)
    refused(farpage("bench", "--donor", donor.uri, "--key", "/dev/null/key"), "bench refuses a missing key file",
            "key file", status=1)
    refused(bench("--donor", donor.uri), "bench refuses a donor that wants a key when none is given",
            donor.uri, status=1)
    refused(bench(*options, "--json", FOLDER / "no/f.json"), "bench refuses a --json file that cannot be written",
            "no/f.json", status=1)
    result = bench(*options, "--no-faults", "--depths", "1", "--json", "/dev/full")
    ok(result.returncode == 1 and result.stderr.count("\n") == 1 and "/dev/full" in result.stderr,
       "bench fails when the disk under --json is full", shown(result))


first_donor, second_donor = lender(), lender()
bench_measures_two_donors(first_donor, second_donor)
no_faults_leaves_out_faults(first_donor)
auto_is_reported_as_its_fabric(first_donor)
missing_right_leaves_out_only_faults(first_donor)
interrupted_bench_shows_its_figures(first_donor)
bench_ends_when_interrupted_amid_far_faults(first_donor)
bench_ends_when_a_donor_dies()
bench_ends_when_a_donor_dies_amid_far_faults()
slow_donor_is_measured()
progress_is_shown_on_a_terminal(first_donor)
bad_options_are_refused(second_donor)
done()
