#!/usr/bin/python3
"""test_drain.py: farpage donors holders, drain and undrain of a donor that a program uses."""
import json
import os
import signal

from donor import Donor, donors, no_donors
from tap import FOLDER, done, farpage, make_key, ok, refused, shown, start, wait_until

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
    program = start("run", "--local", "16M", "--donor", donor, "--key", key, "--", "/usr/bin/python3", "-c", PROGRAM)
    program.stdout.readline()
    return program


def state(donor, key):
    result = farpage("donors", "--donor", donor, "--key", key, "--json")
    return json.loads(result.stdout)["donors"][0]


def bad_drains_are_refused(donor, key):
    for name, says, words in (("donors drain is refused without a donor", "name one", ["drain"]),
                              ("donors holders is refused with a donor that is given twice", "twice",
                               ["holders", donor, donor]),
                              ("donors drain is refused with a donor that is given twice", "twice",
                               ["drain", donor, donor]),
                              ("donors drain --deadline is refused without --force", "--force",
                               ["drain", donor, "--deadline", "5"]),
                              ("donors undrain is refused with --force", "--force", ["undrain", donor, "--force"])):
        refused(farpage("donors", *words), name, says, status=2)
    result = farpage("donors", "drain", donor)
    ok(result.returncode == 1 and "key" in result.stderr, "donors drain is refused without the donor's key",
       shown(result))
    ok(state(donor, key)["state"] == "lending", "refused drains leave the donor lending")


def holders_are_listed(donor, key):
    result = farpage("donors", "holders", donor, "--key", key)
    ok(result.returncode == 0 and result.stdout.split() == ["CLIENT", "HOST", "USER", "COMMAND", "PID", "SINCE", "LEASED",
                                                            "STATE"],
       "donors holders prints only headings for a donor without clients", shown(result))
    program = start_program(donor, key)
    row = farpage("donors", "holders", donor, "--key", key, "--noheadings", "--output",
                  "client,address,leased,slabs,state,key").stdout.split()
    ok(len(row) == 6 and row[1].startswith("tcp://127.0.0.1:") and int(row[3]) >= 6 and row[4] == "connected" and
       row[5] != "-", "donors holders prints the client's address, how much it leases, and the name of its key", row)
    result = farpage("donors", "holders", donor, "--key", key, "--json")
    answer = json.loads(result.stdout)
    ok(answer["donor"] == donor and [row[0], int(row[3]) * SLAB] ==
       [answer["holders"][0]["client"], answer["holders"][0]["leased_bytes"]] and state(donor, key)["state"] == "lending",
       "donors holders --json has the same, and the donor goes on lending", shown(result))
    program.communicate()
    refused(farpage("donors", "holders", donor, "--key", key, "--output", "COLOUR"),
            "donors holders is refused with a column that does not exist", "COLOUR", status=2)
    refused(farpage("donors", "holders"), "donors holders is refused without a donor", "name one", status=2)


