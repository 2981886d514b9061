#!/usr/bin/python3
"""test_run_swap.py: any program under the swap engine, in one budget, with nothing left."""
import json
import os
import re
import resource
import shutil
import signal
from pathlib import Path

import disks
from donor import Donor
from tap import FARPAGE, FOLDER, at_end, done, farpage, ok, refused, run, shown, skip_all, start, wait_until

MIB = 1 << 20
LOCAL = 24 * MIB
GROUPS = Path("/sys/fs/cgroup")

# Fills argv[1] MiB with a pattern, and checks each page. argv[2] "three" does so in three processes at once. "fork" and "leave" continue in a child. "lock" first locks all the memory that the group has for 200 ms, so that a child finds none.
PROGRAM = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t wrong(const unsigned char *memory, size_t size)
{
	size_t wrong = 0;
	for (size_t at = 0; at < size; at += 4096)
		wrong += memory[at] != at / 4096 % 251 || memory[at + 4095] != at / 4096 % 251;
	return wrong;
}

/* The kernel evicts unlocked pages first. It ends a thread if it cannot bring back the thread's stack or TLS. */
static void lock_present(void *but, size_t size)
{
	mlockall(MCL_CURRENT | MCL_ONFAULT);
	munlock(but, size);
}

static int lock_all(void *but, size_t size)
{
	size_t most = 64 << 20, step = 128 << 10, locked = 0;
	int status = 0;
	char *memory;
	pid_t child = fork();
	lock_present(but, size);
	if (!child)
		return raise(SIGSTOP);
	waitpid(child, &status, WUNTRACED);
	memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	while (locked < most && mlock(memory + locked, step) == 0)
		locked += step;
	kill(child, SIGCONT);
	usleep(200000);
	munmap(memory, most);
	munlockall();
	wait(&status);
	printf("locked %zu status %d\\n", locked, status);
	exit(status != 0);
}

