#!/usr/bin/python3
"""test_squeeze.py: farpage swap squeeze, with a group that is a folder of files. test_squeeze_group.py has a real one."""
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from disks import unshared
from tap import FARPAGE, FOLDER, done, farpage, ok, refused, run, shown, skip, wait_until

MIB = 1 << 20
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n/dev/far partition 1048576 0 -2\n"


class Group:
    """A folder with the files of a control group of version 2. memory.reclaim is a FIFO, from which a thread takes the
    orders and lowers memory.current as the kernel does."""

    def __init__(self, name, size=1024 * MIB, stalled_us=0):
        self.folder, self.orders, self.after = FOLDER / name, [], None
        self.folder.mkdir()
        self.put("cgroup.controllers", "memory\n")
        self.put("cgroup.procs", "")
        self.put("memory.current", f"{size}\n")
        self.put("memory.swap.current", "0\n")
        self.put("memory.swap.max", "max\n")
        self.put("memory.min", "0\n")
        self.put("memory.low", "0\n")
        self.put_pressure(stalled_us)
        os.mkfifo(self.folder / "memory.reclaim")
        # Opened for reading and writing, a FIFO has no end.
        self.fifo = os.open(self.folder / "memory.reclaim", os.O_RDWR)
        threading.Thread(target=self.serve, daemon=True).start()

    def put(self, name, text):
        """Replaces a file as a whole, because the command may be reading it."""
        (self.folder / "new").write_text(text, encoding="ascii")
        (self.folder / "new").rename(self.folder / name)

    def put_pressure(self, stalled_us):
        self.put("memory.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\n"
                                    "full avg10=0.00 avg60=0.00 avg300=0.00 total=99999999999\n")

    def number(self, name):
        return int((self.folder / name).read_text(encoding="ascii"))

    def holds(self, mib):
        """Waits until the thread has taken all orders. Returns true if the group then holds @mib."""
        return wait_until(lambda: self.number("memory.current") == mib * MIB, 3)

    def serve(self):
        while text := os.read(self.fifo, 4096):
            for order in map(int, text.split()):
                self.orders.append(order)
                self.put("memory.swap.current", f"{self.number('memory.swap.current') + order}\n")
                if self.after:
                    self.after()
                self.put("memory.current", f"{self.number('memory.current') - order}\n")


def squeeze(*words, swaps=SWAPS, swappiness="60"):
    """The command with a fake /proc/swaps, because this machine may have no swap space."""
    (FOLDER / "swaps").write_text(swaps, encoding="ascii")
    (FOLDER / "swappiness").write_text(f"{swappiness}\n", encoding="ascii")
    return ("unshare", "--mount", "sh", "-ec", f"mount --bind {FOLDER}/swaps /proc/swaps; "
            f'mount --bind {FOLDER}/swappiness /proc/sys/vm/swappiness; exec "$@"', "sh", FARPAGE, "swap", "squeeze", *map(str, words))


def bad_options_are_refused():
    refused(farpage("swap", "squeeze"), "squeeze is refused without a group", "which control group", status=2)
    refused(farpage("swap", "squeeze", "a", "b"), "squeeze is refused with two groups", '"b" is too many', status=2)
    for text in ("0", "0%", "x", "1%%", "-1", "101%", "0.00001", "%", ".", "1e3", ""):
        refused(farpage("swap", "squeeze", "a", f"--psi={text}"), f"squeeze refuses --psi '{text}'", "psi", status=2)
    refused(farpage("swap", "squeeze", "a", "--max-step=200%"), "squeeze refuses --max-step 200%", "--max-step 200%", status=2)
    refused(farpage("swap", "squeeze", "a", "--interval=0"), "squeeze refuses --interval 0", "interval", status=2)
    refused(farpage("swap", "squeeze", "a", "--intervall=1"), "squeeze suggests an option", "--interval?", status=2)
    refused(farpage("swap", "squeeze", "a", "--psi=1%", "--psi"), "squeeze refuses --psi without a value", "psi", status=2)