def drain_waits_for_the_program(donor, key):
    program = start_program(donor, key)
    result = farpage("donors", "drain", donor, "--key", key, "--timeout", "1")
    ok(result.returncode == 1, "donors drain fails at its --timeout while a program leases memory", shown(result))
    ok("is not empty after 1 s" in result.stderr and "--force" in result.stderr,
       "donors drain tells that the donor is not empty, and names --force", shown(result))
    ok("  client " in result.stdout and "://" in result.stdout, "donors drain prints the clients that hold slabs",
       shown(result))
    answer = state(donor, key)
    ok(answer["state"] == "draining" and answer["free_bytes"] == 0,
       "a donor goes on draining after the --timeout and has no free memory", answer)
    result = farpage("donors", "--donor", donor, "--key", key)
    ok("  draining" in result.stdout, "the table of donors shows a draining donor", shown(result))
    result = farpage("donors", "drain", donor, "--key", key, "--timeout", "0", "--json")
    answer = json.loads(result.stdout)
    ok(result.returncode == 1 and not answer["empty"] and answer["state"] == "draining" and
       answer["leased_bytes"] == sum(holder["leased_bytes"] for holder in answer["holders"]) > 0 and
       not answer["holders"][0]["vanished"], "donors drain --json has the state, the leased bytes and their holders",
       shown(result))

    result = farpage("donors", "undrain", donor, "--key", key)
    ok(result.returncode == 0 and "lends again: 128M" in result.stdout,
       "donors undrain succeeds and prints what the donor lends", shown(result))
    answer = state(donor, key)
    ok(answer["state"] == "lending" and answer["leased_bytes"] >= 48 << 20 and answer["free_bytes"] > 0,
       "an undrained donor lends, and the program keeps its memory", answer)

    drain = start("donors", "drain", donor, "--key", key)
    first = drain.stdout.readline()
    ok(" drains: " in first and "of 1 client" in first, "a second donors drain prints how many clients hold slabs",
       first)
    output, errors = program.communicate()
    ok(program.returncode == 0 and output == "right\n", "a program reads its memory right while its donor drains",
       f"status {program.returncode}", output, errors)
    output, errors = drain.communicate(timeout=60)
    ok(drain.returncode == 0 and f"{donor} is empty and lends nothing more: it is safe to power it off" in output,
       "donors drain ends when the program does, and allows to power the donor off", output, errors)
    result = farpage("donors", "drain", donor, "--key", key, "--json")
    ok(result.returncode == 0 and json.loads(result.stdout) == {"donor": donor, "state": "draining", "leased_bytes": 0,
                                                               "empty": True, "holders": []},
       "donors drain of an empty donor ends at once", shown(result))
    result = farpage("run", "--local", "16M", "--donor", donor, "--key", key, "--", "/usr/bin/python3", "-c",
                 "import os; os.urandom(64 << 20)")
    ok(result.returncode != 0, "run fails on a drained donor", shown(result))
    farpage("donors", "undrain", donor, "--key", key)


def drain_by_force_empties_the_donor(donor, key, admin_key):
    program = start_program(donor, key)
    result = farpage("donors", "drain", donor, "--key", key, "--force", "--deadline", "2")
    ok(result.returncode == 1 and result.stderr.count("\n") == 1 and "--admin-key FILE" in result.stderr and
       state(donor, key)["state"] == "lending", "donors drain --force is refused with a client's key", shown(result))
    result = farpage("donors", "drain", donor, "--admin-key", admin_key, "--force", "--deadline", "2")
    ok(result.returncode == 0 and "safe to power it off" in result.stdout,
       "donors drain --force empties the donor by its deadline", shown(result))
    ok(state(donor, key)["leased_bytes"] == 0, "a donor that was drained by force has no leased memory")
    output, errors = program.communicate()
    ok(program.returncode != 0 and "right" not in output and "wrong" not in output,
       "a program that lost its only copy fails and reads no wrong bytes", output, errors)


def only_the_admin_key_drains(donor, key, admin_key):
    """Only the admin key drains and undrains a donor that has one."""
    for verb in ("drain", "undrain", "holders"):
        result = farpage("donors", verb, donor, "--key", key)
        ok(result.returncode == 1 and result.stderr.count("\n") == 1 and "--admin-key FILE" in result.stderr,
           f"donors {verb} is refused with a client's key when the donor has an admin key", shown(result))
        result = farpage("donors", verb, donor, "--admin-key", admin_key)
        ok(result.returncode == 0, f"donors {verb} succeeds with the admin key", shown(result))


