#!/usr/bin/python3
"""
test_run_replicas.py FARPAGE MEMSERVER: a program with two replicas of each page goes on when a donor is killed, and
when a second donor is killed after the rebuild. The program finds every byte as it was. Far memory is limited to the
pages that fit with two replicas in different failure domains.
"""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
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


def program_survives_two_deaths(donors):
    command = [farpage, "run", "--local", "12M", "--replicas", "2", "--timeout-ms", "20000"]
    for _, uri in donors:
        command += ["--donor", uri]
    process = subprocess.Popen([*command, "--", "/usr/bin/python3", "-c", PROGRAM], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

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
    donors[0][0].kill()
    answer = process.stdout.readline()
    ok(answer == "wrong 0\n", "the program finds its memory as it was when a donor is killed", answer)
    ok(told("rebuild: done"), "a rebuild makes the killed donor's replicas again")
    donors[1][0].kill()
    round_of("the program finds its memory as it was when a second donor is killed")
    process.stdin.close()
    process.stdin = None
    err = process.stderr.read()
    ok(process.wait() == 0, "the program ends with status 0 after two donors were killed", err)
    process.stdout.close()
    process.stderr.close()


def program_started_after_a_death_uses_other_donors(donors):
    """A running program starts another program after a donor has died."""
    command = [farpage, "run", "--local", "12M", "--replicas", "2"]
    for _, uri in donors:
        command += ["--donor", uri]
    process = subprocess.Popen([*command, "--", "/bin/sh", "-c", 'echo began; read line; exec /usr/bin/python3 -c "$0"',
                                PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    began = process.stdout.readline()
    donors[1][0].kill()
    donors[1][0].wait()
    out, err = process.communicate("\n\n")
    ok(began == "began\n" and process.returncode == 0 and out == "ready\nwrong 0\n",
       "a program that starts after a donor's death uses the other donors", (process.returncode, out, err))
    ok(f"donor {donors[1][1]} does not answer" in err, "a program that starts after a donor's death names that donor",
       err)


def far_is_limited_by_failure_domains():
    """There are two racks. The smaller one limits far memory."""
    command = [farpage, "run", "--local", "12M", "--replicas", "2"]
    for size, rack in (("16M", "r1"), ("16M", "r1"), ("12M", "r2")):
        command += ["--donor", start_donor(memserver, "--donate", size, "--slab", "4M", "--domain", rack)[1]]
    refused = subprocess.run([*command, "--far", "13M", "--", "true"], capture_output=True, text=True, check=False)
    ok(refused.returncode and "for as many replicas: 12M" in refused.stderr and refused.stderr.count("\n") == 1,
       "a --far that does not fit into two failure domains is refused", refused.stderr)
    taken = subprocess.run([*command, "--far", "12M", "--", "true"], capture_output=True, text=True, check=False)
    ok(not taken.returncode, "a --far that fits into two failure domains is accepted", taken.stderr)
    one = [word for word in command if word != command[-1]][:-1]
    refused = subprocess.run([*one, "--", "true"], capture_output=True, text=True, check=False)
    ok(refused.returncode and "in 1 failure domain" in refused.stderr and refused.stderr.count("\n") == 1,
       "two replicas in one failure domain are refused with the reason", refused.stderr)


try:
    far_is_limited_by_failure_domains()
    stop_donors()
    program_survives_two_deaths([start_donor(memserver, "--donate", "256M", "--slab", "4M") for _ in range(3)])
    stop_donors()
    program_started_after_a_death_uses_other_donors([start_donor(memserver, "--donate", "256M", "--slab", "4M")
                                                     for _ in range(3)])
finally:
    stop_donors()
done()
