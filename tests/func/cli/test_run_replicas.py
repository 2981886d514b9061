#!/usr/bin/python3
"""
test_run_replicas.py: a program with two replicas of each page goes on when a donor is killed, and
when a second donor is killed after the rebuild. The program finds every byte as it was. Far memory is limited to the
pages that fit with two replicas in different failure domains.
"""
from donor import Donor, donor_options, donors, donors_end
from tap import done, farpage, ok, refused, shown, start

# For each line on standard input the program checks and writes 48 MiB in two rounds, and prints the wrong pages.
PROGRAM = """
import mmap, random, sys
PAGES = 12288
memory = mmap.mmap(-1, PAGES * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
words = memoryview(memory).cast("Q")
version = [0] * PAGES
wrong = 0
count = 0
def step(page, look):
    global wrong, count
    at = page * 512
    if look:
        wrong += words[at] != version[page] or words[at + 511] != version[page]
    count += 1
    version[page] = count << 16 | page
    words[at] = words[at + 511] = version[page]
for page in range(PAGES):
    step(page, False)
print("ready", flush=True)
for line in sys.stdin:
    for page in range(PAGES):
        step(page, True)
    for i in range(PAGES):
        step(random.randrange(PAGES), True)
    print("wrong", wrong, flush=True)
"""


def program_survives_two_deaths():
    three = donors(3, "--donate", "256M", "--slab", "4M")
    process = start("run", "--local", "12M", "--replicas", "2", "--timeout-ms", "20000", *donor_options(three), "--",
                    "/usr/bin/python3", "-c", PROGRAM)

    def round_of(name):
        process.stdin.write("\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        ok(answer == "wrong 0\n", name, answer)

    def told(text):
        """Reads standard error up to a line with @text. Returns false if there is none."""
        for line in process.stderr:
            if text in line:
                return True
        return False

    ok(process.stdout.readline() == "ready\n", "a program fills its memory")
    round_of("the program finds its memory as it was while all donors live")
    process.stdin.write("\n")
    process.stdin.flush()
    three[0].kill()
    answer = process.stdout.readline()
    ok(answer == "wrong 0\n", "the program finds its memory as it was when a donor is killed", answer)
    ok(told("rebuild: done"), "a rebuild makes the killed donor's replicas again")
    three[1].kill()
    round_of("the program finds its memory as it was when a second donor is killed")
    process.stdin.close()
    process.stdin = None
    err = process.stderr.read()
    ok(process.wait() == 0, "the program ends with status 0 after two donors were killed", err)
    process.stdout.close()
    process.stderr.close()


def program_started_after_a_death_uses_other_donors():
    """A running program starts another program after a donor has died."""
    three = donors(3, "--donate", "256M", "--slab", "4M")
    process = start("run", "--local", "12M", "--replicas", "2", *donor_options(three), "--", "/bin/sh", "-c",
                    'echo began; read line; exec /usr/bin/python3 -c "$0"', PROGRAM)
    began = process.stdout.readline()
    three[1].kill()
    out, err = process.communicate("\n\n")
    ok(began == "began\n" and process.returncode == 0 and out == "ready\nwrong 0\n",
       "a program that starts after a donor's death uses the other donors", (process.returncode, out, err))
    ok(f"donor {three[1].uri} does not answer" in err, "a program that starts after a donor's death names that donor",
       err)


def far_is_limited_by_failure_domains():
    """There are two racks. The smaller one limits far memory."""
    racks = [Donor("--donate", size, "--slab", "4M", "--domain", rack)
             for size, rack in (("16M", "r1"), ("16M", "r1"), ("12M", "r2"))]
    command = ["run", "--local", "12M", "--replicas", "2"]
    refused(farpage(*command, *donor_options(racks), "--far", "13M", "--", "true"),
            "a --far that does not fit into two failure domains is refused", "for as many replicas: 12M")
    taken = farpage(*command, *donor_options(racks), "--far", "12M", "--", "true")
    ok(not taken.returncode, "a --far that fits into two failure domains is accepted", shown(taken))
    refused(farpage(*command, *donor_options(racks[:2]), "--", "true"),
            "two replicas in one failure domain are refused with the reason", "in 1 failure domain")


far_is_limited_by_failure_domains()
donors_end()
program_survives_two_deaths()
donors_end()
program_started_after_a_death_uses_other_donors()
done()