int main(int argc, char **argv)
{
	size_t size = strtoul(argv[1], NULL, 10) << 20;
	const char *how = argc > 2 ? argv[2] : "";
	unsigned char *memory = malloc(size);
	int status = 0;
	if (!strcmp(how, "lock") && lock_all(memory, size))
		return 2;
	if (!strcmp(how, "three"))
		for (int i = 0; i < 2 && fork(); i++)
			;
	for (size_t at = 0; at < size; at += 4096)
		memset(memory + at, at / 4096 % 251, 4096);
	if (!strcmp(how, "leave") && fork())
		return 0;
	if (!strcmp(how, "leave"))
		usleep(300000);
	if (!strcmp(how, "fork"))
		fork();
	if (!strcmp(how, "hold")) {
		puts("full");
		fflush(stdout);
		pause();
	}
	size_t bad = wrong(memory, size);
	while (wait(&status) > 0)
		bad += status != 0;
	printf("wrong %zu\\n", bad);
	return bad != 0;
}
"""


def compiled(name, *options):
    (FOLDER / "program.c").write_text(PROGRAM, encoding="ascii")
    path = FOLDER / name
    result = run(os.environ.get("CC", "cc"), "-O1", *options, "-o", path, FOLDER / "program.c")
    if result.returncode:
        raise SystemExit(result.stderr)
    return path


def swaps():
    return list(disks.swaps())


def everything():
    """Returns all that runs have made on this machine and that is still there."""
    return swaps() + disks.groups() + [str(path) for path in Path("/sys/block").glob("ublkb*")] + disks.left_over()


BEFORE = []


def nothing_left():
    return wait_until(lambda: everything() == BEFORE)


def swapped(donor, *command, local=LOCAL, options=(), **more):
    return farpage("run", "--local", str(local), "--donor", donor.uri, *options, "--", *command, **more)


def begun(donor, *command, options=()):
    return start("run", "--local", LOCAL, "--donor", donor.uri, *options, "--", *command)


def static_program_runs_on_swap(donor, program):
    stats = FOLDER / "stats"
    result = swapped(donor, program, "96", options=("--stats", stats))
    ok(result.returncode == 0 and result.stdout == "wrong 0\n",
       "a static program reads every page right under the swap engine", shown(result))
    lines = result.stderr.splitlines()
    ok(len(lines) == 2 and "engine swap, because the pager cannot" in lines[0] and "statically linked" in lines[0],
       "one line says why the swap engine was chosen", shown(result))
    ok(re.search(r"^farpage: peak resident \S+ of 24M, far peak \S+, pages in \d+, out \d+,.* wall", lines[-1]),
       "the last line has the run's figures", shown(result))
    figures = json.loads(stats.read_text(encoding="ascii"))
    ok(figures["engine"] == "swap" and 0 < figures["resident_peak_bytes"] <= LOCAL, "a static program stays within its budget", figures)
    ok(figures["far_peak_bytes"] >= 60 * MIB and figures["fetched_pages"] > 10000 and figures["evicted_pages"] > 10000,
       "most memory of a static program goes far and comes back", figures)
    ok(figures["processes_killed"] == 0, "no process of a static program is killed for want of memory", figures)
    stats.unlink()
    ok(nothing_left(), "a run leaves no device, swap space or control group", everything())
    ok(donor.given_back(), "the donor has its memory back after a run")


def processes_share_one_budget(donor, program):
    stats = FOLDER / "stats"
    result = swapped(donor, program, "48", "three", options=("--engine", "swap", "--quiet", "--stats", stats))
    ok(result.returncode == 0 and result.stdout.count("wrong 0\n") == 3 and result.stderr == "",
       "three processes read every page right, and --quiet prints nothing", shown(result))
    figures = json.loads(stats.read_text(encoding="ascii"))
    ok(figures["resident_peak_bytes"] <= LOCAL and figures["far_peak_bytes"] >= 90 * MIB, "three processes share one budget", figures)
    stats.unlink()
    result = swapped(donor, program, "80", "fork", local=2 * LOCAL, options=("--engine", "swap"))
    ok(result.returncode == 0 and result.stdout == "wrong 0\nwrong 0\n",
       "a forked child that goes on reads every page right", shown(result))
    result = swapped(donor, program, "64", "leave", options=("--engine", "swap"))
    ok(result.returncode == 0 and result.stdout == "wrong 0\n", "a run waits for a child that outlives the command",
       shown(result))
    ok("1 process of it lives on, and farpage run with it" in result.stderr, "a line tells of the child that outlives the command", shown(result))
    ok(nothing_left(), "runs with several processes leave nothing", everything())


def ends_of_the_command_are_passed_on(donor, program):
    ok(swapped(donor, "/bin/sh", "-c", "exit 7", options=("--engine", "swap")).returncode == 7,
       "run has the command's exit status")
    ok(swapped(donor, "/bin/sh", "-c", "kill -KILL $$", options=("--engine", "swap")).returncode == -signal.SIGKILL,
       "run ends with the signal that ended its command")
    for number, victim in ((signal.SIGTERM, "farpage run passes SIGTERM on"), (signal.SIGKILL, "farpage run is killed")):
        process = begun(donor, program, "64", "hold", options=("--quiet",))
        ok(process.stdout.readline() == "full\n" and set(swaps()) - set(BEFORE),
           f"{victim}: the run has swap space before the signal")
        live = [one for one in json.loads(farpage("status", "--json").stdout)["runs"] if one["pid"] == process.pid]
        ok(live and live[0]["engine"] == "swap" and 0 < live[0]["resident_bytes"] <= LOCAL and live[0]["far_bytes"] >= 40 * MIB,
           f"{victim}: farpage status shows the run before the signal", live)
        process.send_signal(number)
        process.wait()
        ok(process.returncode == -number, f"{victim}: farpage run ends with the signal", process.returncode)
        # The guard process also has the pipe, so the pipe ends after the guard.
        ok(process.stdout.read() == "" and nothing_left(), f"{victim}: the run leaves nothing", everything())
        process.stdout.close()
    ok(donor.given_back(), "the donor has its memory back after both signals")


def signal_ends_a_process_that_lives_on(donor):
    """A process of the command lives on for ever. A signal ends it."""
    process = begun(donor, "/bin/sh", "-c", "sleep 1000 & exit 3", options=("--engine", "swap"))
    line = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.wait()
    ok("lives on" in line and process.returncode == 3, "SIGTERM ends a process that outlives the command", line)
    process.stderr.close()
    ok(nothing_left(), "a process that outlived the command leaves nothing", everything())


def two_runs_share_the_machine(donor, program):
    """The kernel spreads the pages of both runs over both swap spaces."""
    first = begun(donor, program, "96", "hold", options=("--quiet",))
    ok(first.stdout.readline() == "full\n", "the first of two runs holds its memory")
    result = swapped(donor, program, "96", options=("--quiet",))
    ok(result.returncode == 0 and result.stdout == "wrong 0\n" and result.stderr == "",
       "a second run reads every page right beside the first", shown(result))
    ok(wait_until(lambda: len(set(swaps()) - set(BEFORE)) == 1), "the second run leaves only the first one's swap space",
       swaps())
    first.terminate()
    first.wait()
    first.stdout.close()
    ok(nothing_left(), "two runs at once leave nothing", everything())


def on_device(*command, options=()):
    return ["run", "--local", LOCAL, "--swap", "shared", *options, "--", *command]


def runs_share_a_device_of_swap_on(donor, program):
    """Runs share a device that existed before them, and do not remove it."""
    made = farpage("swap", "on", "--name", "shared", "--size", "256M", "--donor", donor.uri, "--keep-vm-settings", "--priority", "32767")
    if made.returncode:
        raise SystemExit(made.stderr)
    area = set(swaps()) - set(BEFORE)
    first = start(*on_device(program, "64", "hold", options=("--quiet",)))
    ok(first.stdout.readline() == "full\n", "a run holds its memory on a device of swap on")
    result = farpage(*on_device(program, "64"))
    ok(result.returncode == 0 and result.stdout == "wrong 0\n",
       "a second run on the same device reads every page right", shown(result))
    ok(re.search(r"pages in [1-9]\d{3,}, out [1-9]\d{3,}", result.stderr), "the second run swaps to that device",
       shown(result))
    result = farpage(*on_device(program, "256"))
    ok(result.returncode == -signal.SIGKILL and ", 1 process killed for want of memory" in result.stderr,
       "a run larger than the device's room is killed, and a line says why", shown(result))
    ok(set(swaps()) - set(BEFORE) == area, "the device of swap on outlives a run that was killed for want of memory",
       swaps())
    first.kill()
    first.wait()
    ok(first.stdout.read() == "" and wait_until(lambda: not disks.groups()) and set(swaps()) - set(BEFORE) == area,
       "a run that is killed leaves the device, and no control group", everything())
    first.stdout.close()
    base = ("--local", str(LOCAL), "--swap", "shared")
    run_refused("run --encrypt refuses a device that does not encrypt", 125, "it does not encrypt", *base, "--encrypt")
    run_refused("run --replicas 2 refuses a device with fewer replicas", 125, "fewer replicas", *base, "--replicas", "2")
    run_refused("run --far refuses a device with less room", 125, "less room than --far", *base, "--far", "300M")
    small = start(*on_device(program, "8", "hold"))
    ok(small.stdout.readline() == "full\n", "a run that fits into its budget starts on the device")
    off = farpage("swap", "off", "shared")
    ok(off.returncode == 0 and not set(swaps()) - set(BEFORE), "swap off removes the device under that run", shown(off))
    ok("swap space no more" in small.stderr.readline(), "a line of the run tells that the device is gone")
    small.terminate()
    _, last = small.communicate()
    ok("pages in 0, out 0" in last and nothing_left(),
       "a run without its device ends without swapped pages and leaves nothing", last, everything())
    run_refused("run --swap refuses a device that does not exist", 125, "there is no such swap space", "--local",
            str(LOCAL), "--swap", "shared")
    run_refused("run --swap is refused with --engine pager", 125, "is for --engine swap", "--local", str(LOCAL), "--swap",
            "shared", "--engine", "pager")


BELOW = """
path=$(sed -n 's/^[0-9]*:memory:/memory/p; s/^0:://p' /proc/self/cgroup | head -n 1)
mkdir "/sys/fs/cgroup/$path/below"
sleep 1000 &
echo $! >"/sys/fs/cgroup/$path/below/cgroup.procs"
"""


def groups_of_the_command_are_removed(donor):
    process = begun(donor, "/bin/sh", "-ec", BELOW, options=("--engine", "swap"))
    line = process.stderr.readline()
    ok("1 process of it lives on" in line, "a run waits for a process in a control group that its command made", line)
    process.terminate()
    process.wait()
    rest = process.stderr.read()
    process.stderr.close()
    ok(process.returncode == 0 and rest.count("\n") == 1 and nothing_left(),
       "SIGTERM ends a process in the command's own group, and run removes the groups", rest, everything())


def daemon_has_its_own_descriptor_limit(donor, program):
    few = (20, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    result = swapped(donor, program, "48", options=("--quiet",), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))
    ok(result.returncode == 0 and result.stdout == "wrong 0\n" and result.stderr == "" and nothing_left(),
       "the device's daemon has enough descriptors although the command has few", shown(result))


def run_works_where_sigchld_is_ignored(donor):
    """Some callers ignore SIGCHLD, and programs inherit that."""
    result = swapped(donor, "/bin/true", options=("--engine", "swap", "--quiet"),
                     preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    ok(result.returncode == 0 and result.stderr == "" and nothing_left(), "a run works where SIGCHLD is ignored", shown(result),
       everything())


def want_of_memory_is_told(program):
    small = Donor("--donate", "32M", "--slab", "8M")
    stats = FOLDER / "stats"
    result = swapped(small, program, "200", options=("--stats", stats))
    ok(result.returncode == -signal.SIGKILL and ", 1 process killed for want of memory" in result.stderr,
       "a program larger than budget and donors is killed, and a line says why", shown(result))
    ok(json.loads(stats.read_text(encoding="ascii"))["processes_killed"] == 1, "--stats counts the killed process")
    stats.unlink()
    result = swapped(small, program, "200", options=("--strict",))
    ok(result.returncode == 125, "--strict gives status 125 when a process was killed for want of memory",
       shown(result))
    result = swapped(small, "/bin/true", options=("--engine", "swap", "--far", "64M"))
    ok(result.returncode == 125 and result.stderr.count("\n") == 1 and "--far 64M" in result.stderr,
       "run --far refuses donors with less room", shown(result))
    ok(nothing_left(), "runs that were short of memory leave nothing", everything())


def short_want_of_memory_is_survived(donor, program):
    """In control groups of version 1 a program that finds no memory tries again until it gets some."""
    if not (GROUPS / "memory/memory.oom_control").exists():
        return
    result = swapped(donor, program, "48", "lock", options=("--engine", "swap"))
    ok(result.returncode == 0 and "status 0" in result.stdout and "killed" not in result.stderr,
       "a program that finds no memory for a moment goes on", shown(result))
    ok(re.search(r"^wrong 0$", result.stdout, re.M),
       "a program that found no memory for a moment reads every page right", shown(result))


def run_refused(name, status, mentioned, *options, command=("/bin/true",), **more):
    refused(farpage("run", *options, "--", *command, **more), name, mentioned, status=status)


def bad_runs_are_refused(donor, program):
    base = ("--local", str(LOCAL), "--donor", donor.uri)
    run_refused("run refuses an unknown engine", 125, "give pager, swap, or auto", *base, "--engine", "swop")
    run_refused("run --engine swap refuses a budget of 1M", 125, "the least that works is 4M", "--local", "1M", "--donor",
            donor.uri, "--engine", "swap")
    run_refused("run --engine swap refuses --timeout-ms 50", 125, "--timeout-ms 50", *base, "--engine", "swap",
            "--timeout-ms", "50")
    run_refused("run --engine swap refuses --far 64K", 125, "--far", *base, "--engine", "swap", "--far", "64K")
    run_refused("run refuses a missing program", 127, "no such program", *base, "--engine", "swap",
            command=("farpage-no-such",))
    run_refused("run refuses a missing file", 127, "/nowhere/program", *base, "--engine", "swap",
            command=("/nowhere/program",))
    run_refused("run refuses a text file that is no script", 126, "neither a program nor a script", *base, "--engine",
            "swap", command=(FOLDER / "text",))
    run_refused("run --engine pager refuses a static program", 126, "statically linked", *base, "--engine", "pager",
            command=(program, "1"))
    unprivileged = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    run_refused("run --engine swap is refused without root", 125, "--engine swap needs root", *base, "--engine", "swap",
            **unprivileged)
    run_refused("run of a static program is refused without root", 126, "--engine swap would need root", *base,
            command=(program, "1"), **unprivileged)
    result = disks.unshared(f"mount -t tmpfs -o ro none {disks.RUNTIME}", FARPAGE, "run", *base, "--engine", "swap",
                            "--", "/bin/true")
    ok(result.returncode == 125 and result.stderr.startswith("farpage-blockdev: cannot make ") and
       result.stderr.count("\n") == 1, "the lines of a device that cannot start have no time", shown(result))
    ok(nothing_left(), "refused runs leave nothing", everything())


def lacking():
    """Returns what the engine lacks on this machine, or None. The engine itself loads ublk."""
    if os.geteuid() != 0:
        return "swap space needs root"
    if not any((GROUPS / path).exists() for path in ("memory/memory.limit_in_bytes", "cgroup.controllers")):
        return "no control groups with memory"
    if os.access("/dev/fuse", os.W_OK) and os.access("/dev/loop-control", os.W_OK):
        return None
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin")
    return None if modprobe and run(modprobe, "-n", "-q", "ublk_drv").returncode == 0 else "neither FUSE nor ublk"


why = lacking()
if why:
    skip_all(why)
at_end(disks.clean)
lender = Donor("--donate", "512M", "--slab", "8M")
static = compiled("static", "-static")
(FOLDER / "text").write_text("no program\n", encoding="ascii")
os.chmod(FOLDER / "text", 0o755)
BEFORE.extend(everything())
static_program_runs_on_swap(lender, static)
processes_share_one_budget(lender, compiled("dynamic"))
ends_of_the_command_are_passed_on(lender, static)
signal_ends_a_process_that_lives_on(lender)
two_runs_share_the_machine(lender, static)
runs_share_a_device_of_swap_on(lender, static)
groups_of_the_command_are_removed(lender)
daemon_has_its_own_descriptor_limit(lender, static)
run_works_where_sigchld_is_ignored(lender)
want_of_memory_is_told(static)
short_want_of_memory_is_survived(lender, static)
os.chmod(FOLDER, 0o755)
bad_runs_are_refused(lender, static)
done()
