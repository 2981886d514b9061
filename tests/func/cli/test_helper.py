#!/usr/bin/python3
"""test_helper.py: an ordinary user uses the swap engine through the helper, which refuses everything else."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import disks
from donor import Donor
from tap import FARPAGE, FOLDER, at_end, done, farpage, make_key, ok, refused, run, shown, skip_all, wait_until

MIB = 1 << 20
LOCAL = 24 * MIB
GROUPS = Path("/sys/fs/cgroup")
SOCKET = FOLDER / "helper/socket"
CONFIG = FOLDER / "farpage.ini"
REQUEST = struct.Struct("=IIQQ")
STATUSES = ("ok", "short", "other", "local", "swap", "full", "user devices", "user swap", "peer", "donors", "space")
USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
NOBODYS = ("setpriv", "--reuid=4294967000", "--regid=65534", "--clear-groups", "--inh-caps=-all")
STRANGER = ("setpriv", "--reuid=65534", "--regid=65533", "--clear-groups", "--inh-caps=-all")

# Fills argv[1] MiB, forks argv[2] times, and checks each page in each process. With argv[3], waits after filling.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	size_t size = strtoul(argv[1], NULL, 10) << 20, wrong = 0;
	unsigned char *memory = malloc(size);
	int status = 0;
	for (size_t at = 0; at < size; at += 4096)
		memset(memory + at, at / 4096 % 251, 4096);
	if (argc > 3) {
		puts("full");
		fflush(stdout);
		pause();
	}
	for (int i = atoi(argv[2]); i > 0 && fork(); i--)
		;
	for (size_t at = 0; at < size; at += 4096)
		wrong += memory[at] != at / 4096 % 251 || memory[at + 4095] != at / 4096 % 251;
	while (wait(&status) > 0)
		wrong += status != 0;
	printf("wrong %zu as %u\\n", wrong, (unsigned)getuid());
	return wrong != 0;
}
"""

# Connects the socket argv[1], sends the hexadecimal messages of argv[3:], and does what argv[2] says.
CLIENT = """
import ctypes, socket, struct, sys
client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
client.settimeout(30)
if sys.argv[2] == "traced":
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)
client.connect(sys.argv[1])
client.send(bytes.fromhex(sys.argv[3]))
if sys.argv[2] == "leave":
    sys.exit()
answer = client.recv(4096)
status, text = struct.unpack_from("=I", answer, 4)[0], answer[-256:].partition(bytes(1))[0].decode()
print(status, len(answer), text, flush=True)
if sys.argv[2] == "hold":
    sys.stdin.read()
if sys.argv[2] == "again":
    client.send(bytes.fromhex(sys.argv[3]))
    print(len(client.recv(1)))
"""


class Helper:
    """The helper's socket: accepts connections, and starts a helper for each, as systemd does."""

    def __init__(self):
        SOCKET.parent.mkdir()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(SOCKET))
        os.chown(SOCKET, 0, 65534)
        SOCKET.chmod(0o660)
        self.socket.listen()
        self.processes = []
        self.log = open(FOLDER / "helper.log", "a+", encoding="utf-8")
        threading.Thread(target=self.serve, daemon=True).start()
        at_end(self.end)

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            with connection:
                self.processes.append(subprocess.Popen([FARPAGE, "helper"], stdin=connection, stdout=subprocess.DEVNULL,
                                                       stderr=self.log, umask=0o077))

    def end(self):
        for process in self.processes:
            process.terminate()
            process.wait()

    def idle(self):
        """Waits until all helpers have ended. Returns true if they have."""
        return wait_until(lambda: all(process.poll() is not None for process in self.processes))

    def says(self):
        return (FOLDER / "helper.log").read_text(encoding="utf-8")


def configure(donor, key, *lines):
    CONFIG.write_text(f"[farpage]\ndonor = {donor.uri}\nkey = {key}\n[helper]\n" + "".join(line + "\n" for line in lines),
                      encoding="ascii")


def by_user(*words, user=USER, **more):
    return run(*user, FARPAGE, "run", "--local", LOCAL, *words, cwd="/", **more)


