#!/usr/bin/python3
"""stand_in.py NAME [WORD...]: the command NAME of a document, as test_docs_commands.py runs it.

It runs farpage and farpage-memserver for real, and stands in for the commands that would change the machine: it does
what they do to farpage's daemons, and checks that each name in them exists. A wrong command ends with status 1 and a
line. A NAME without a function here is no command that documents may have.

FARPAGE and FARPAGE_MEMSERVER are the programs. DOCS_SOURCE is the tree. DOCS_ROOT has the documents' /etc, /sys and
/usr. DOCS_STATE has a file for each donor, and DOCS_DONORS names the donors' hosts. DOCS_PAGER and DOCS_DEVICES are 1
if this machine can do that.
"""
import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SOURCE, ROOT, STATE = (Path(os.environ["DOCS_" + name]) for name in ("SOURCE", "ROOT", "STATE"))
FARPAGE, MEMSERVER = os.environ["FARPAGE"], os.environ["FARPAGE_MEMSERVER"]
CONFIG = ROOT / "etc/farpage"
INI = CONFIG / "farpage-memserver.ini"
HOSTS = os.environ["DOCS_DONORS"].split()
MAY = {"pager": os.environ["DOCS_PAGER"] == "1", "devices": os.environ["DOCS_DEVICES"] == "1"}


def need(good, line):
    if not good:
        raise SystemExit(f"stand_in: {line}")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=False, **options)


def wait_until(condition, line):
    end = time.monotonic() + 10
    while not condition():
        need(time.monotonic() < end, line)
        time.sleep(0.01)


def words_in_tree(path):
    return set(re.findall(r"[\w.@-]+", (SOURCE / path).read_text(encoding="utf-8")))


# --- Donors --------------------------------------------------------------------------------------------------------


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def donor_pid(host):
    file = STATE / host
    pid = json.loads(file.read_text())["pid"] if file.exists() else 0
    return pid if pid and is_running(pid) else 0


