#!/usr/bin/python3
"""test_command.py FARPAGE: the command itself: help, wrong usage, keys."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402

farpage = sys.argv[1]


def refused(name, arguments, status, mentioned, **options):
    """One line on standard error that says what is wrong; nothing on standard output."""
    result = run(farpage, *arguments, **options)
    ok(result.returncode == status and result.stdout == "" and mentioned in result.stderr
       and result.stderr.startswith("farpage: ") and result.stderr.count("\n") == 1, name, shown(result))


def helps(name, arguments, *mentioned):
    result = run(farpage, *arguments)
    ok(result.returncode == 0 and result.stderr == "" and all(word in result.stdout for word in mentioned), name,
       shown(result))


helps("--help names the verbs and teaches", ["--help"], "donors", "key", "--listen", "exit status")
helps("--version", ["--version"], "farpage 0.")
helps("donors --help names its options", ["donors", "--help"], "--donor URI", "--key FILE", "--json")
helps("key --help says how it is used", ["key", "--help"], "usage: farpage key FILE", "0600")
helps("help VERB is VERB --help", ["help", "key"], "usage: farpage key FILE")
refused("no verb", [], 2, "verb is missing")
refused("an unknown verb is named", ["lend"], 2, "lend")
refused("an unknown option is named", ["donors", "--bogus"], 2, "--bogus")
refused("donors without a donor", ["donors"], 2, "--donor")
refused("donors takes no arguments", ["donors", "--donor", "tcp://127.0.0.1:1", "x"], 2, '"x"')
refused("key without a file", ["key"], 2, "farpage key FILE")
run_options = ["run", "--local", "16M", "--donor", "tcp://127.0.0.1:1"]
refused("more replicas than donors", [*run_options, "--replicas", "2", "--", "true"], 125, "only 1 donor is given")
refused("more replicas than there can be", [*run_options, "--replicas", "4", "--", "true"], 125, "1 to 3")

with open("/dev/full", "w", encoding="ascii") as full:
    status = subprocess.run([farpage, "--help"], stdout=full, stderr=subprocess.DEVNULL, check=False).returncode
ok(status == 1, "a full disk under standard output is an error", f"status {status}")

with tempfile.TemporaryDirectory(prefix="farpage-test-") as folder:
    key = Path(folder, "key")
    result = run(farpage, "key", key)
    ok(result.returncode == 0 and str(key) in result.stdout, "key makes a file", shown(result))
    ok(key.stat().st_mode & 0o7777 == 0o600, "its owner alone may read it", oct(key.stat().st_mode))
    before = key.read_bytes()
    refused("a key is not overwritten", ["key", key], 1, "exists")
    ok(key.read_bytes() == before, "and is as it was")
    other = Path(folder, "other")
    run(farpage, "key", other)
    ok(other.read_bytes() != before, "two keys differ")
    refused("a folder that is not there", ["key", Path(folder, "no", "key")], 1, "No such file")

    donor = ["donors", "--donor", "tcp://127.0.0.1:1", "--key"]
    os.chmod(other, 0o640)
    refused("a key that others can read is refused", [*donor, other], 1, "chmod 600")
    other.write_text("not a key\n", encoding="ascii")
    os.chmod(other, 0o600)
    refused("a file that is no key is refused", [*donor, other], 1, "not a key file")
    refused("a key that is not there", [*donor, Path(folder, "none")], 1, "no such file")
done()