def donors_of_a_file_are_drained():
    of = donors(2, "--donate", "128M", "--slab", SLAB)
    listed, with_nobody = FOLDER / "donors", FOLDER / "with-nobody"
    listed.write_text("".join(f"{donor.uri}\n" for donor in of), encoding="utf-8")
    result = farpage("donors", "drain", f"@{listed}", "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    ok(result.returncode == 0 and [(each["donor"], each["state"], each["empty"]) for each in answers] ==
       [(donor.uri, "draining", True) for donor in of], "donors drain @FILE drains each donor", shown(result))
    with no_donors() as (_, nobody):
        with_nobody.write_text("".join(f"{uri}\n" for uri in (of[0].uri, nobody, of[1].uri)), encoding="utf-8")
        result = farpage("donors", "undrain", f"@{with_nobody}")
        ok(result.returncode == 1 and nobody in result.stderr and result.stdout.count("lends again: 128M") == 2,
           "donors undrain @FILE passes over a donor that does not answer, and then fails", shown(result))
        ok([donor.says()["state"] for donor in of] == ["lending"] * 2, "the other donors lend again")
        result = farpage("donors", "drain", f"@{with_nobody}")
        ok(result.returncode == 1 and nobody in result.stderr and result.stdout.count("safe to power it off") == 2,
           "donors drain @FILE passes over a donor that does not answer, and then fails", shown(result))
    farpage("donors", "undrain", of[0].uri, of[1].uri)

    program = start("run", "--local", "16M", "--donor", of[0].uri, "--donor", of[1].uri, "--", "/usr/bin/python3", "-c",
                    PROGRAM.replace("64 << 20", "32 << 20"))
    program.stdout.readline()
    holders_of_donors_are_listed([donor.uri for donor in of], listed)
    drain = start("donors", "drain", of[0].uri)
    wait_until(lambda: of[0].says()["state"] == "draining")
    of[0].signal(signal.SIGSTOP)
    _, errors = drain.communicate()
    of[0].signal(signal.SIGCONT)
    ok(drain.returncode == 1 and "does not answer in time" in errors and "is not empty" not in errors,
       "donors drain fails when its donor stops answering", drain.returncode, errors)
    drain = start("donors", "drain", of[0].uri, of[1].uri)
    wait_until(lambda: [donor.says()["state"] for donor in of] == ["draining"] * 2)
    result = farpage("donors", "drain", f"@{listed}", "--timeout", "1")
    ok(result.returncode == 1 and "is not empty after 1 s" in result.stderr,
       "donors drain of several donors fails at its --timeout", shown(result))
    farpage("donors", "undrain", f"@{listed}")
    output, errors = drain.communicate(timeout=60)
    ok(drain.returncode == 1 and "is empty" not in output.partition(f"{of[1].uri} drains: ")[0] and
       f"{of[1].uri} drains: " in output and "somebody has undrained it" in errors,
       "several donors drain at the same time, and donors drain fails when they are undrained", output, errors)
    output, errors = program.communicate()
    ok(output == "right\n", "a program reads its memory right after such a drain", output, errors)


def holders_of_donors_are_listed(uris, listed):
    """A program leases memory of both donors of the file @listed."""
    result = farpage("donors", "holders", f"@{listed}", "--noheadings")
    rows = [line.split() for line in result.stdout.splitlines()]
    ok(result.returncode == 0 and [(row[0], row[4]) for row in rows] == [(uri, "python3") for uri in uris],
       "donors holders @FILE lists the clients of each donor, beside the donor", shown(result))
    result = farpage("donors", "holders", "--donor", uris[0], f"--donor={uris[1]}", "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    ok([(each["donor"], [holder["command"] for holder in each["holders"]]) for each in answers] ==
       [(uri, ["python3"]) for uri in uris], "--donor names donors, too, and --json prints a line for each", shown(result))
    defaults = FOLDER / "farpage.ini"
    defaults.write_text(f"[farpage]\ndonor = {uris[1]}\n", encoding="utf-8")
    environment = {**os.environ, "FARPAGE_CONFIG": str(defaults)}
    result = farpage("donors", "holders", "--noheadings", env=environment)
    ok(result.returncode == 0 and "python3" in result.stdout and result.stdout.count("\n") == 1,
       "without a donor, donors holders asks those of farpage.ini", shown(result))
    for verb in ("drain", "undrain"):
        refused(farpage("donors", verb, env=environment), f"donors {verb} leaves the donors of farpage.ini alone", "name one",
                status=2)
    with no_donors() as (_, nobody):
        result = farpage("donors", "holders", nobody, *uris, "--noheadings")
        ok(result.returncode == 1 and nobody in result.stderr and result.stdout.count("python3") == 2,
           "donors holders passes over a donor that does not answer, and then fails", shown(result))


the_key, the_admin_key = make_key(), make_key("admin-key")
lender = Donor("--donate", "128M", "--slab", SLAB, "--key", the_key).uri
bad_drains_are_refused(lender, the_key)
holders_are_listed(lender, the_key)
drain_waits_for_the_program(lender, the_key)
forced = farpage("donors", "drain", lender, "--key", the_key, "--force")
ok(forced.returncode == 1 and "admin key" in forced.stderr,
   "donors drain --force is refused by a donor without an admin key", shown(forced))
lender = Donor("--donate", "128M", "--slab", SLAB, "--key", the_key, "--admin-key", the_admin_key).uri
only_the_admin_key_drains(lender, the_key, the_admin_key)
drain_by_force_empties_the_donor(lender, the_key, the_admin_key)
donors_of_a_file_are_drained()
done()
