#!/usr/bin/python3
"""test_roll.py: farpage donors roll drains one donor after the other, runs a command for each, and undrains it."""
import json
import signal
import subprocess
from pathlib import Path

from donor import Donor, donor_options, donors, no_donors
from pages import PAGES
from tap import FARPAGE, FOLDER, done, farpage, make_key, ok, refused, shown, start, wait_until

LEND = ("--donate", "128M", "--slab", "4M")
# It reads and writes every page over and over, until a line arrives.
WORKER = PAGES + """
for page in range(PAGES):
    write(page)
print('here', flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(500):
        page = random.randrange(PAGES)
        check(page)
        write(page)
for page in range(PAGES):
    check(page)
print('right', flush=True)
"""
LOG = FOLDER / "each.log"
ASK = f"{FARPAGE} donors --json" # in a command of --each, with --donor and its value


def worker(*of):
    program = start("run", "--local", "16M", *donor_options(of), "--", "/usr/bin/python3", "-c", WORKER)
    program.stdout.readline()
    return program


def ends_right(program, name):
    output, errors = program.communicate("\n", timeout=60)
    ok(program.returncode == 0 and output == "right\n", name, program.returncode, output, errors)


def roll(of, command, *options, **popen):
    LOG.unlink(missing_ok=True)
    return farpage("donors", "roll", *[donor.uri for donor in of], "--each", command, *options, **popen)


def log_command():
    """A command that appends the donor to LOG."""
    return f'echo "$FARPAGE_DONOR" >>{LOG}'


def logged():
    return LOG.read_text().split() if LOG.exists() else []


def states(of):
    return [donor.says()["state"] for donor in of]


def stops(result, name, *words):
    """A roll that stops has status 1, and its last line on standard error has @words."""
    line = result.stderr.strip().rpartition("\n")[2]
    ok(result.returncode == 1 and all(word in line for word in ("farpage: donors roll: ", *words)), name, shown(result),
       f"words: {words}")


def wrong_usage_is_refused(of):
    first, second = of[0].uri, of[1].uri
    both = FOLDER / "both"
    both.write_text(f"{first}\n{second}\n", encoding="utf-8")
    for name, says, words in (("without a donor", "name one", ["--each", "true"]),
                              ("without a command", "--each CMD", [first]),
                              ("with a donor that is given twice", "twice", [first, second, first, "--each", "true"]),
                              ("with --from a donor that is not among them", "--from tcp://x",
                               [first, second, "--each", "true", "--from", "tcp://x"]),
                              ("with a donors file and a donor", "stands alone", [f"@{both}", first, "--each", "true"]),
                              ("with a donors file that does not exist", "/none", ["@/none", "--each", "true"]),
                              ("with --deadline and without --force", "--force",
                               [first, "--each", "true", "--deadline", "5"])):
        refused(farpage("donors", "roll", *words), f"donors roll is refused {name}", says, status=2)
    ok(states(of) == ["lending"] * 3, "refused rolls leave all donors lending", states(of))


def nothing_is_drained_unless_all_are_ready(of):
    with no_donors() as (_, nobody):
        LOG.unlink(missing_ok=True)
        result = farpage("donors", "roll", of[0].uri, nobody, "--each", log_command())
        stops(result, "a roll with a donor that does not exist stops before the first donor",
              "1 of 2 donors is not ready, so nothing is drained")
        ok(nobody in result.stderr and not logged() and states(of[:1]) == ["lending"],
           "such a roll names this donor, drains nothing and runs nothing", shown(result))
        result = farpage("donors", "roll", nobody, of[0].uri, "--each", log_command(), "--from", of[0].uri)
        ok(result.returncode == 0 and logged() == [of[0].uri] and not result.stderr,
           "a donor before --from need not answer", shown(result))
    farpage("donors", "drain", of[1].uri)
    result = roll(of, log_command())
    stops(result, "a roll with a donor that is drained already stops before the first donor", "nothing is drained")
    ok(f"{of[1].uri} is drained already" in result.stderr and not logged() and
       states(of) == ["lending", "draining", "lending"], "such a roll leaves each donor as it was", shown(result))
    farpage("donors", "undrain", of[1].uri)