def begun(*words):
    return subprocess.Popen([*USER, FARPAGE, "run", "--local", str(LOCAL), *map(str, words)], cwd="/", text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def request(version=1, zero=0, local=LOCAL, swap=0):
    return REQUEST.pack(version, zero, local, swap)


def client(how, message, user=USER):
    return subprocess.Popen([*user, "/usr/bin/python3", "-c", CLIENT, SOCKET, how, message.hex()], cwd="/", text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def asked(message, how="ask", user=USER):
    """Sends a message as the user. Returns the name of the answer's status, and its text."""
    with client(how, message, user) as process:
        out, err = process.communicate(timeout=60)
    words = out.splitlines()[0].split(" ", 2) if out else ["-1", "0", err]
    return STATUSES[int(words[0])] if int(words[0]) >= 0 else "no answer", words[2]


def everything():
    """Returns all that helpers have made on this machine and that is still there."""
    return list(disks.swaps()) + disks.groups() + disks.left_over()


def nothing_left():
    return helper.idle() and wait_until(lambda: everything() == BEFORE)


def user_runs_a_forking_program(donor, program):
    stats = FOLDER / "user/stats"
    result = by_user("--engine", "swap", "--stats", stats, "--", program, "64", "2")
    ok(result.returncode == 0 and result.stdout == "wrong 0 as 65534\n" * 3,
       "a user's forking program is right under the swap engine, in three processes of that user", shown(result), helper.says())
    ok(re.search(r"^farpage: peak resident \S+ of 24M, far peak \S+, pages in \d+, out \d+,.* wall", result.stderr, re.M),
       "the summary has the figures of the user's run", shown(result))
    figures = json.loads(stats.read_text(encoding="ascii"))
    ok(0 < figures["resident_peak_bytes"] <= LOCAL and figures["far_peak_bytes"] >= 40 * MIB and figures["evicted_pages"] > 8000,
       "the user's processes share one budget, and their other memory is far", figures)
    ok(nothing_left(), "a user's run leaves nothing", everything(), helper.says())
    ok(donor.given_back("--key", key), "the donor has its memory back after a user's run")
    result = by_user("--", program, "48", "0")
    ok(result.returncode == 0 and "engine swap, because the pager cannot" in result.stderr and result.stdout == "wrong 0 as 65534\n",
       "auto chooses the swap engine for a user's static program", shown(result))
    ok("administrator's donors" in result.stderr, "a line says whose donors are used", shown(result))
    result = by_user("--engine", "swap", "--quiet", "--", "/bin/sh", "-c", "exit 7")
    ok(result.returncode == 7 and result.stderr == "" and nothing_left(), "a user's run has the status of its command", shown(result))


def command_alone_is_in_the_group():
    script = "cat /proc/self/cgroup; echo; cat /proc/$PPID/cgroup"
    result = by_user("--engine", "swap", "--quiet", "--", "/bin/sh", "-c", script)
    inside, _, outside = result.stdout.partition("\n\n")
    ok("/farpage-job-" in inside and "/farpage-job-" not in outside, "the command is in the control group, and farpage run is not",
       shown(result))
    beside = [line.split("/farpage-job-")[0] for line in inside.splitlines() if "/farpage-job-" in line]
    ok(beside and all(any(line.startswith(group) for line in outside.splitlines()) for group in beside),
       "the control group is below the user's own, whose limits go on to apply", shown(result))


def group_of_a_user_is_not_trusted():
    """A user who owns a control group could rename and remove groups in it. So the helper uses the nearest group of root's."""
    own = Path("/proc/self/cgroup").read_text(encoding="ascii")
    v1 = re.search(r"^\d+:(?:\w+,)*memory(?:,\w+)*:/(.*)$", own, re.M)
    owned = (GROUPS / "memory" / v1[1] if v1 else GROUPS / re.search("^0::/(.*)$", own, re.M)[1]) / "test-helper"
    owned.mkdir()
    os.chown(owned, 65534, 65534)
    command = [*USER, FARPAGE, "run", "--local", LOCAL, "--engine", "swap", "--quiet", "--", "cat", "/proc/self/cgroup"]
    result = run("sh", "-c", f'echo $$ >"{owned}/cgroup.procs" && exec "$@"', "sh", *command, cwd="/")
    ok("/farpage-job-" in result.stdout and "test-helper/farpage" not in result.stdout,
       "the control group is not made below a group that the user owns", shown(result), helper.says())
    ok(nothing_left(), "a run in a group of the user's leaves nothing", everything())
    owned.rmdir()


def status_shows_the_users_run(program):
    process = begun("--engine", "swap", "--quiet", "--", program, "64", "0", "hold")
    ok(process.stdout.readline() == "full\n", "a user's run holds its memory")

    def figures():
        result = run(*USER, FARPAGE, "status", "--json", cwd="/")
        return [one for one in json.loads(result.stdout)["runs"] if one["pid"] == process.pid]

    ok(wait_until(lambda: figures() and figures()[0]["far_bytes"] >= 32 * MIB) and 0 < figures()[0]["resident_bytes"] <= LOCAL,
       "farpage status of the user shows the user's run", figures())
    return process


def ends_are_cleaned_up(program):
    process = status_shows_the_users_run(program)
    process.kill()
    process.communicate()
    ok(nothing_left(), "a user's run that is killed leaves nothing", everything(), helper.says())
    for number, name in ((signal.SIGKILL, "killed"), (signal.SIGTERM, "ended")):
        process = begun("--engine", "swap", "--", program, "64", "0", "hold")
        ok(process.stdout.readline() == "full\n", f"a user's run holds its memory before the helper is {name}")
        helper.processes[-1].send_signal(number)
        _, err = process.communicate(timeout=60)
        ok(process.returncode == -signal.SIGKILL and nothing_left(), f"a helper that is {name} leaves nothing, and the command ends",
           process.returncode, err, everything())
        ok("the helper was ended, and the command with it" in err, f"a line of the run tells that the helper was {name}", err)
    for how, name in (("leave", "that leaves before the answer"), ("again", "that sends a second message")):
        with client(how, request(swap=16 * MIB)) as process:
            out, err = process.communicate(timeout=60)
        ok(process.returncode in (0, -signal.SIGKILL) and nothing_left(), f"a client {name} leaves nothing", out, err, everything())
    ok(process.returncode == -signal.SIGKILL and "second message" in helper.says(),
       "a second message ends the connection, and the processes in the group", process.returncode, out)
    with client("hold", request(swap=16 * MIB)) as process:
        ok(process.stdout.readline().startswith("0 "), "a client of its own gets a control group and a device")
        process.kill()
        process.communicate()
    ok(nothing_left(), "a client that is killed leaves nothing", everything())


def group_for_another_program():
    """Makes a control group with a limit below what PROGRAM will fill. Returns its folder, or None if that is impossible."""
    v1 = (GROUPS / "memory/memory.limit_in_bytes").exists()
    folder = GROUPS / ("memory/test-helper-other" if v1 else "test-helper-other")
    folder.mkdir()
    limit = folder / ("memory.limit_in_bytes" if v1 else "memory.max")
    if limit.exists():
        limit.write_text("16M", encoding="ascii")
        return folder
    folder.rmdir()
    return None


def device_with_pages_of_others_is_removed_later(program, number, name):
    if disks.swaps() or not (folder := group_for_another_program()):
        return
    process = begun("--engine", "swap", "--quiet", "--", program, "32", "0", "hold")
    ok(process.stdout.readline() == "full\n", "a user's run holds its memory before another program needs memory")
    command = ["sh", "-c", f'echo $$ >"{folder}/cgroup.procs" && exec {program} 64 0 hold']
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as other:
        ok(other.stdout.readline() == "full\n", "another program has pages on the device of the user's run")
        child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()[0]
        os.kill(int(child), signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        ok("pages of other programs" in err and "was ended" not in err,
           "farpage run ends with a line while other programs have pages on its device", err, helper.says())
        keeper = helper.processes[-1]
        ok(keeper.poll() is None and everything() != BEFORE, "the helper goes on while the device remains", everything())
        keeper.send_signal(number)
        ok(wait_until(lambda: keeper.poll() is not None) and everything() != BEFORE,
           f"{name} ends the helper while the device remains", everything())
        other.kill()
    ok(wait_until(lambda: everything() == BEFORE, 30), f"after {name} of the helper, the device is removed when the pages are gone",
       everything(), helper.says())
    folder.rmdir()


def bad_requests_are_refused():
    for name, message, status in (
            ("a short message", request()[:-1], "short"), ("a long message", request() + b"\0", "short"),
            ("a message of 60000 bytes", bytes(60000), "short"), ("version 0", request(version=0), "other"),
            ("version 2", request(version=2), "other"), ("a reserved field that is not zero", request(zero=1), "other"),
            ("no local memory", request(local=0), "local"), ("the largest number as local memory", request(local=2**64 - 1), "local"),
            ("a device of one byte", request(swap=1), "swap"), ("a device of the largest size", request(swap=2**64 - 1), "swap"),
            ("a device above the user's limit", request(swap=257 * MIB), "user swap")):
        answer = asked(message)
        ok(answer[0] == status and len(answer[1]) > 20, f"the helper refuses {name}", answer)
    ok(asked(request(swap=16 * MIB), "traced")[0] == "peer", "the helper refuses a process that is traced")
    if run(*USER, "unshare", "--user", "true", cwd="/").returncode == 0:
        answer = asked(request(swap=16 * MIB), user=(*USER, "unshare", "--user"))
        ok(answer[0] == "peer" and "namespace" in answer[1], "the helper refuses a process in a user namespace", answer)
    answer = asked(request(swap=16 * MIB), user=NOBODYS)
    ok(answer[0] == "peer" and "account" in answer[1], "the helper refuses a user id without an account", answer)
    ok(nothing_left(), "refused requests leave nothing", everything())
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(SOCKET))
    ok(wait_until(lambda: helper.processes[-1].poll() is not None, 8), "the helper ends the connection of a silent client")
    connection.close()


def limits_hold(donor, program):
    first = begun("--engine", "swap", "--far", "160M", "--quiet", "--", program, "32", "0", "hold")
    ok(first.stdout.readline() == "full\n", "the first of two runs starts")
    refused(by_user("--engine", "swap", "--far", "128M", "--quiet", "--", "/bin/true"), "a user's second run is refused for its size",
            "256M of swap space together", status=125)
    ok(asked(request())[0] == "ok", "a second device takes what is left to the user")
    configure(donor, key, "devices-per-user = 1")
    refused(by_user("--engine", "swap", "--quiet", "--", "/bin/true"), "a user's second run is refused for its number",
            "1 runs at a time", status=125)
    configure(donor, key, "devices = 1")
    refused(by_user("--engine", "swap", "--quiet", "--", "/bin/true"), "a run beyond the limit of all users is refused",
            "all swap space that the administrator allows", status=125)
    first.kill()
    first.communicate()
    ok(nothing_left(), "runs at their limits leave nothing", everything())
    result = by_user("--engine", "swap", "--quiet", "--", "/bin/true")
    ok(result.returncode == 0, "after the first run's end there is room for another", shown(result))
    helper.idle()


def runs_are_refused(donor):
    stranger = by_user("--engine", "swap", "--", "/bin/true", user=STRANGER)
    refused(stranger, "a user who is not in the group is refused", "needs root: use sudo, or ask for membership in the group farpage",
            status=125)
    with_encryption = by_user("--engine", "swap", "--encrypt", "--quiet", "--", "/bin/true")
    refused(with_encryption, "--encrypt is refused if the helper does not encrypt", "does not encrypt", status=125)
    configure(donor, key, "encrypt = yes")
    result = by_user("--engine", "swap", "--encrypt", "--quiet", "--", "/bin/true")
    ok(result.returncode == 0, "--encrypt is possible if the helper encrypts", shown(result))
    CONFIG.write_text(f"[farpage]\ndonor = tcp://127.0.0.1:1\nkey = {key}\n", encoding="ascii")
    refused(by_user("--engine", "swap", "--quiet", "--", "/bin/true"), "a user's run without donors is refused",
            "donors do not answer", status=125)
    result = by_user("--engine", "swap", "--quiet", "--", "/bin/true", env={**os.environ, "FARPAGE_HELPER": "/nowhere"})
    refused(result, "a user's run is refused without the socket", "farpage-helper.socket", status=125)
    refused(farpage("helper"), "the helper is refused without a connection", "standard input is no connection", status=1)
    refused(run(*USER, FARPAGE, "helper", cwd="/"), "the helper is refused without root", "root", status=1)
    ok(nothing_left(), "refused runs leave nothing", everything())


def lacking():
    if not any((GROUPS / path).exists() for path in ("memory/memory.limit_in_bytes", "cgroup.controllers")):
        return "no control groups with memory"
    if run(*USER, FARPAGE, "--version", cwd="/").returncode:
        return "a user other than root cannot reach the command"
    return None


disks.require()
if why := lacking():
    skip_all(why)
FOLDER.chmod(0o711)
os.environ.update(FARPAGE_HELPER=str(SOCKET.parent), FARPAGE_CONFIG=str(CONFIG))
(FOLDER / "user").mkdir()
os.chown(FOLDER / "user", 65534, 65534)
(FOLDER / "program.c").write_text(PROGRAM, encoding="ascii")
compiled = run(os.environ.get("CC", "cc"), "-O1", "-static", "-o", FOLDER / "program", FOLDER / "program.c")
if compiled.returncode:
    raise SystemExit(compiled.stderr)
(FOLDER / "program").chmod(0o755)
key = make_key()
lender = Donor("--donate", "512M", "--slab", "8M", "--key", key)
configure(lender, key, "swap-per-user = 256M")
BEFORE = everything()
helper = Helper()
user_runs_a_forking_program(lender, FOLDER / "program")
command_alone_is_in_the_group()
group_of_a_user_is_not_trusted()
ends_are_cleaned_up(FOLDER / "program")
device_with_pages_of_others_is_removed_later(FOLDER / "program", signal.SIGTERM, "SIGTERM")
device_with_pages_of_others_is_removed_later(FOLDER / "program", signal.SIGKILL, "SIGKILL")
bad_requests_are_refused()
limits_hold(lender, FOLDER / "program")
runs_are_refused(lender)
done()
