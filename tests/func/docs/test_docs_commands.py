#!/usr/bin/python3
"""test_docs_commands.py SOURCE BUILD: the documents are right: each command in them runs, and each name in them exists.

Commands run one after the other in bash, with addresses on loopback, smaller sizes, and files below a temporary folder.
PATH has only the commands of PLAIN and STOOD_IN, so any other command fails. stand_in.py has the commands of STOOD_IN:
it runs farpage's programs, and checks those that need another machine, root's rights on this one, or RDMA.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import disks
from documents import KINDS, Document
from donor import Donor
from tap import FOLDER, at_end, done, farpage, make_key, ok, options_of, run, skip, verbs_of, wait_until

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
HERE = Path(__file__).parent
DOCUMENTS = [Document(SOURCE / name) for name in
             ("README.md", "docs/guide.md", "docs/operations.md", "docs/library.md", "docs/faq.md")]
PLAIN = ("cat", "cc", "as", "ld", "mkdir", "pkg-config", "rm", "seq")
STOOD_IN = ("apt", "apt-get", "chown", "curl", "dcb", "farpage", "farpage-memserver", "ip", "journalctl", "meson",
            "mkfs.ext4", "modprobe", "mount", "podman", "scp", "shutdown", "ssh", "sudo", "sysctl", "systemctl",
            "systemd-sysusers", "usermod")
PROGRAMS = {"farpage-memserver": os.environ["FARPAGE_MEMSERVER"],
            "farpage-blockdev": BUILD / "blockdev/farpage-blockdev"}
# A job with 40 MiB that reads its memory at random.
JOB = """#!/usr/bin/python3
import random
memory = bytearray(range(256)) * (160 << 10)
for _ in range(8000):
    at = random.randrange(len(memory))
    assert memory[at] == at % 256
"""
NET = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}."
NO_PAGER = "no right to use userfaultfd, or no UFFDIO_MOVE"
TIMEOUT = 50 # seconds for the commands of one document
DONORS = [NET + str(number) for number in (7, 8, 9)]


# --- Commands ---------------------------------------------------------------------------------------------------------


def adapt(command, root):
    """Returns the command with loopback's addresses, smaller sizes, and files below @root."""
    command = command.replace("10.0.0.", NET).replace("rdma://", "tcp://").replace("seq 7 46", "seq 7 9")
    command = re.sub(r"(?<![\w.:/}])/(?=(?:etc|sys|usr|scratch)\b)", f"{root}/", command)
    command = re.sub(r"(--size |^size = )(\d+)G", r"\1\2M", command, flags=re.MULTILINE)
    return command.replace("--local 2G", "--local 16M")


def outside(command, root):
    """Returns the paths of a command that are not below @root. A command with such paths does not run, except that a
    container may be given userfaultfd."""
    return [path for path in re.findall(r"(?<![\w.:/}@-])/\w[\w./-]*", command)
            if not path.startswith(str(root)) and path != "/dev/userfaultfd"]


def pager_is_possible():
    """Asks farpage doctor if this user may handle page faults, and if the kernel can move pages."""
    findings = json.loads(farpage("doctor", "--json").stdout)
    return all(finding["status"] == "pass" for finding in findings
               if finding["id"] in ("faults.right", "faults.paging"))


class Place:
    """The folders in which the commands of one document run: @root is its /, and @work its current folder."""

    def __init__(self, name):
        self.folder = FOLDER / "places" / name
        self.root, self.work, self.state, self.bin = (self.folder / part for part in ("root", "work", "state", "bin"))
        for path in (self.root / "etc/farpage", self.root / "etc/sysctl.d", self.root / "etc/security/limits.d",
                     self.root / "usr/share/farpage", self.root / "sys/module/zswap/parameters", self.root / "scratch",
                     self.root / "sys/kernel/config/rdma_cm/mlx5_0/ports/1", self.work, self.state, self.bin):
            path.mkdir(parents=True)
        shutil.copy(SOURCE / "docs/examples/far_numbers.c", self.work)
        for command in PLAIN:
            (self.bin / command).symlink_to(shutil.which(command))
        for command in STOOD_IN:
            self.stand_in(self.bin / command, command)
        self.stand_in(self.work / "dev", "dev")
        self.write(self.work / "job", JOB)
        for package in ("farpage", "farpage-memserver", "libfarpage0"):
            self.write(self.work / f"{package}_0.1.0_amd64.deb", "")
        self.env = {
            **os.environ, "PATH": str(self.bin), "DOCS_SOURCE": str(SOURCE),
            "DOCS_ROOT": str(self.root), "DOCS_STATE": str(self.state), "DOCS_DONORS": " ".join(DONORS),
            "DOCS_PAGER": str(int(PAGER)), "DOCS_DEVICES": str(int(LACKING is None)),
            "PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled"), "LD_LIBRARY_PATH": str(BUILD / "pager")}
        at_end(self.end)

    @staticmethod
    def write(path, text):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def stand_in(self, path, name):
        self.write(path, f'#!/bin/sh\nexec /usr/bin/python3 -B {HERE}/stand_in.py {name} "$@"\n')

    def end(self):
        """Ends the devices and the donors of the document."""
        disks.clean()
        pids = [json.loads((self.state / host).read_text())["pid"] for host in DONORS if (self.state / host).exists()]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_until(lambda: not any(disks.read(Path(f"/proc/{pid}/cmdline")) for pid in pids))


