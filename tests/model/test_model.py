#!/usr/bin/python3
"""test_model.py protocol|window|mistakes|liveness: searches the models completely with spin, within their bounds.
Prints TAP.

    protocol, window  every state of every configuration: no assertion fails, nothing is stuck, nothing was cut short,
                      and between them the configurations reach every line
    mistakes          each deliberate mistake (-D..., see the models) is found
    liveness          under weak fairness, the slabs of a client that has ended become free

test_model.py --show "PML -D..." prints the shortest counterexample of one configuration, event by event.
docs/model.md explains the models and their counterexamples.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.dont_write_bytecode = True
import tap  # noqa: E402

MEMORY_MB = 2000
DEPTH = 200000
SECONDS = 1800  # of one search or compilation; on an idle processor each takes less than 60

# The configurations to search completely. config.pml and window.pml have the default bounds.
PROTOCOL = {
    "2 clients, 2 donors, 2 replicas, a fault": "-DFAULTS=1 -DWRITES=1 -DJOINS=0 -DDISCARDS=false",
    "2 clients, 2 donors, 2 replicas, slabs come and go": "-DFAULTS=0 -DWRITES=2 -DJOINS=1",
    "2 clients, 2 donors, 2 replicas, a revoke": "-DFAULTS=0 -DWRITES=1 -DJOINS=1 -DREVOKES=1 -DDISCARDS=false",
    "2 clients, 1 donor, 2 faults": "-DDONORS=1 -DREPLICAS=1 -DFAULTS=2 -DWRITES=1 -DJOINS=0",
    "1 client, 2 donors, 2 replicas, 2 faults, a rebuild": "-DCLIENTS=1 -DFAULTS=2 -DWRITES=1 -DJOINS=1",
    "1 client, 2 donors, 2 replicas, a fault, a rebuild": "-DCLIENTS=1 -DFAULTS=1 -DWRITES=2 -DJOINS=1",
    "1 client, 2 donors, 2 replicas, a fault, a revoke": "-DCLIENTS=1 -DFAULTS=1 -DWRITES=1 -DJOINS=1 -DREVOKES=1",
    "1 client, 2 donors, a fault, a slab that moves":
        "-DCLIENTS=1 -DREPLICAS=1 -DFAULTS=1 -DWRITES=1 -DJOINS=1 -DREVOKES=1",
}
WINDOW = {
    "one page, 2 connections that break": "-DPAGES=1 -DWRITES=3 -DFAULTS=2 -DJOINS=3",
    "two pages, a connection that breaks": "-DPAGES=2 -DWRITES=1 -DFAULTS=1 -DJOINS=2",
}

# The smallest bounds in which spin finds each mistake.
ONE = "-DCLIENTS=1 -DDONORS=1 -DREPLICAS=1"
PAGE = "-DPAGES=1 -DWRITES=2 -DFAULTS=1"
MISTAKES = {
    "NO_FENCE": ("protocol.pml", f"{ONE} -DFAULTS=1 -DWRITES=2"),
    "NO_ZERO": ("protocol.pml", f"{ONE} -DFAULTS=0 -DWRITES=2"),
    "KEYS_LIVE_ON": ("protocol.pml", "-DDONORS=1 -DREPLICAS=1 -DFAULTS=0 -DWRITES=1"),
    "BELIEVE_COMEBACK": ("protocol.pml", f"{ONE} -DFAULTS=1 -DWRITES=1"),
    "BELIEVE_STALE": ("protocol.pml", "-DCLIENTS=1 -DFAULTS=1 -DWRITES=2 -DJOINS=0"),
    "ACK_FIRST": ("protocol.pml", "-DCLIENTS=1 -DFAULTS=0 -DWRITES=1 -DJOINS=0"),
    "READ_JOINING": ("protocol.pml", "-DCLIENTS=1 -DFAULTS=1 -DWRITES=2 -DJOINS=1"),
    "JOIN_UNCOPIED": ("protocol.pml", "-DCLIENTS=1 -DFAULTS=1 -DWRITES=2 -DJOINS=1"),
    "MOVE_EARLY": ("protocol.pml", "-DCLIENTS=1 -DREPLICAS=1 -DFAULTS=0 -DREVOKES=1 -DWRITES=1 -DDISCARDS=false"),
    "NEVER_CLEARED": ("protocol.pml", f"{ONE} -DFAULTS=1 -DWRITES=1"),
    "NO_GRACE_END": ("protocol.pml", f"{ONE} -DFAULTS=1 -DWRITES=1"),
    "PASS_WINDOW": ("window.pml", PAGE),
    "PASS_PIECES": ("window.pml", PAGE),
    "VIEW_FIRST": ("window.pml", PAGE),
    "FULL_EARLY": ("window.pml", PAGE),
    "COPY_AGAIN": ("window.pml", PAGE),
    "SKIP_AWAY": ("window.pml", PAGE),
    "LATE_AFTER": ("window.pml", PAGE),
}
# Whether the property holds.
LIVENESS = {
    "a client that is gone leaves its slab": ("-DDONORS=1 -DREPLICAS=1 -DFAULTS=1 -DWRITES=1 -DJOINS=0", True),
    "found: NO_GRACE_END": ("-DDONORS=1 -DREPLICAS=1 -DFAULTS=1 -DWRITES=1 -DJOINS=0 -DNO_GRACE_END", False),
}


class Failed(Exception):
    """A tool failed; the text has its output."""


def command(words, cwd, seconds=SECONDS):
    try:
        done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{words[0]}: not done within {seconds} s") from expired
    if done.returncode:
        raise Failed(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-800:]}")
    return done.stdout


def gather(name):
    """Returns the model's lines with all includes, and the origin of each line."""
    lines, origin = [], []
    for number, line in enumerate((HERE / name).read_text().splitlines(), 1):
        included = re.match(r'#include "(.*)"', line)
        if included:
            more, where = gather(included[1])
            lines += more
            origin += where
        else:
            lines.append(line)
            origin.append(f"{name}:{number}")
    return lines, origin


