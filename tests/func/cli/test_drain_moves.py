#!/usr/bin/python3
"""
test_drain_moves.py: donors are drained and killed while a program works on all its memory. The pages
move to other donors, and no page is lost or wrong.
"""
from donor import donor_options, donors
from pages import PAGES
from tap import done, farpage, ok, shown, start

# The program reads and writes every page over and over.
PROGRAM = PAGES + """
for page in range(PAGES):
    write(page)
print('here', flush=True)
rounds = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(500):
        page = random.randrange(PAGES)
        check(page)
        write(page)
    rounds += 1
for page in range(PAGES):
    check(page)
print('right', rounds, flush=True)
"""


def drained_pages_move_to_other_donors(replicas, count):
    name = f"{replicas} replica{'s' if replicas > 1 else ''}, {count} donors"
    started = donors(count, "--donate", "128M", "--slab", "4M")
    program = start("run", "--local", "16M", "--replicas", replicas, *donor_options(started), "--", "/usr/bin/python3", "-c",
                    PROGRAM)
    ok(program.stdout.readline() == "here\n", f"{name}: a program fills its memory")
    result = farpage("donors", "drain", started[0].uri, "--timeout", "50")
    ok(result.returncode == 0 and "safe to power it off" in result.stdout,
       f"{name}: a donor is drained while the program works", shown(result))
    started[0].kill()
    result = farpage("donors", "drain", started[1].uri, "--force", "--deadline", "30", "--timeout", "50") \
        if count > replicas + 1 else None
    if result:
        ok(result.returncode == 0, f"{name}: a second donor is drained by force", shown(result))
    output, errors = program.communicate("\n")
    ok(program.returncode == 0 and output.startswith("right "),
       f"{name}: every page has its last write after drained donors are powered off", program.returncode, output,
       errors)


drained_pages_move_to_other_donors(1, 3)
drained_pages_move_to_other_donors(2, 3)
done()
