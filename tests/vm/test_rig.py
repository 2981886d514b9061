#!/usr/bin/python3
"""The rig itself: statuses, machines that die or take too long, and what is left when it is killed."""
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import rig  # noqa: E402
from tap import done, ok, shown  # noqa: E402

scratch = tempfile.TemporaryDirectory(prefix="farpage-test-rig.")
temporary = Path(scratch.name)
environment = {**os.environ, "TMPDIR": scratch.name}


def start(*words, program="vm.py", **options):
    return subprocess.Popen([sys.executable, "-B", HERE / program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **{"env": environment, **options})


def run(*words, **options):
    """Once more if the emulator has failed, by the same signs as for --hold."""
    for _ in range(2):
        process = start(*words, **options)
        process.stdout, process.stderr, _ = *process.communicate(timeout=120), None
        if process.returncode != rig.STATUS_DIED or not rig.emulator_failed(process.stderr):
            break
    return process


def rig_processes():
    """Those of QEMU that serve a machine of this test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"qemu-system" in words and scratch.name.encode() in words:
            found.append(path.parent.name)
    return found


def leaves_nothing(what):
    end = time.monotonic() + 5
    while (rig_processes() or list(temporary.iterdir())) and time.monotonic() < end:
        time.sleep(0.05)
    ok(not rig_processes(), f"{what}: no machine is left", rig_processes())
    ok(not list(temporary.iterdir()), f"{what}: no file is left", list(temporary.iterdir()))


def test_passes_through():
    run("true")  # an image, and a trial of KVM, unless there was one: that is told
    result = run("echo out; echo err >&2; exit 7")
    ok(result.returncode == 7, "the status is the command's", shown(result))
    ok(result.stdout == "out\n", "its output is standard output", shown(result))
    ok(result.stderr == "err\n", "its errors are standard error", shown(result))
    leaves_nothing("a command that ended")


def test_without_network():
    """apt neither knows anything nor fetches anything, as on a machine without lists and network."""
    tools = temporary / "tools"
    tools.mkdir()
    for name in ("apt-get", "apt-cache"):
        (tools / name).write_text(f"#!/bin/sh\n[ {name} = apt-cache ] || echo called >{tools}/called\nexit 100\n")
        (tools / name).chmod(0o755)
    apart = {**environment, "PATH": f"{tools}:{os.environ['PATH']}"}
    result = run("true", env=apart)
    ok(result.returncode == 0 and not (tools / "called").exists(), "a cached image needs no network", shown(result))
    result = run("true", env={**apart, "FARPAGE_VM_CACHE": str(temporary / "cache")})
    left = [path.name for path in (temporary / "cache").iterdir() if path.name != "lock"]
    ok(result.returncode == 125 and not left, "without any image: a failure, and nothing half made", shown(result), left)
    ok("apt knows no linux-image" in result.stderr, "which says why", shown(result))
    for path in (tools / "apt-get", tools / "apt-cache", tools / "called", temporary / "cache" / "lock"):
        path.unlink(missing_ok=True)
    tools.rmdir()
    (temporary / "cache").rmdir()


def test_deaths():
    result = run("echo before; echo c >/proc/sysrq-trigger; sleep 60")
    ok(result.returncode == 125 and "died" in result.stderr, "a panic is told as death", shown(result))
    ok("sysrq triggered crash" in result.stderr, "with the end of the console", shown(result))
    ok(result.stdout == "before\n", "and what came before it", shown(result))
    result = run("-t", "1", "sleep 100")
    ok(result.returncode == 124 and "not done after 1" in result.stderr, "so is a time limit", shown(result))
    result = run("-t", "20", "sleep 100")
    ok(": sleep" in result.stderr and "hrtimer_nanosleep" in result.stderr, "and where its processes stood", shown(result))
    leaves_nothing("a machine that died")
    begun = time.monotonic()
    result = run("-t", "100", "echo c >/proc/sysrq-trigger; sleep 200", "sleep 200", program="pair.py")
    ok(result.returncode == 125 and time.monotonic() - begun < 100 and "donor died" in result.stderr,
       "the other one of two panics: nobody waits for the time limit", shown(result))
    leaves_nothing("two, one of which died")


def test_emulator():
    flags = "vm: console| [   16.473792] RSP: 0018:ffa00000000ebc40 EFLAGS: {}\n"
    ok(not rig.emulator_failed(flags.format("00010246")), "a machine that dies with flags that there are has died by itself")
    ok(rig.emulator_failed(flags.format("0677c202")), "one with flags that there are not is the emulator's fault")
    ok(rig.emulator_failed("vm: console| [    1.5] Oops: int3: 0000 [#1]\n"), "so is a breakpoint of nobody's")
    result = run("-k", "tsc_early_khz=100000", "sleep 5; exit 3")
    ok(result.returncode == 3 and rig.clock_failed(result.stderr), "a clock that runs away is told", shown(result))
    result = run("-k", "tsc_early_khz=100000", "echo out")
    ok(result.returncode == 0 and result.stdout == "out\n", "but a machine that does well has done well", shown(result))
    result = run("--hold", "echo out; echo err >&2; exit 3")
    ok(result.returncode == 3 and result.stdout == "out\n" and "err" in result.stderr, "--hold passes all on", shown(result))
    ok(not rig.clock_failed(result.stderr), "its clock is ours", shown(result))


def test_interrupted():
    # Whoever starts this test in the background has it ignore SIGINT, and what it starts would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, group, status in ((signal.SIGINT, True, 130), (signal.SIGTERM, False, 143), (signal.SIGKILL, False, -9)):
        process = start("echo up; sleep 1000", start_new_session=True)
        came_up = process.stdout.readline() == "up\n" and len(rig_processes()) == 1
        (os.killpg if group else os.kill)(process.pid, number)
        process.communicate(timeout=30)
        ok(came_up and process.returncode == status, f"{number.name} ends the rig", process.returncode)
        leaves_nothing(number.name)


test_passes_through()
test_without_network()
test_deaths()
test_emulator()
test_interrupted()
scratch.cleanup()
done()