def rights_are_checked_first():
    key, admin_key = make_key(), make_key("admin-key")
    of = [Donor(*LEND, "--key", key), Donor(*LEND, "--key", key, "--admin-key", admin_key)]
    result = roll(of, log_command(), "--key", key)
    stops(result, "a roll stops before the first donor if the second needs the admin key", "nothing is drained")
    ok("--admin-key FILE" in result.stderr and not logged(), "such a roll names --admin-key", shown(result))
    result = roll(of, log_command(), "--key", make_key("other-key"))
    stops(result, "a roll with a wrong key stops before the first donor", "2 of 2 donors are not ready")
    result = roll(of[1:], log_command(), "--admin-key", admin_key)
    ok(result.returncode == 0 and logged() == [of[1].uri], "a roll with the admin key succeeds", shown(result))


def pages_stay_right_during_a_roll(of):
    program = worker(*of)
    listed = FOLDER / "donors"
    listed.write_text("# all\n" + "".join(f"{donor.uri}\n" for donor in of), encoding="utf-8")
    asked = " ".join(donor_options(of))
    LOG.unlink(missing_ok=True)
    result = farpage("donors", "roll", f"@{listed}", "--timeout", "50", "--each",
                     f'echo "runs for $FARPAGE_DONOR_HOST"; echo "but" >&2; {ASK} {asked} | tr -d "\\n" >>{LOG}; echo >>{LOG}')
    ok(result.returncode == 0 and result.stdout.endswith("3 donors are rolled\n"),
       "a roll of a donors file succeeds while a program works", shown(result))
    ends_right(program, "the program's pages are right after a roll of all its donors")
    seen = [json.loads(line)["donors"] for line in LOG.read_text().splitlines()]
    ok([[donor["state"] for donor in each] for each in seen] ==
       [["draining" if i == turn else "lending" for i in range(3)] for turn in range(3)] and
       all(each[turn]["leased_bytes"] == 0 for turn, each in enumerate(seen)),
       "while the command runs, only its donor is drained, and this donor is empty", seen)
    ok(all(sum(donor["leased_bytes"] for donor in each) >= 32 << 20 for each in seen),
       "the other donors have the pages meanwhile", seen)
    ok(states(of) == ["lending"] * 3, "all donors lend after a roll", states(of))
    host = of[0].uri.partition("://")[2].rpartition(":")[0]
    ok(result.stdout.count(f"runs for {host}\n") == 3 and result.stderr.count("but\n") == 3,
       "the command's output and errors pass through, and it knows the donor's host", shown(result))
    ok(all(f"[{i + 1}/3] {donor.uri}: {step}" in result.stdout for i, donor in enumerate(of)
           for step in ("drains", "empty after", "lends again")), "each step has its line", shown(result))


def a_failed_command_stops_the_roll(of):
    result = roll(of, f'{log_command()}; [ "$FARPAGE_DONOR" != {of[1].uri} ] || exit 3', "--json")
    stops(result, "a command that fails stops the roll, and the line says how to go on",
          f"the command for {of[1].uri} ended with status 3", "the donor stays drained", f"--from {of[1].uri}", f"--from {of[2].uri}")
    ok(states(of) == ["lending", "draining", "lending"], "the donor of a failed command stays drained", states(of))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    ok([(each["donor"], each["command_status"], each["result"], each["state"]) for each in answers] ==
       [(of[0].uri, 0, "rolled", "lending"), (of[1].uri, 3, "command-failed", "draining")] and
       all(each["drained_seconds"] >= 0 for each in answers), "roll --json prints an object for each donor", shown(result))
    result = roll(of, f"{log_command()}; echo noise", "--from", of[1].uri, "--json")
    ok(result.returncode == 0 and logged() == [of[1].uri, of[2].uri] and states(of) == ["lending"] * 3,
       "roll --from goes on with a drained donor, and passes over the donors before it", shown(result))
    ok(len([json.loads(line) for line in result.stdout.splitlines()]) == 2 and result.stderr == "noise\nnoise\n",
       "with --json the command's output goes to standard error", shown(result))


def kill_command(donor):
    """A command that kills a donor, and ends when the donor's process has ended."""
    pid = donor.process.pid
    return f"kill -KILL {pid}; while grep -q '^State:.[^Z]' /proc/{pid}/status 2>/dev/null; do sleep 0.01; done; echo killed"