def groups_that_cannot_be_squeezed_are_refused():
    refused(farpage("swap", "squeeze", "no.such/group"), "squeeze refuses a group that does not exist", "no.such/group", status=1)
    refused(farpage("swap", "squeeze", "/proc/self/status"), "squeeze refuses a path that is no folder", "no control group", status=1)
    group = Group("bad")
    plain = FOLDER / "plain"
    plain.mkdir()
    refused(farpage("swap", "squeeze", plain), "squeeze refuses a folder that is no group", "is no control group", status=1)
    (plain / "cgroup.procs").touch()
    refused(farpage("swap", "squeeze", plain), "squeeze refuses a group of version 1", "version 1", status=1)
    for name, why in (("memory.pressure", "psi=1"), ("memory.reclaim", "5.19"), ("memory.current", "+memory")):
        away = FOLDER / "away"
        (group.folder / name).rename(away)
        refused(farpage("swap", "squeeze", group.folder), f"squeeze refuses a group without {name}", why, status=1)
        away.rename(group.folder / name)
    if os.geteuid() != 0:
        skip("squeeze refuses a machine without swap space", "the test must be root to mount over /proc/swaps")
        return
    refused(run(*squeeze(group.folder, swaps=SWAPS.splitlines()[0] + "\n")), "squeeze refuses a machine without swap space",
            "pages of files", "farpage swap on", status=1)
    refused(run(*squeeze(group.folder, swappiness="0")), "squeeze refuses vm.swappiness 0", "vm.swappiness", status=1)
    group.put("memory.swap.max", "0\n")
    refused(run(*squeeze(group.folder)), "squeeze refuses a group with memory.swap.max 0", "memory.swap.max", status=1)
    ok(group.orders == [], "a refused squeeze reclaims nothing", group.orders)


def one_step_takes_its_share():
    group = Group("once", 1000 * MIB)
    result = run(*squeeze(group.folder, "--interval=1", "--once", "--max-step", "5%"))
    ok(result.returncode == 0 and result.stderr == "" and result.stdout.count("\n") == 1 and
       re.match(rf"{group.folder}: from 1000M to .* in 1 step and \d+ s, mean pressure 0.000%", result.stdout),
       "one step of 5% prints a summary alone", shown(result))
    ok(group.holds(950) and group.orders == [32 * MIB, 18 * MIB], "a step is written to memory.reclaim in parts of 32M",
       group.orders)
    group.put("memory.low", f"{940 * MIB}\n")
    result = run(*squeeze("--interval=1", "--once", "--max-step=5%", "--quiet", group.folder))
    ok(result.returncode == 0 and result.stdout + result.stderr == "", "squeeze --quiet prints nothing", shown(result))
    ok(group.holds(940), "a step ends at memory.low", group.orders)
    run(*squeeze(group.folder, "--interval=1", "--once", "--max-step=5%"))
    ok(group.holds(940), "no step follows below memory.low", group.orders)
    for name in ("memory.low", "memory.min"):
        group.put("memory.low", "0\n")
        group.put(name, "max\n")
        result = run(*squeeze(group.folder, "--interval=1", "--once", "--max-step=5%"))
        ok(result.returncode == 0 and group.holds(940) and len(group.orders) == 3, f"{name} of max protects the whole group", shown(result),
           group.orders)
    group.put("memory.min", "0\n")
    run(*squeeze(group.folder, "--interval=1", "--once", "--max-step=5%", swaps=SWAPS.replace("1048576 0", "1048576 1047552")))
    ok(group.holds(939), "a step takes no more than the free swap space of 1M", group.orders)
    group.put("memory.swap.max", f"{group.number('memory.swap.current') + 2 * MIB}\n")
    run(*squeeze(group.folder, "--interval=1", "--once", "--max-step=5%"))
    ok(group.holds(937), "a step takes no more than memory.swap.max allows", group.orders)


def pressure_stops_the_steps():
    """Each order makes the group's tasks wait for 50 ms, which is 5% of an interval."""
    group = Group("pressed", stalled_us=1 << 40)
    stalls = iter(range(1, 1000))
    group.after = lambda: group.put_pressure((1 << 40) + 50000 * next(stalls))
    result = run(*squeeze(group.folder, "--interval=1", "--for=4", "--psi=1%", "--max-step=1%", "--json"))
    *steps, summary = [json.loads(line) for line in result.stdout.splitlines()]
    # An interval is longer than a second if the machine is busy.
    ok(result.returncode == 0 and 2 <= len(steps) <= 4 and "steps" in summary,
       "squeeze --for 4 --json prints up to four steps and a summary", shown(result))
    ok(steps[0]["reclaim_bytes"] > 0 and not any(step["reclaim_bytes"] for step in steps[1:]),
       "after a step with five times the target, no step follows until it is made up for", shown(result))
    ok(2 < steps[1]["pressure_percent"] < 6 and steps[0]["pressure_percent"] == 0 and 0.5 < summary["pressure_percent"] < 2,
       "the pressure is the time of waiting in each interval, and the mean in the summary", shown(result))
    ok(summary["from_bytes"] == 1024 * MIB and summary["bytes"] == group.number("memory.current") and not summary["gone"],
       "the summary has the sizes at the beginning and the end", shown(result))