def donor_start(host, options):
    """Starts a donor that outlives this process, in place of another one at this address."""
    donor_stop(host)
    output, log = STATE / f"{host}.out", STATE / f"{host}.log"
    with open(output, "w", encoding="utf-8") as out, open(log, "a", encoding="utf-8") as err:
        process = subprocess.Popen([MEMSERVER, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True)
    wait_until(lambda: process.poll() is not None or "listening" in output.read_text(), f"no donor listens at {host}")
    need(process.poll() is None, f"the donor does not start: {log.read_text()}")
    (STATE / host).write_text(json.dumps({"pid": process.pid, "options": [str(option) for option in options]}))


def donor_stop(host, number=signal.SIGTERM):
    pid = donor_pid(host)
    if pid:
        os.kill(pid, number)
        wait_until(lambda: not is_running(pid), f"the donor at {host} does not end")


def donor_restart(host):
    donor_start(host, json.loads((STATE / host).read_text())["options"])


def unit_file(host):
    """Writes the donor's file of settings for another host, as the documents tell its operator to do."""
    text = INI.read_text()
    first = re.search(r"listen = \w+://([\d.]+)", text)[1]
    file = STATE / f"{host}.ini"
    file.write_text(text.replace(first, host).replace("rack1", f"rack{host.rpartition('.')[2]}"))
    return file


def key_ensure(path):
    """Makes a key that a document names, but does not make. All such keys are the same."""
    if not Path(path).exists():
        if not (STATE / "key").exists():
            run(FARPAGE, "key", STATE / "key")
        shutil.copy(STATE / "key", path)


def donors_ensure(words):
    """Starts the donors that a command names and that nobody has started, with the key that the command names."""
    files = [CONFIG / "farpage.ini", CONFIG / "donors"] + [Path(word[1:]) for word in words if word.startswith("@")]
    text = " ".join(words) + " ".join(file.read_text() for file in files if file.is_file())
    keys = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--key"]
    for key in keys:
        key_ensure(key)
    for host in HOSTS:
        if host in text and not (STATE / host).exists():
            donor_start(host, ["--listen", f"tcp://{host}", "--donate", "1G"] +
                        [word for key in keys for word in ("--key", key)])


# --- farpage -------------------------------------------------------------------------------------------------------


def help_checks(verbs, words):
    """Checks that farpage has the verbs and the options."""
    text = run(FARPAGE, *verbs, "--help", stdout=subprocess.PIPE, text=True).stdout
    known = set(re.findall(r"^  --([a-z-]+)", text, re.MULTILINE))
    need(text.startswith(f"usage: farpage {' '.join(verbs)}"), f"farpage has no verb {' '.join(verbs)}")
    for word in words[:words.index("--")] if "--" in words else words:
        need(not word.startswith("--") or word[2:].partition("=")[0] in known, f"farpage {verbs} has no option {word}")
    return 0


def top(words):
    """Runs farpage top on a terminal, and quits it when it shows donors."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "vt100"
        os.execv(FARPAGE, ["farpage", "top", *words])
    shown = b""
    while b"DONORS" not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"q")
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass # the program has ended
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def without_repeats(words):
    """A donor that is named as rdma:// and tcp:// is one donor here."""
    kept = []
    for at in range(len(words)):
        pair = words[at:at + 2]
        if pair[0] == "--donor" and pair in [kept[i:i + 2] for i in range(len(kept))]:
            kept.append(None)
        elif kept and kept[-1] is None:
            kept.pop()
        else:
            kept.append(words[at])
    return kept


def device_make(verbs, words):
    """Makes a device by FUSE, in place of one of the same name."""
    name = words[words.index("--name") + 1] if "--name" in words else "swap"
    for remove in (("swap", "off"), ("disk", "detach")):
        if (Path(os.environ["FARPAGE_RUNTIME"]) / name).exists():
            run(FARPAGE, *remove, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return run(FARPAGE, *verbs, *words, "--frontend", "fuse", "--log", STATE / "device.log").returncode


def farpage(words):
    defaults = CONFIG / "farpage.ini"
    os.environ["FARPAGE_CONFIG"] = str(defaults) if defaults.exists() else ""
    words = without_repeats(words)
    verbs, rest = words[:1], words[1:]
    if verbs[0] in ("disk", "swap", "donors") and rest and re.fullmatch("[a-z]+", rest[0]):
        verbs, rest = words[:2], words[2:]
    if verbs != ["key"]:
        help_checks(verbs, rest)
        donors_ensure(words)
    if verbs == ["top"]:
        return top(rest)
    if (verbs[0] in ("run", "advise") and not MAY["pager"]) or (verbs[0] in ("disk", "swap") and not MAY["devices"]):
        return 0
    if verbs in (["disk", "attach"], ["swap", "on"]):
        return device_make(verbs, rest)
    if verbs in (["disk", "adopt"], ["swap", "squeeze"]):
        return 0 # not possible by FUSE; needs a control group of version 2 (cli_squeeze)
    if verbs == ["bench"]:
        rest += ["--seconds", "0.02", "--depths", "1,8", "--size", "16M"]
    status = run(FARPAGE, *verbs, *rest).returncode
    # Some findings are failures here, because the donor is this machine.
    return 0 if verbs == ["doctor"] and status == 1 else status


def farpage_memserver(words):
    uri = words[words.index("--listen") + 1]
    if "--key" in words:
        key_ensure(words[words.index("--key") + 1])
    donor_start(re.search(r"//([\d.]+)", uri)[1], words)
    return 0


# --- Units ---------------------------------------------------------------------------------------------------------


def memserver_unit(verb, words):
    for host in HOSTS:
        if verb in ("enable", "start", "restart"):
            donor_start(host, ["--config", unit_file(host), "--drain-file", STATE / f"{host}.drained"])
        elif verb in ("disable", "stop"):
            donor_stop(host)
        else:
            need(donor_pid(host), f"no donor runs at {host}")
        if verb == "reload":
            unit_signal(host, signal.SIGHUP, "reloaded")
        if verb == "kill":
            need("--signal=USR2" in words, "another signal than USR2")
            unit_signal(host, signal.SIGUSR2, "upgraded|took over")
    return 0


def unit_signal(host, number, said):
    """Sends a signal and waits for the donor's line about it."""
    unit_file(host)
    log = STATE / f"{host}.log"
    before = len(log.read_text())
    os.kill(donor_pid(host), number)
    wait_until(lambda: re.search(said, log.read_text()[before:]), f"the donor at {host} says nothing about {number}")
    need(" not " not in log.read_text()[before:], f"the donor at {host}: {log.read_text()[before:]}")


def device_unit(verb, kind, name):
    file = CONFIG / f"{kind}-{name}.ini"
    make = ["disk", "attach"] if kind == "blockdev" else ["swap", "on"]
    end = ["disk", "detach"] if kind == "blockdev" else ["swap", "off"]
    if verb in ("enable", "start"):
        need(file.exists(), f"{file} does not exist")
        return farpage([*make, "--name", name, "--config", str(file)])
    need(verb in ("disable", "stop", "status"), f"systemctl {verb} of a device")
    return 0 if verb == "status" else farpage([*end, name])


def systemctl(words):
    verb, *rest = [word for word in words if not word.startswith("--")]
    for unit in rest:
        if unit.endswith(".socket"): # cli_helper tests what it starts
            need((SOURCE / "config" / unit).exists(), f"there is no unit {unit}")
            continue
        base, at, instance = unit.partition("@")
        need((SOURCE / "config" / f"{base}{at}.service.in").exists(), f"there is no unit {unit}")
        status = device_unit(verb, base.partition("-")[2], instance) if at else memserver_unit(verb, words)
        if status:
            return status
    return 0


def journalctl(words):
    events = (SOURCE / "common/events.h").read_text()
    event = words[0].removeprefix("MESSAGE_ID=")
    unit = words[0] == "-u" and (SOURCE / f"config/{words[1]}.service.in").exists()
    need(words == ["-k"] or unit or (event != words[0] and event in events), f"journalctl {words}")
    return 0


# --- Commands that change a machine --------------------------------------------------------------------------------


def apt(words):
    known = words_in_tree("debian/control") | {"linux-image-6.12-amd64"}
    verb, *names = [word for word in words if not word.startswith("-")]
    need(verb in ("install", "purge", "upgrade"), f"apt {verb}")
    for name in names:
        package = name.rpartition("/")[2].partition("_")[0]
        need(package in known, f"debian/control has no package {package}")
    return 0


apt_get = apt


def accounts():
    return set().union(*(re.findall(r"^[ug] (\S+)", file.read_text(), re.MULTILINE)
                         for file in (SOURCE / "config").glob("*.sysusers")))


def chown(words):
    owner, *paths = [word for word in words if not word.startswith("-")]
    need(owner.partition(":")[0] in accounts(), f"there is no account {owner}")
    for path in paths:
        need(Path(path).exists() or (ROOT / path.lstrip("/")).exists(), f"{path} does not exist")
    return 0


def usermod(words):
    need(words[:2] == ["-a", "-G"] and words[2] in accounts(), f"there is no group {words[2]}")
    return 0


def ssh(words):
    host = words[0].partition("@")[2]
    need(host in HOSTS, f"{host} is no donor")
    return run("/bin/bash", "-c", " ".join(words[1:]), env={**os.environ, "DOCS_HOST": host}).returncode


def scp(words):
    *paths, target = [word for word in words if not word.startswith("-")]
    need(re.match(r"root@[\d.]+:", target), f"{target} is no place on another machine")
    for path in paths:
        need("*.deb" in path or Path(path).exists(), f"{path} does not exist")
    return 0


def shutdown(words):
    need(words[0] == "-r", "a machine is switched off")
    donor_restart(os.environ["DOCS_HOST"])
    return 0


def sudo(words):
    return run(*words).returncode


def dev(words):
    script = SOURCE / f"scripts/{words[0]}.sh"
    need(script.exists(), f"./dev has no verb {words[0]}")
    for word in words[1:]:
        need(word in (SOURCE / "dev").read_text() or word in script.read_text(), f"./dev {words[0]} has no {word}")
    return 0


def podman(words):
    """Runs `podman run --device DEVICE IMAGE COMMAND...` without a container."""
    need(words[:2] == ["run", "--device"], f"podman {words}")
    need(words[2] in (SOURCE / "pager/uffd.c").read_text(), f"farpage uses no device {words[2]}")
    return run(*words[4:]).returncode


def is_device(path):
    return not MAY["devices"] or stat.S_ISBLK(os.stat(path).st_mode)


def mkfs_ext4(words):
    need(is_device(words[-1]), f"{words[-1]} is no block device")
    program = "/usr/sbin/mkfs.ext4"
    return run(program, *words).returncode if MAY["devices"] and os.path.exists(program) else 0


def mount(words):
    need(words[:2] == ["-o", "discard"] and is_device(words[2]) and Path(words[3]).is_dir(), f"mount {words}")
    return 0


def sysctl(words):
    for word in words:
        need(Path("/proc/sys", word.partition("=")[0].replace(".", "/")).exists(), f"there is no setting {word}")
    return 0


def modprobe(words):
    text = "".join(file.read_text() for file in (SOURCE / "cli/doctor").glob("*.c"))
    need(all(word in text for word in words if word != "-a"), f"farpage uses no module {words}")
    return 0


def tool_help(tool, help_words, words):
    """Checks the words of a tool for networks against its own help."""
    if not os.path.exists(tool):
        return 0
    text = run(tool, *help_words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    for word in words:
        need(word in text, f"{tool} does not know {word}")
    return 0


def dcb(words):
    need(words[2:4] == ["dev", "eth1"], f"dcb {words}")
    return tool_help("/usr/sbin/dcb", [words[0], "help"], [words[0], words[1], words[4]])


def ip(words):
    need(words[:3] == ["link", "set", "eth1"], f"ip {words}")
    return tool_help("/usr/sbin/ip", ["link", "help"], ["set", words[3]])


def meson(words):
    need(words[:2] == ["install", "-C"] and (SOURCE / "meson.build").exists(), f"meson {words}")
    return 0


def systemd_sysusers(words):
    need(not words and accounts(), "farpage has no files for systemd-sysusers")
    return 0


def curl(words):
    with urllib.request.urlopen(words[-1], timeout=5) as answer:
        text = answer.read().decode()
    need("farpage_" in text, f"{words[-1]} serves no metrics")
    return 0


def main():
    name, words = sys.argv[1], sys.argv[2:]
    sys.exit(globals()[re.sub("[.-]", "_", name)](words))


if __name__ == "__main__":
    main()
