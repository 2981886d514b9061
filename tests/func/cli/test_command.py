#!/usr/bin/python3
"""test_command.py MEMSERVER BLOCKDEV: the help, the usage errors and the keys of the farpage command."""
import os
import subprocess
import sys

from tap import FARPAGE, FOLDER, done, farpage, ok, refused, run, shown, verbs_of


def helps(name, arguments, *mentioned):
    result = farpage(*arguments)
    ok(result.returncode == 0 and result.stderr == "" and all(word in result.stdout for word in mentioned), name,
       shown(result))


helps("farpage --help has the verbs, --listen and the exit status", ["--help"], "donors", "key", "--listen",
      "exit status")
helps("farpage --version prints the version", ["--version"], "farpage 0.")
helps("donors --help names the options of donors", ["donors", "--help"], "--donor URI", "--key FILE", "--json")
helps("key --help has the usage and the file's mode", ["key", "--help"], "usage: farpage key FILE", "0600")
helps("farpage help key prints the same usage as key --help", ["help", "key"], "usage: farpage key FILE")
refused(farpage(), "farpage without a verb is refused", "verb is missing", status=2)
refused(farpage("lend"), "an unknown verb is refused by name", "lend", status=2)
for words, meant in ((["rnu"], "run"), (["swpa"], "swap"), (["hlep"], "help"), (["--verison"], "--version"), (["help", "rnu"], "run"),
                     (["swap", "squeze"], "squeeze"), (["disk", "lsit"], "list"), (["disk", "--hepl"], "--help"),
                     (["donors", "dran"], "drain"), (["donors", "--dnoor", "x"], "--donor"), (["run", "--hepl"], "--help"),
                     (["swap", "on", "--confg", "x"], "--config")):
    refused(farpage(*words), f"farpage {' '.join(words)} suggests {meant}", f"did you mean {meant}?")
families = ("donors", "disk", "swap")
verbs = verbs_of(farpage("--help").stdout)
commands = [[verb] for verb in verbs] + [[verb, each] for verb in families for each in verbs_of(farpage(verb, "--help").stdout)]
for command in commands:
    results = [farpage(*command, option) for option in ("-h", "--help", "-V", "--version")]
    ok(all(result.returncode == 0 and result.stderr == "" for result in results) and
       all(result.stdout.startswith(f"usage: farpage {' '.join(command)}") for result in results[:2]) and
       results[2].stdout == results[3].stdout == farpage("--version").stdout,
       f"farpage {' '.join(command)} has -h and -V", *map(shown, results))
ok(len(commands) > 20, "all verbs were asked for -h and -V", commands)
for program in (sys.argv[1:3]):
    results = [run(program, option) for option in ("-h", "--help", "-V", "--version", "--hepl")]
    ok(all(result.returncode == 0 for result in results[:4]) and results[0].stdout == results[1].stdout and
       results[2].stdout == results[3].stdout and "did you mean --help?" in results[4].stderr,
       f"{os.path.basename(program)} has -h and -V, and suggests --help", *map(shown, results))
helps("farpage swap help prints the help of swap", ["swap", "help"], "usage: farpage swap VERB", "squeeze")
refused(farpage("donors", "--bogus"), "an unknown option is refused by name", "--bogus", status=2)
refused(farpage("donors"), "donors is refused without a donor", "--donor", status=2)
refused(farpage("donors", "--donor", "tcp://127.0.0.1:1", "x"), "donors is refused with an argument", '"x"', status=2)
refused(farpage("key"), "key is refused without a file", "farpage key FILE", status=2)
run_options = ["run", "--local", "16M", "--donor", "tcp://127.0.0.1:1"]
refused(farpage(*run_options, "--replicas", "2", "--", "true"), "run is refused with more replicas than donors",
        "only 1 donor is given", status=125)
refused(farpage(*run_options, "--replicas", "4", "--", "true"), "run is refused with four replicas",
        "1 to 3", status=125)

with open("/dev/full", "w", encoding="ascii") as full:
    status = subprocess.run([FARPAGE, "--help"], stdout=full, stderr=subprocess.DEVNULL, check=False).returncode
ok(status == 1, "farpage fails when the disk under standard output is full", f"status {status}")

key = FOLDER / "key"
result = farpage("key", key)
ok(result.returncode == 0 and str(key) in result.stdout, "farpage key makes a file and prints its path",
   shown(result))
ok(key.stat().st_mode & 0o7777 == 0o600, "only the owner of a key file may read it", oct(key.stat().st_mode))
before = key.read_bytes()
refused(farpage("key", key), "farpage key refuses to overwrite a file", "exists", status=1)
ok(key.read_bytes() == before, "a key file is unchanged after a refused overwrite")
other = FOLDER / "other"
farpage("key", other)
ok(other.read_bytes() != before, "two keys differ")
refused(farpage("key", FOLDER / "no/key"), "farpage key refuses a file in a missing folder",
        "No such file", status=1)

donor = ["donors", "--donor", "tcp://127.0.0.1:1", "--key"]
os.chmod(other, 0o640)
refused(farpage(*donor, other), "donors refuses a key file that others may read", "chmod 600", status=1)
other.write_text("not a key\n", encoding="ascii")
os.chmod(other, 0o600)
refused(farpage(*donor, other), "donors refuses a file that is no key", "not a key file", status=1)
refused(farpage(*donor, FOLDER / "none"), "donors refuses a missing key file", "no such file", status=1)
done()
