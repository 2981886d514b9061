#!/usr/bin/python3
"""test_command.py FARPAGE: the help, the usage errors and the keys of the farpage command."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402

farpage = sys.argv[1]


def refused(name, arguments, status, mentioned, **options):
    """The command prints one line on standard error that says what is wrong, and nothing on standard output."""
    result = run(farpage, *arguments, **options)
    ok(result.returncode == status and result.stdout == "" and mentioned in result.stderr
       and result.stderr.startswith("farpage: ") and result.stderr.count("\n") == 1, name, shown(result))


def helps(name, arguments, *mentioned):
    result = run(farpage, *arguments)
    ok(result.returncode == 0 and result.stderr == "" and all(word in result.stdout for word in mentioned), name,
       shown(result))


helps("farpage --help has the verbs, --listen and the exit status", ["--help"], "donors", "key", "--listen",
      "exit status")
helps("farpage --version prints the version", ["--version"], "farpage 0.")
helps("donors --help names the options of donors", ["donors", "--help"], "--donor URI", "--key FILE", "--json")
helps("key --help has the usage and the file's mode", ["key", "--help"], "usage: farpage key FILE", "0600")
helps("farpage help key prints the same usage as key --help", ["help", "key"], "usage: farpage key FILE")
refused("farpage without a verb is refused", [], 2, "verb is missing")
refused("an unknown verb is refused by name", ["lend"], 2, "lend")
refused("an unknown option is refused by name", ["donors", "--bogus"], 2, "--bogus")
refused("donors is refused without a donor", ["donors"], 2, "--donor")
refused("donors is refused with an argument", ["donors", "--donor", "tcp://127.0.0.1:1", "x"], 2, '"x"')
refused("key is refused without a file", ["key"], 2, "farpage key FILE")
run_options = ["run", "--local", "16M", "--donor", "tcp://127.0.0.1:1"]
refused("run is refused with more replicas than donors", [*run_options, "--replicas", "2", "--", "true"], 125,
        "only 1 donor is given")
refused("run is refused with four replicas", [*run_options, "--replicas", "4", "--", "true"], 125, "1 to 3")

with open("/dev/full", "w", encoding="ascii") as full:
    status = subprocess.run([farpage, "--help"], stdout=full, stderr=subprocess.DEVNULL, check=False).returncode
ok(status == 1, "farpage fails when the disk under standard output is full", f"status {status}")

with tempfile.TemporaryDirectory(prefix="farpage-test-") as folder:
    key = Path(folder, "key")
    result = run(farpage, "key", key)
    ok(result.returncode == 0 and str(key) in result.stdout, "farpage key makes a file and prints its path",
       shown(result))
    ok(key.stat().st_mode & 0o7777 == 0o600, "only the owner of a key file may read it", oct(key.stat().st_mode))
    before = key.read_bytes()
    refused("farpage key refuses to overwrite a file", ["key", key], 1, "exists")
    ok(key.read_bytes() == before, "a key file is unchanged after a refused overwrite")
    other = Path(folder, "other")
    run(farpage, "key", other)
    ok(other.read_bytes() != before, "two keys differ")
    refused("farpage key refuses a file in a missing folder", ["key", Path(folder, "no", "key")], 1, "No such file")

    donor = ["donors", "--donor", "tcp://127.0.0.1:1", "--key"]
    os.chmod(other, 0o640)
    refused("donors refuses a key file that others may read", [*donor, other], 1, "chmod 600")
    other.write_text("not a key\n", encoding="ascii")
    os.chmod(other, 0o600)
    refused("donors refuses a file that is no key", [*donor, other], 1, "not a key file")
    refused("donors refuses a missing key file", [*donor, Path(folder, "none")], 1, "no such file")
done()
