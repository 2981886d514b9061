#!/usr/bin/python3
"""Tests of the rig: statuses, machines that die or take too long, and remains of a rig that is killed."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import emulator  # noqa: E402
import rig  # noqa: E402
from tap import FOLDER, done, ok, shown  # noqa: E402

environment = {**os.environ, "TMPDIR": str(FOLDER)}


def start(*words, program="vm.py", **options):
    return subprocess.Popen([sys.executable, "-B", HERE / program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **{"env": environment, **options})


def run(*words, **options):
    """Runs a rig, once more if the emulator has failed by the signs that --hold knows."""
    for _ in range(2):
        process = start(*words, **options)
        process.stdout, process.stderr, _ = *process.communicate(timeout=120), None
        if process.returncode != rig.STATUS_DIED or not emulator.failed(process.stderr):
            break
    return process


def rig_processes():
    """Returns the processes of QEMU that run a machine of this test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"qemu-system" in words and str(FOLDER).encode() in words:
            found.append(path.parent.name)
    return found


def leaves_nothing(what):
    end = time.monotonic() + 5
    while (rig_processes() or list(FOLDER.iterdir())) and time.monotonic() < end:
        time.sleep(0.05)
    ok(not rig_processes(), f"{what}: the rig leaves no machine", rig_processes())
    ok(not list(FOLDER.iterdir()), f"{what}: the rig leaves no file", list(FOLDER.iterdir()))


def command_status_and_output_pass_through():
    run("true")  # makes an image and tries KVM, if that has not been done; both print lines
    result = run("echo out; echo err >&2; exit 7")
    ok(result.returncode == 7, "vm.py exits with the status of the command", shown(result))
    ok(result.stdout == "out\n", "vm.py passes the standard output of the command on", shown(result))
    ok(result.stderr == "err\n", "vm.py passes the standard error of the command on", shown(result))
    leaves_nothing("a command ends")


def cached_image_needs_no_network():
    """apt fails, as on a machine without lists and network."""
    tools = FOLDER / "tools"
    tools.mkdir()
    for name in ("apt-get", "apt-cache"):
        (tools / name).write_text(f"#!/bin/sh\n[ {name} = apt-cache ] || echo called >{tools}/called\nexit 100\n")
        (tools / name).chmod(0o755)
    apart = {**environment, "PATH": f"{tools}:{os.environ['PATH']}"}
    result = run("true", env=apart)
    ok(result.returncode == 0 and not (tools / "called").exists(),
       "a machine boots from a cached image without network", shown(result))
    result = run("true", env={**apart, "FARPAGE_VM_CACHE": str(FOLDER / "cache")})
    left = [path.name for path in (FOLDER / "cache").iterdir() if path.name != "lock"]
    ok(result.returncode == 125 and not left,
       "vm.py without image and network exits with status 125 and leaves no partial image", shown(result), left)
    ok("apt knows no linux-image" in result.stderr, "vm.py without image and network says why it fails", shown(result))
    for path in (tools / "apt-get", tools / "apt-cache", tools / "called", FOLDER / "cache" / "lock"):
        path.unlink(missing_ok=True)
    tools.rmdir()
    (FOLDER / "cache").rmdir()


def deaths_and_time_limits_are_reported():
    result = run("echo before; echo c >/proc/sysrq-trigger; sleep 60")
    ok(result.returncode == 125 and "died" in result.stderr,
       "vm.py exits with status 125 when the machine panics, and says that it died", shown(result))
    ok("sysrq triggered crash" in result.stderr,
       "vm.py shows the end of the console when the machine panics", shown(result))
    ok(result.stdout == "before\n", "vm.py passes the output before a panic on", shown(result))
    result = run("-t", "1", "sleep 100")
    ok(result.returncode == 124 and "not done after 1" in result.stderr,
       "vm.py exits with status 124 at its time limit, and says so", shown(result))
    result = run("-t", "20", "sleep 100")
    ok(": sleep" in result.stderr and "hrtimer_nanosleep" in result.stderr,
       "vm.py shows the kernel stacks of processes at its time limit", shown(result))
    leaves_nothing("a machine dies")
    begun = time.monotonic()
    result = run("-t", "100", "echo c >/proc/sysrq-trigger; sleep 200", "sleep 200", program="pair.py")
    ok(result.returncode == 125 and time.monotonic() - begun < 100 and "donor died" in result.stderr,
       "pair.py exits with status 125 before its time limit when the donor machine panics", shown(result))
    leaves_nothing("one of two machines dies")


def failures_of_the_emulator_are_recognized():
    flags = "vm: console| [   16.473792] RSP: 0018:ffa00000000ebc40 EFLAGS: {}\n"
    ok(not emulator.failed(flags.format("00010246")), "a panic with valid EFLAGS is not the emulator's fault")
    ok(emulator.failed(flags.format("0677c202")),
       "a panic with bits in EFLAGS that do not exist is the emulator's fault")
    ok(emulator.failed("vm: console| [    1.5] Oops: int3: 0000 [#1]\n"),
       "a panic at an unknown breakpoint is the emulator's fault")
    result = run("-k", "tsc_early_khz=100000", "sleep 5; exit 3")
    ok(result.returncode == 3 and rig.clock_failed(result.stderr),
       "the rig reports a machine's clock that runs ahead", shown(result))
    result = run("-k", "tsc_early_khz=100000", "echo out")
    ok(result.returncode == 0 and result.stdout == "out\n",
       "a command that ends well has status 0 although the clock runs ahead", shown(result))
    result = run("--hold", "echo out; echo err >&2; exit 3")
    ok(result.returncode == 3 and result.stdout == "out\n" and "err" in result.stderr,
       "vm.py --hold passes status, output and errors on", shown(result))
    ok(not rig.clock_failed(result.stderr),
       "the rig reports no clock that runs ahead in an ordinary machine", shown(result))


def signals_end_the_rig():
    # A test started in the background ignores SIGINT, and so would its children. This restores the default.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, group, status in ((signal.SIGINT, True, 130), (signal.SIGTERM, False, 143), (signal.SIGKILL, False, -9)):
        process = start("echo up; sleep 1000", start_new_session=True)
        came_up = process.stdout.readline() == "up\n" and len(rig_processes()) == 1
        (os.killpg if group else os.kill)(process.pid, number)
        process.communicate(timeout=30)
        ok(came_up and process.returncode == status, f"{number.name} ends the rig with its status", process.returncode)
        leaves_nothing(number.name)


command_status_and_output_pass_through()
cached_image_needs_no_network()
deaths_and_time_limits_are_reported()
failures_of_the_emulator_are_recognized()
signals_end_the_rig()
done()