def commands_run(document):
    """Runs the commands of a document in one shell, because they share its variables. Returns for each its line, its
    text, whether it is good, and what it has printed."""
    place = Place(document.name)
    adapted = [adapt(command, place.root) for _, command in document.commands]
    script = "".join(f"{{\n{command}\n}} >{index}.out 2>{index}.err </dev/null\necho $? >{index}.status\n"
                     for index, command in enumerate(adapted) if not outside(command, place.root))
    subprocess.run(["/bin/bash", "-c", script], cwd=place.work, env=place.env, check=False, timeout=TIMEOUT)
    results = []
    for index, (line, command) in enumerate(document.commands):
        out, err, status = (disks.read(place.work / f"{index}.{part}") for part in ("out", "err", "status"))
        good = status == "0" and "command not found" not in err
        results.append((line, command, good, f"{adapted[index]}\nstatus {status or 'none'}\n{out}\n{err}"))
    place.end()
    return results


def commands_are_right(document):
    for line, command, good, said in commands_run(document):
        name = f"{document.name}:{line}: {command.splitlines()[0]}"
        if not good and not PAGER and re.search("userfaultfd|UFFDIO_MOVE", said):
            skip(name, NO_PAGER)
        else:
            ok(good, name, said)


# --- Names ------------------------------------------------------------------------------------------------------------


class Names:
    """The names that documents may use: options by verb, settings, units, alerts, manual pages."""

    def __init__(self):
        self.options = {(): set()}
        for verb in verbs_of(farpage("--help").stdout):
            text = farpage(verb, "--help").stdout
            for below in verbs_of(text):
                self.options[verb, below] = options_of(farpage(verb, below, "--help").stdout)
            self.options[verb,] = options_of(text)
        for name, program in PROGRAMS.items():
            self.options[name,] = options_of(run(program, "--help").stdout)
        self.every = set().union(*self.options.values()) | {"help", "version"}
        self.pages = {page.name for page in (SOURCE / "docs/man").glob("*.[1-8]")}
        self.alerts = set(re.findall(r"- alert: (\w+)", (SOURCE / "config/farpage-alerts.yml").read_text()))
        self.units = {unit.name[:-len(".service.in")] for unit in (SOURCE / "config").glob("*.service.in")}

    def wrong(self, code):
        """Returns what is wrong with inline code, or None."""
        words = code.split()
        if words[0] in ("farpage", *PROGRAMS) and len(words) > 1:
            verbs = tuple(words[1:]) if words[0] == "farpage" else (words[0],)
            while verbs and verbs not in self.options:
                verbs = verbs[:-1]
            if words[0] == "farpage" and not verbs and not words[1].startswith("--"):
                return "no such verb"
            known = self.options[verbs] or self.every
            return next((word for word in words if word.startswith("--") and len(word) > 2
                         and word[2:].partition("=")[0] not in known | {"help", "version"}), None)
        if words[0].startswith("--"):
            return None if words[0][2:].partition("=")[0] in self.every | OTHERS else words[0]
        if re.match(r"[a-z-]+ = ?", code):
            return None if words[0] in self.every | {"priority"} or "vm." in code else f"no setting {words[0]}"
        if re.fullmatch(r"Farpage\w+", code):
            return None if code in self.alerts else "no such alert"
        if found := re.fullmatch(r"(farpage[\w.-]*|libfarpage)\((\d)\)", code):
            return None if f"{found[1]}.{found[2]}" in self.pages else "no such manual page"
        if code.startswith(("farpage-swap@", "farpage-blockdev@")):
            return None if code.partition("@")[0] + "@" in self.units else "no such unit"
        if re.match(r"(config|docs|tests|build)/[\w./-]+$", code) and not code.startswith("build/"):
            return None if (SOURCE / code).exists() else "no such file"
        return None