def for_cuts_the_last_interval():
    group = Group("short")
    began = time.monotonic()
    result = run(*squeeze(group.folder, "--interval=30", "--for=2"))
    took = time.monotonic() - began
    ok(result.returncode == 0 and 2 <= took < 20 and re.search(r"in 1 step and \d s", result.stdout),
       "squeeze --for 2 ends after two seconds, although an interval has 30", shown(result), took)


def restarted_group_counts_anew():
    """A service is restarted: its new group has the same path, and counts from 0."""
    group = Group("restarted", stalled_us=1 << 40)

    def restart():
        group.after = None
        group.put_pressure(20000)
        group.put("memory.current", f"{512 * MIB}\n")
    group.after = restart
    result = run(*squeeze(group.folder, "--interval=1", "--for=5", "--psi=50%", "--max-step=1%", "--json"))
    *steps, summary = [json.loads(line) for line in result.stdout.splitlines()]
    ok(result.returncode == 0 and 3 <= len(steps) <= 5, "squeeze goes on with a restarted group", shown(result))
    ok(0.5 < steps[1]["pressure_percent"] < 3 and 0 < summary["pressure_percent"] < 1 and steps[2]["reclaim_bytes"] > 0,
       "what the restarted group has waited is counted from 0", shown(result))
    ok(400 * MIB < summary["from_bytes"] < 513 * MIB, "the summary begins with the size of the restarted group", shown(result))


def signals_end_it():
    group = Group("signal")
    for name in ("SIGINT", "SIGTERM"):
        with subprocess.Popen(squeeze(group.folder, "--interval=3600"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            wait_until(lambda: "SigBlk" in (text := Path(f"/proc/{process.pid}/status").read_text()) and
                       "farpage" in text and int(re.search(r"SigBlk:\s*(\w+)", text)[1], 16) & 1 << (signal.SIGINT - 1))
            process.send_signal(getattr(signal, name))
            text = process.communicate(timeout=20)
        ok(process.returncode == 0 and text[0].count("\n") == 1 and "in 0 steps" in text[0] and text[1] == "",
           f"{name} ends squeeze within an interval, with its summary", process.returncode, *text)
    ok(group.orders == [], "a squeeze that a signal ends in its first interval reclaims nothing", group.orders)


def group_that_ends_ends_it():
    group = Group("ends")
    with subprocess.Popen(squeeze(group.folder, "--interval=1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        wait_until(lambda: group.orders)
        group.folder.rename(FOLDER / "gone")
        text = process.communicate(timeout=20)
    ok(process.returncode == 0 and text[0].count("\n") == 1 and "the group has ended" in text[0] and text[1] == "",
       "squeeze ends with status 0 and one line when its group ends", process.returncode, *text)


def group_without_the_controller_is_an_error():
    """Somebody disables the memory controller of the group."""
    group = Group("disabled")
    with subprocess.Popen(squeeze(group.folder, "--interval=1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        wait_until(lambda: group.orders)
        (group.folder / "memory.pressure").rename(FOLDER / "pressure")
        text = process.communicate(timeout=20)
    ok(process.returncode == 1 and text[0] == "" and text[1].count("\n") == 1 and str(group.folder) in text[1],
       "squeeze fails with one line when its group loses the memory controller", process.returncode, *text)


def terminal_shows_each_step():
    group = Group("terminal", 1000 * MIB)
    terminal, other = pty.openpty()
    with subprocess.Popen(squeeze(group.folder, "--interval=1", "--once"), stdout=other, stderr=subprocess.PIPE) as process:
        process.wait(20)
    os.close(other)
    text = ""
    while text.count("\n") < 2:
        text += os.read(terminal, 4096).decode()
    os.close(terminal)
    ok("1000M in memory, 0 in swap, pressure 0.000%, reclaims 10M" in text,
       "squeeze shows each step on a terminal", text)


bad_options_are_refused()
groups_that_cannot_be_squeezed_are_refused()
if os.geteuid() == 0 and unshared("true").returncode == 0:
    one_step_takes_its_share()
    pressure_stops_the_steps()
    for_cuts_the_last_interval()
    restarted_group_counts_anew()
    signals_end_it()
    group_that_ends_ends_it()
    group_without_the_controller_is_an_error()
    terminal_shows_each_step()
else:
    skip("squeeze of a group of files", "the test must be root to mount over /proc/swaps")
done()
