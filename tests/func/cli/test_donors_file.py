#!/usr/bin/python3
"""
test_donors_file.py: donors are added to a donors file and removed from it while a program works on all its memory. The
pages follow, no page is lost or wrong, and bad versions of the file are refused.
"""
import os
import shutil
import threading

from donor import donors
from pages import PAGES
from tap import FOLDER, done, farpage, ok, shown, start, wait_until

# The program reads and writes every page over and over. It fills half of its memory first, and the other half when it is
# told to.
PROGRAM = PAGES + """
def work(pages):
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(500):
            page = random.randrange(pages)
            check(page)
            write(page)
    sys.stdin.readline()
for page in range(PAGES // 2):
    write(page)
print('half', flush=True)
work(PAGES // 2)
for page in range(PAGES // 2, PAGES):
    write(page)
print('full', flush=True)
work(PAGES)
for page in range(PAGES):
    check(page)
print('right', flush=True)
"""
PATH = FOLDER / "donors"


def name(*lines):
    """Renames a new version over the donors file, as editors do."""
    fresh = FOLDER / "donors.new"
    fresh.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    os.rename(fresh, PATH)


def overwrite(*lines):
    """Writes the file in place, as `echo >` does."""
    PATH.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class Job:
    def __init__(self, *options):
        self.lines = []
        self.process = start("run", "--local", "16M", *options, "--", "/usr/bin/python3", "-c", PROGRAM)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line.strip())

    def says(self):
        return self.process.stdout.readline()

    def goes_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def logs(self, *words):
        """Waits for a log line that has all words. Returns true if it comes."""
        return wait_until(lambda: any(all(word in line for word in words) for line in self.lines))

    def ends(self):
        self.goes_on()
        output = self.says()
        self.process.wait()
        self.reader.join()
        return self.process.returncode == 0 and output == "right\n"


def leased(donor):
    return donor.says()["leased_bytes"]


def a_running_job_follows_its_donors_file():
    a, b, c = donors(3, "--donate", "64M", "--slab", "4M")
    name("# three racks", "", a.uri, f"{b.uri} # the second")
    job = Job("--donor", f"@{PATH}")
    ok(job.says() == "half\n" and leased(a) + leased(b) > 0 and leased(c) == 0,
       "a job uses the donors that its file names", job.lines)
    overwrite(a.uri, b.uri, c.uri)
    ok(job.logs(c.uri, "is added"), "a donor that is written into the file is added", job.lines)
    job.goes_on()
    ok(job.says() == "full\n" and wait_until(lambda: leased(c) > 0), "an added donor gets leases", job.lines)

    before = leased(a) + leased(b) + leased(c)
    for what, lines in (("a line that is no address", (c.uri, "nonsense")),
                        ("a donor twice", (c.uri, c.uri)),
                        ("no donor", ("# none",)),
                        ("a new donor by name", (a.uri, b.uri, c.uri, "tcp://localhost:9"))):
        count = len(job.lines)
        name(*lines)
        ok(wait_until(lambda: len(job.lines) > count) and str(PATH) in job.lines[-1] and "line " in job.lines[-1],
           f"{what}: the new version is refused", job.lines)
        ok(len(job.lines) == count + 1, f"{what}: the refusal is one line", job.lines)
    ok(leased(a) > 0 and leased(b) > 0 and leased(c) > 0, "bad versions move no page", before)

    name(b.uri, c.uri)
    ok(job.logs(a.uri, "moved to other donors"), "a removed donor is told", job.lines)
    ok(job.logs(a.uri, "is let go") and wait_until(lambda: leased(a) == 0 and a.says()["clients"] == 0),
       "a removed donor is emptied and let go", job.lines)
    a.kill()
    ok(job.ends(), "every page has its last write after the removed donor was killed", job.lines)