def restarted_donors_lend_again():
    for name, options in (("that forgets its drain", []), ("that remembers its drain", ["--drain-file", FOLDER / "drained"])):
        donor = Donor(*LEND, *options)
        process = start("donors", "roll", donor.uri, "--each", kill_command(donor))
        wait_until(lambda process=process: process.stdout.readline() == "killed\n")
        donor.stop()
        ok(process.poll() is None, f"a roll waits for a donor {name}")
        donor.again()
        output, errors = process.communicate(timeout=60)
        ok(process.returncode == 0 and states([donor]) == ["lending"], f"a donor {name} lends again after its restart",
           process.returncode, output, errors)
    donor = Donor(*LEND)
    result = roll([donor], "true", "--restarts", "--return", "1")
    stops(result, "roll --restarts stops if the command does not restart the donor", "is not restarted", "stays drained")
    process = start("donors", "roll", donor.uri, "--from", donor.uri, "--restarts", "--each", kill_command(donor))
    wait_until(lambda: process.stdout.readline() == "killed\n")
    donor.stop()
    donor.again()
    output, errors = process.communicate(timeout=60)
    ok(process.returncode == 0 and states([donor]) == ["lending"], "roll --restarts goes on after a restart", output, errors)
    result = roll([donor], kill_command(donor), "--return", "0")
    stops(result, "a roll stops if the donor does not come back", "is not back after its command", "does not answer")
    donor.stop()


def a_failed_command_drains_a_restarted_donor():
    """The donor is restarted while the command runs, so it forgets its drain. Then the command fails."""
    donor, told, restarted = Donor(*LEND), FOLDER / "told", FOLDER / "restarted"
    process = start("donors", "roll", donor.uri, "--each", f"touch {told}; until [ -e {restarted} ]; do sleep 0.01; done; false")
    wait_until(told.exists)
    donor.kill()
    donor.again()
    ok(states([donor]) == ["lending"], "a donor without a drain file lends after its restart")
    restarted.touch()
    process.communicate(timeout=60)
    ok(process.returncode == 1 and states([donor]) == ["draining"], "a donor that its failed command has restarted is drained",
       states([donor]))


def drains_that_cannot_finish_are_undone():
    full, small = Donor(*LEND), Donor("--donate", "16M", "--slab", "4M")
    program = worker(full)
    result = roll([full, small], log_command(), "--timeout", "1")
    stops(result, "a roll stops at a donor that is not empty in time", f"{full.uri} is not empty after 1 s", "the donor lends again",
          f"--from {full.uri}")
    ok("the other donors have only 16M free" in result.stderr, "a roll warns if the other donors have too little free memory",
       shown(result))
    ok("  client " in result.stdout and not logged() and states([full]) == ["lending"],
       "such a roll names the clients, runs nothing and undrains the donor", shown(result))
    process = start("donors", "roll", full.uri, "--each", log_command())
    line = process.stdout.readline()
    ok(states([full]) == ["draining"] and "drains" in line, "a roll waits for a donor that cannot be emptied", line)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    stops(subprocess.CompletedProcess([], process.returncode, output, errors), "SIGINT ends a roll during a drain",
          "stopped by signal 2 during the drain", "the donor lends again", f"--from {full.uri}")
    ok(states([full]) == ["lending"] and not logged(), "SIGINT undrains the donor", states([full]))
    ends_right(program, "the program's pages are right after drains that were undone")


def is_gone(pid):
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return True


def a_signal_ends_the_command(of):
    pids = FOLDER / "pids"
    process = start("donors", "roll", *[donor.uri for donor in of], "--each",
                    f"sleep 1000 & echo $! >{pids}.new; mv {pids}.new {pids}; wait; true")
    wait_until(pids.exists)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    stops(subprocess.CompletedProcess([], process.returncode, output, errors), "SIGTERM ends a roll during its command",
          "stopped by signal 15 during the command", "stays drained", f"--from {of[0].uri}")
    ok(wait_until(lambda: is_gone(pids.read_text().strip())), "SIGTERM reaches all processes of the command")
    ok(states(of) == ["draining", "lending", "lending"], "the donor of an ended command stays drained", states(of))
    farpage("donors", "undrain", of[0].uri)


three = donors(3, *LEND)
wrong_usage_is_refused(three)
nothing_is_drained_unless_all_are_ready(three)
rights_are_checked_first()
pages_stay_right_during_a_roll(three)
a_failed_command_stops_the_roll(three)
a_signal_ends_the_command(three)
restarted_donors_lend_again()
a_failed_command_drains_a_restarted_donor()
drains_that_cannot_finish_are_undone()
done()