OTHERS = {"no-zygote", "now", "long", "no-vm", "device", "cap-add", "ulimit"} # options of other programs


def wrong_names(document, names):
    """Returns what is wrong with the names, the links and the fenced blocks of a document."""
    wrong = [f"`{code}`: {names.wrong(code)}" for code in document.codes() if names.wrong(code)]
    for link in document.links():
        file, _, anchor = link.partition("#")
        target = (document.path.parent / file).resolve() if file else document.path
        if not target.exists() or (anchor and anchor not in Document(target).anchors()):
            wrong.append(f"the link {link}")
    return wrong + [f"line {line}: a block of kind '{kind}'" for line, kind, text in document.fences
                    if kind not in KINDS and not (kind == "" and "+---" in text)]


def names_exist(document, names):
    wrong = wrong_names(document, names)
    ok(not wrong, f"{document.name}: each verb, option, alert, unit, page, file and heading in the text exists", *wrong)


def alerts_are_described(document, names):
    rows = set(re.findall(r"^\| `(Farpage\w+)` \|", document.text, re.MULTILINE))
    ok(len(rows) > 10 and rows == names.alerts, f"{document.name} describes each alert", rows ^ names.alerts)


def example_is_the_file(document):
    example = (SOURCE / "docs/examples/far_numbers.c").read_text(encoding="utf-8").rstrip("\n")
    ok(example in [text for _, kind, text in document.fences if kind == "c"],
       f"{document.name} has the example as it is in its file")


def lost_pages_are_told(document):
    """The example ends with a line when its only donor dies."""
    name = f"the program of {document.name} ends with a line when its pages are lost"
    if not PAGER:
        skip(name, NO_PAGER)
        return
    key = make_key()
    donor = Donor("--donate", "128M", "--key", key)
    with subprocess.Popen([BUILD / "tests/func/docs/far_numbers", key, "1000000", donor.uri], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as program:
        line = program.stdout.readline()
        donor.kill()
        errors = program.communicate(timeout=30)[1]
    ok(line.startswith("written") and program.returncode == 1 and "far_numbers: pages are lost" in errors, name,
       line, program.returncode, errors)


def mistakes_are_found(names):
    """This test finds wrong commands and wrong names."""
    path = FOLDER / "mistakes.md"
    path.write_text(MISTAKES, encoding="utf-8")
    document = Document(path)
    passed = [command for _, command, good, _ in commands_run(document) if good]
    ok(len(document.commands) == 11 and passed == ["true"], "a wrong command is found", passed)
    found = wrong_names(document, names)
    ok(len(found) == 9, "a wrong name is found", *found)


MISTAKES = """# Mistakes

`farpage nosuch`, `farpage donors --nosuch`, `--nosuch`, `nosuch = 5`, `FarpageNosuch`, `farpage-nosuch(1)`,
`config/nosuch.ini`, and [a link](#nosuch).

    true
    reboot
    farpage nosuch
    farpage swap on --nosuch
    farpage donors drain tcp://10.0.0.250
    farpage-memserver --listen tcp://10.0.0.7 --donate 1G --nosuch 1
    systemctl start nosuch
    apt install nosuch
    dcb pfc set dev eth1 nosuch 1
    echo 1 >/proc/nosuch
    sysctl vm.nosuch=1

```sh
farpage
```
"""
LACKING = disks.lacking()
PAGER = pager_is_possible()
if LACKING:
    skip("commands for devices run", LACKING)
if not PAGER:
    skip("commands for the pager run", NO_PAGER)
NAMES = Names()
for each in DOCUMENTS:
    names_exist(each, NAMES)
    commands_are_right(each)
alerts_are_described(DOCUMENTS[2], NAMES)
example_is_the_file(DOCUMENTS[3])
lost_pages_are_told(DOCUMENTS[3])
mistakes_are_found(NAMES)
ok(disks.nothing_left(), "the commands leave nothing", disks.left_over())
done()
