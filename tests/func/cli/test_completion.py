#!/usr/bin/python3
"""test_completion.py CONFIG: what bash, zsh and fish complete is what --help lists."""
import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tap import FARPAGE, FOLDER, at_end, done, farpage, ok, options_of, run, shown, skip, verbs_of, wait_until

CONFIG = Path(sys.argv[1])
HERE = Path(__file__).parent
COMMANDS = ("run", "status", "advise", "top", "donors", "donors holders", "donors drain", "donors undrain", "donors roll", "disk attach", "disk detach", "disk list", "disk adopt",
            "disk leave", "swap on", "swap off", "swap list", "swap squeeze", "doctor", "bench", "key")
VALUES = {"farpage run --engine ": {"auto", "pager", "swap"}, "farpage disk attach --frontend ": {"auto", "ublk", "fuse"},
          "farpage bench --donor ": {"tcp://", "rdma://", "auto://"}, "farpage run --local ": set(),
          "farpage disk attach --name ": set()}
(FOLDER / "bin").mkdir()
(FOLDER / "bin/farpage").symlink_to(Path(FARPAGE).resolve())
(FOLDER / "a-key").touch()
ENVIRONMENT = {**os.environ, "PATH": f"{FOLDER}/bin:{os.environ['PATH']}", "HOME": str(FOLDER), "XDG_CONFIG_HOME": str(FOLDER),
               "XDG_DATA_HOME": str(FOLDER), "ZDOTDIR": str(FOLDER), "TERM": "xterm"}


def help_of(*words):
    """The verbs and the options that a --help lists."""
    text = farpage(*words, "--help").stdout
    return set(verbs_of(text)), {f"--{option}" for option in options_of(text)}


class Bash:
    """Calls the function as bash does. A file is completed by readline, for which the function sets an option."""
    name, file = "bash", CONFIG / "farpage.bash-completion"
    check = ("bash", "-n")

    def complete(self, line):
        words = line.split(" ")
        script = f"""source {self.file}; compopt() {{ [ "$2" != default ] || compgen -f -- "{words[-1]}"; }}
            COMP_WORDS=({' '.join(f'"{word}"' for word in words)}) COMP_CWORD={len(words) - 1}
            _farpage farpage "{words[-1]}" "{words[-2]}"; printf '%s\\n' "${{COMPREPLY[@]}}" """
        result = run("bash", "--norc", "-c", script, env=ENVIRONMENT, cwd=FOLDER)
        return {word for word in result.stdout.split("\n") if word}


class Fish:
    name, file = "fish", CONFIG / "farpage.fish"
    check = ("fish", "--no-config", "--no-execute")

    def complete(self, line):
        result = run("fish", "--no-config", "-c", f"source {self.file}; complete -C '{line}'", env=ENVIRONMENT, cwd=FOLDER)
        return {row.split("\t")[0] for row in result.stdout.split("\n") if row}


class Zsh:
    """An interactive zsh on a terminal of its own."""
    name, file = "zsh", CONFIG / "_farpage"
    check = ("zsh", "-n")

    def __init__(self):
        self.log, self.terminal = FOLDER / "zsh.log", None

    def start(self):
        self.terminal, other = pty.openpty()
        process = subprocess.Popen(["zsh", "-f", "-i"], stdin=other, stdout=other, stderr=other, env=ENVIRONMENT, cwd=FOLDER,
                                   start_new_session=True)
        os.close(other)
        at_end(process.wait)
        at_end(process.kill)
        threading.Thread(target=self.drain, daemon=True).start()
        self.type(f"source {HERE}/complete.zsh {self.file} {self.log}; print ready >{self.log}\n")
        wait_until(self.log.exists)

    def drain(self):
        """Reads what zsh shows, so that it never waits for us."""
        try:
            while os.read(self.terminal, 4096):
                pass
        except OSError:
            pass

    def type(self, text):
        os.write(self.terminal, text.encode())

    def complete(self, line):
        if self.terminal is None:
            self.start()
        self.log.write_text("")
        self.type(f"\x15{line}\t")
        wait_until(lambda: self.log.read_text().endswith("end\n"))
        return set(self.log.read_text().split("\n")) - {"", "end"}


def shell_completes_what_help_lists(shell):
    name = shell.name
    checked = run(*shell.check, shell.file)
    ok(checked.returncode == 0 and not checked.stderr, f"{name} finds no mistake in its completion", shown(checked))
    verbs, _ = help_of()
    got = shell.complete("farpage ") - {"--help", "--version"}
    ok(len(verbs) > 5 and got == verbs | {"help"}, f"{name} completes the verbs", got)
    got = shell.complete("farpage s")
    ok({"status", "swap"} <= got and "run" not in got, f"{name} completes the beginning of a verb", got)
    ok(shell.complete("farpage help ") - {"--help"} == verbs, f"{name} completes verbs after help")
    for family in ("disk", "swap", "donors"):
        got = {word for word in shell.complete(f"farpage {family} ") if word[0] != "-"}
        ok(got == help_of(family)[0] and got, f"{name} completes the verbs of {family}", got)
    for command in COMMANDS:
        options = help_of(*command.split())[1] | {"--help"}
        got = shell.complete(f"farpage {command} --") - {"--"}
        ok(got == options, f"{name} completes the options of {command}", got ^ options)


def shell_completes_values(shell):
    name = shell.name
    for line, values in VALUES.items():
        got = shell.complete(line)
        ok(got == values, f"{name} completes the value in {line.strip()!r}", got)
    for line in ("farpage run --key a-", "farpage bench --json a-", "farpage key a-"):
        ok("a-key" in shell.complete(line), f"{name} completes a file in {line!r}", shell.complete(line))
    got = shell.complete("farpage run --local 1G -- cat a-")
    ok(got == {"a-key"}, f"{name} completes an argument of the command of run", got)
    if name != "bash": # its function leaves that to bash-completion
        got = shell.complete("farpage run --local 1G -- fals")
        ok("false" in got and "--local" not in got, f"{name} completes the command of run", got)


for each in (Bash(), Zsh(), Fish()):
    if not shutil.which(each.name):
        skip(f"{each.name} completes verbs and options", f"{each.name} is not installed")
        continue
    shell_completes_what_help_lists(each)
    shell_completes_values(each)
done()
