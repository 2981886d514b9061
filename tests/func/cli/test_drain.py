#!/usr/bin/python3
"""test_drain.py FARPAGE MEMSERVER: emptying a donor that a program has memory on, and what is said meanwhile."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
SLAB = 8 << 20
PROGRAM = """
import hashlib, os, sys
memory = os.urandom(64 << 20)
digest = hashlib.sha256(memory).hexdigest()
print('here', flush=True)
sys.stdin.read()
print('right' if hashlib.sha256(memory).hexdigest() == digest else 'wrong', flush=True)
"""


def start_program(donor, key):
    program = subprocess.Popen([farpage, "run", "--local", "16M", "--donor", donor, "--key", key, "--",
                                "/usr/bin/python3", "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    program.stdout.readline()
    return program


def state(donor, key):
    result = run(farpage, "donors", "--donor", donor, "--key", key, "--json")
    return json.loads(result.stdout)["donors"][0]


def test_mistakes(donor, key):
    def usage(name, *words, says):
        result = run(farpage, "donors", *words)
        ok(result.returncode == 2 and says in result.stderr and result.stderr.count("\n") == 1, name, shown(result))

    usage("no donor", "drain", says="name one")
    usage("two donors", "drain", donor, "tcp://127.0.0.2", says="too many")
    usage("a deadline that nothing comes of", "drain", donor, "--deadline", "5", says="--force")
    usage("undrain takes no --force", "undrain", donor, "--force", says="--force")
    result = run(farpage, "donors", "drain", donor)
    ok(result.returncode == 1 and "key" in result.stderr, "without the key it is refused", shown(result))
    ok(state(donor, key)["state"] == "lending", "and nothing has come of any of these")


def test_wait(donor, key):
    program = start_program(donor, key)
    result = run(farpage, "donors", "drain", donor, "--key", key, "--timeout", "1")
    ok(result.returncode == 1, "it waits, and is not done while a program has memory there", shown(result))
    ok("is not empty after 1 s" in result.stderr and "--force" in result.stderr, "says so", shown(result))
    ok("  client " in result.stdout and "://" in result.stdout, "and who holds what", shown(result))
    answer = state(donor, key)
    ok(answer["state"] == "draining" and answer["free_bytes"] == 0, "it goes on draining, and has nothing free", answer)
    result = run(farpage, "donors", "--donor", donor, "--key", key)
    ok("  draining" in result.stdout, "also in the table", shown(result))
    result = run(farpage, "donors", "drain", donor, "--key", key, "--timeout", "0", "--json")
    answer = json.loads(result.stdout)
    ok(result.returncode == 1 and not answer["empty"] and answer["state"] == "draining" and
       answer["leased_bytes"] == sum(holder["leased_bytes"] for holder in answer["holders"]) > 0 and
       not answer["holders"][0]["vanished"], "as JSON", shown(result))

    result = run(farpage, "donors", "undrain", donor, "--key", key)
    ok(result.returncode == 0 and "lends again: 128M" in result.stdout, "undrained", shown(result))
    answer = state(donor, key)
    ok(answer["state"] == "lending" and answer["leased_bytes"] >= 48 << 20 and answer["free_bytes"] > 0,
       "it lends again, and the program has what it had", answer)

    drain = subprocess.Popen([farpage, "donors", "drain", donor, "--key", key], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = drain.stdout.readline()
    ok(" drains: " in first and "of 1 client" in first, "drained again", first)
    output = program.communicate()[0]
    ok(program.returncode == 0 and output == "right\n", "the program goes on, and ends well", output)
    output, errors = drain.communicate(timeout=60)
    ok(drain.returncode == 0 and f"{donor} is empty and lends nothing more: it is safe to power it off" in output,
       "when it has ended the donor is empty, and may be powered off", output, errors)
    result = run(farpage, "donors", "drain", donor, "--key", key, "--json")
    ok(result.returncode == 0 and json.loads(result.stdout) == {"donor": donor, "state": "draining", "leased_bytes": 0,
                                                               "empty": True, "holders": []},
       "an empty donor is so at once", shown(result))
    result = run(farpage, "run", "--local", "16M", "--donor", donor, "--key", key, "--", "/usr/bin/python3", "-c",
                 "import os; os.urandom(64 << 20)")
    ok(result.returncode != 0, "nobody is lent anything there", shown(result))
    run(farpage, "donors", "undrain", donor, "--key", key)


def test_force(donor, key, admin_key):
    program = start_program(donor, key)
    result = run(farpage, "donors", "drain", donor, "--key", key, "--force", "--deadline", "2")
    ok(result.returncode == 1 and result.stderr.count("\n") == 1 and "--admin-key FILE" in result.stderr and
       state(donor, key)["state"] == "lending", "a client's key takes nothing by force", shown(result))
    result = run(farpage, "donors", "drain", donor, "--admin-key", admin_key, "--force", "--deadline", "2")
    ok(result.returncode == 0 and "safe to power it off" in result.stdout, "by force it is empty by the deadline",
       shown(result))
    ok(state(donor, key)["leased_bytes"] == 0, "really")
    output, errors = program.communicate()
    ok(program.returncode != 0 and "right" not in output and "wrong" not in output,
       "a program whose only copy that was gets an error where it touches it", output, errors)


def test_admin(donor, key, admin_key):
    """A donor with an admin key is drained and undrained by its holder only."""
    for verb in ("drain", "undrain"):
        result = run(farpage, "donors", verb, donor, "--key", key)
        ok(result.returncode == 1 and result.stderr.count("\n") == 1 and "--admin-key FILE" in result.stderr,
           f"a client may not {verb} a donor that has an admin key", shown(result))
        result = run(farpage, "donors", verb, donor, "--admin-key", admin_key)
        ok(result.returncode == 0, f"the admin key may {verb} it", shown(result))


def test(folder):
    key = str(Path(folder, "key"))
    run(farpage, "key", key)
    admin_key = str(Path(folder, "admin-key"))
    run(farpage, "key", admin_key)
    donor = start_donor(memserver, "--donate", "128M", "--slab", str(SLAB), "--key", key)[1]
    test_mistakes(donor, key)
    test_wait(donor, key)
    result = run(farpage, "donors", "drain", donor, "--key", key, "--force")
    ok(result.returncode == 1 and "admin key" in result.stderr, "without an admin key nothing is taken by force",
       shown(result))
    donor = start_donor(memserver, "--donate", "128M", "--slab", str(SLAB), "--key", key, "--admin-key", admin_key)[1]
    test_admin(donor, key, admin_key)
    test_force(donor, key, admin_key)


try:
    with tempfile.TemporaryDirectory(prefix="farpage-test-") as temporary:
        test(temporary)
finally:
    stop_donors()
done()