def a_donor_stays_while_no_other_has_room():
    a, b = donors(2, "--donate", "64M", "--slab", "4M")
    small = donors(1, "--donate", "4M", "--slab", "4M")[0]
    name(a.uri, small.uri)
    job = Job("--donor", f"@{PATH}")
    ok(job.says() == "half\n", "a job fills a donor", job.lines)
    name(small.uri)
    ok(job.logs(a.uri, "no other donor takes"), "a run logs that no other donor has room for a removed donor's slabs", job.lines)
    ok(leased(a) > 0, "the pages stay on the removed donor", job.lines)
    job.goes_on()
    ok(job.says() == "full\n", "a job that needs more memory gets it from the removed donor, if no other has room",
       job.lines)
    name(small.uri, b.uri)
    ok(job.logs(a.uri, "is let go") and wait_until(lambda: leased(a) == 0),
       "the pages move once a donor with room is added", job.lines)
    name(small.uri, b.uri, a.uri)
    ok(job.logs(a.uri, "is added"), "a donor that was let go is added again", job.lines)
    ok(job.ends(), "every page has its last write after all changes", job.lines)


def replicas_move_with_their_donors():
    started = donors(4, "--donate", "64M", "--slab", "4M")
    name(*(donor.uri for donor in started[:3]))
    job = Job("--replicas", "2", "--donor", f"@{PATH}")
    ok(job.says() == "half\n", "a job with two replicas begins", job.lines)
    name(started[0].uri)
    ok(job.logs("2 replicas need as many donors"), "fewer donors than replicas are refused", job.lines)
    name(started[3].uri, started[1].uri, started[2].uri)
    ok(job.logs(started[3].uri, "is added") and job.logs(started[0].uri, "is let go"),
       "a donor takes the place of another one", job.lines)
    job.goes_on()
    ok(job.says() == "full\n", "the job goes on", job.lines)
    started[0].kill()
    started[1].kill()
    ok(job.ends(), "every page has its last write after a second donor was killed", job.lines)


def a_config_map_is_followed():
    """Kubernetes replaces all files of a ConfigMap at once by replacing the link ..data."""
    folder = FOLDER / "map"

    def version(number, *lines):
        (folder / f"..{number}").mkdir(parents=True)
        (folder / f"..{number}" / "donors").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (folder / "..data_tmp").symlink_to(f"..{number}")
        os.rename(folder / "..data_tmp", folder / "..data")

    a, b, c = donors(3, "--donate", "64M", "--slab", "4M")
    version(1, a.uri)
    (folder / "donors").symlink_to("..data/donors")
    job = Job("--donor", f"@{folder / 'donors'}")
    ok(job.says() == "half\n", "a job begins with a ConfigMap", job.lines)
    version(2, a.uri, b.uri)
    shutil.rmtree(folder / "..1")
    ok(job.logs(b.uri, "is added"), "a donor in the next version of a ConfigMap is added", job.lines)
    version(3, b.uri, c.uri)
    shutil.rmtree(folder / "..2")
    ok(job.logs(c.uri, "is added") and job.logs(a.uri, "is let go"),
       "a donor that the third version does not name is let go", job.lines)
    job.goes_on()
    ok(job.says() == "full\n" and job.ends(), "every page has its last write after two versions", job.lines)
    ok(not any("cannot watch" in line for line in job.lines), "the ConfigMap stays watched", job.lines)


def a_bad_file_begins_nothing():
    name("nonsense")
    for verb in (("run",), ("donors",), ("doctor",), ("disk", "attach"), ("swap", "on"), ("bench",)):
        rest = ("--", "true") if verb == ("run",) else ()
        result = farpage(*verb, "--donor", f"@{PATH}", *rest)
        ok(result.returncode == (125 if verb == ("run",) else 2) and len(result.stderr.splitlines()) == 1 and
           f"{PATH}: line 1: \"nonsense\" is not a donor's address" in result.stderr,
           f"{' '.join(verb)}: a bad donors file is refused with one line", shown(result))
    result = farpage("donors", "--donor", f"@{PATH}.none")
    ok(result.returncode == 2 and "No such file" in result.stderr, "a missing donors file is refused", shown(result))


a_bad_file_begins_nothing()
a_running_job_follows_its_donors_file()
a_donor_stays_while_no_other_has_room()
replicas_move_with_their_donors()
a_config_map_is_followed()
done()