def line_at(place):
    name, number = place.split(":")
    lines = (HERE / name).read_text().splitlines()[int(number) - 1:]
    # An event's condition may begin below.
    return lines[1 if lines[0].endswith("STEP {") else 0].strip()


def line_shown(place):
    return f"{place}: {line_at(place)}"


class Model:
    """One configuration, compiled in its own folder."""

    def __init__(self, name, defines, *options):
        self.folder = tempfile.mkdtemp(prefix="farpage-model-")
        lines, self.origin = gather(name)
        self.defines = defines.split()
        Path(self.folder, "model.pml").write_text("\n".join(lines) + "\n")
        command(["spin", "-a", *self.defines, "model.pml"], self.folder)
        command(["gcc", "-w", f"-DMEMLIM={MEMORY_MB}", "-DVECTORSZ=1024", "-DCOLLAPSE", *options, "-o", "pan",
                 "pan.c"], self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        shutil.rmtree(self.folder)

    def search(self, *options):
        return command(["./pan", f"-m{DEPTH}", "-w22", *options], self.folder)

    def trail(self):
        """Returns the counterexample: for each event a line with the process and the event's first line."""
        if not Path(self.folder, "model.pml.trail").exists():
            return []
        shown = command(["spin", "-t", "-p", *self.defines, "model.pml"], self.folder)
        events, before = [], None
        place = r"^\s*\d+:\s+proc\s+(\d+) \((\w+):\d+\) \S+:(\d+) \(state"
        for step in re.finditer(place, shown, re.M):
            # All lines of a d_step have the same step number. Only the first line names the event.
            number = step[0].split(":")[0]
            if number != before and step[2] != "init":
                where = self.origin[int(step[3]) - 1]
                events.append(f"{step[1]:>2} {step[2]:12} {where:18} {line_at(where)[:100]}")
            before = number
        return events

    def lines(self, output):
        """Returns the lines with statements, and those of them that the search has reached."""
        unreached, process = set(), None
        for line in output.splitlines():
            named = re.match(r"unreached in (?:proctype (\w+)|(init)|claim (\w+))", line)
            if named:
                process = named[1] or named[2] or named[3]
            place = re.match(r"\t\S+:(\d+), state (\d+), ", line)
            if place and process:
                unreached.add((process, int(place[2])))
        every, reached, process = set(), set(), None
        for line in command(["./pan", "-d"], self.folder).splitlines():
            named = re.match(r"(?:proctype (\w+)|(init)|claim (\w+))", line)
            if named:
                process = named[1] or named[2] or named[3]
            state = re.match(r"\tstate\s+(\d+) -\(tr.*\] \S+:(\d+) => (.*)", line)
            if state and state[3] != "-end-":
                place = self.origin[int(state[2]) - 1]
                every.add(place)
                if (process, int(state[1])) not in unreached:
                    reached.add(place)
        return every, reached


def faults_of(output):
    """Returns the errors of a search, or nothing."""
    found = []
    if not re.search(r"errors: 0\b", output):
        found += re.findall(r"^pan:\d+: .*", output, re.M) or ["no result"]
    if "max search depth too small" in output or "Search not completed" in output or "out of memory" in output:
        found.append("the search was cut short")
    return [line[:200] for line in found]


def states_of(output):
    counted = re.search(r"([\d.e+]+) states, stored", output)
    return f"{float(counted[1]):,.0f} states" if counted else "no states"


def search_all(name, configurations):
    """Searches every configuration, and checks that each line is reached in one of them."""
    every, reached = set(), set()
    for title, defines in configurations.items():
        try:
            with Model(name, defines + " -DCOVERAGE", "-O1", "-DSAFETY", "-DNOREDUCE") as model:
                output = model.search()
                faults = faults_of(output)
                tap.ok(not faults, f"{name}: {title}: {states_of(output)}", *faults, *model.trail())
                there, seen = model.lines(output)
                every |= there
                reached |= seen
        except Failed as failure:
            tap.ok(False, f"{name}: {title}", failure)
    # A failing assertion must not be reached, so its line does not count.
    missed = sorted(place for place in every - reached if "assert(false)" not in line_at(place))
    tap.ok(every and not missed, f"{name}: every line is reached ({len(every)})", *map(line_shown, missed))


def search_mistakes():
    for mistake, (name, defines) in MISTAKES.items():
        try:
            with Model(name, f"{defines} -D{mistake}", "-O0", "-DSAFETY", "-DNOREDUCE", "-DBFS") as model:
                output = model.search()
                found = re.search(r"^pan:1: assertion violated", output, re.M)
                tap.ok(found, f"{name}: {mistake} is found, in {len(model.trail())} events", states_of(output))
        except Failed as failure:
            tap.ok(False, f"{name}: {mistake}", failure)


def search_liveness():
    for title, (defines, good) in LIVENESS.items():
        try:
            with Model("protocol.pml", defines + " -DLIVENESS", "-O1", "-DNOREDUCE", "-DNFAIR=6") as model:
                # A mistake may also break an assertion, and sooner. -A ignores assertions.
                output = model.search("-a", "-f", *([] if good else ["-A"]))
                faults = faults_of(output)
                cycle = "acceptance cycle" in output
                tap.ok(not faults if good else cycle, f"protocol.pml: {title}: {states_of(output)}", *faults)
        except Failed as failure:
            tap.ok(False, f"protocol.pml: {title}", failure)


def show(words):
    name, _, defines = words.partition(" ")
    with Model(name, defines, "-O1", "-DSAFETY", "-DNOREDUCE", "-DBFS") as model:
        output = model.search()
        print(f"{states_of(output)}; {'; '.join(faults_of(output)) or 'no errors'}")
        print("\n".join(model.trail()))


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--show":
        show(sys.argv[2])
        return
    parts = {"protocol": lambda: search_all("protocol.pml", PROTOCOL),
             "window": lambda: search_all("window.pml", WINDOW),
             "mistakes": search_mistakes, "liveness": search_liveness}
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit("usage: test_model.py protocol|window|mistakes|liveness, or --show \"PML -D...\"")
    if not (shutil.which("spin") and shutil.which("gcc")):
        print("1..0 # SKIP spin and gcc are needed (./dev test installs them)")
        return
    parts[sys.argv[1]]()
    tap.done()


main()
