"""pool.py METHOD: worker processes look things up in a large dict. The dict is their parent's (fork), or each worker
has its own."""
import multiprocessing
import sys

table = {}


def fill():
    if not table:
        table.update((number, str(number) * 5) for number in range(200000))


def look(part):
    fill()
    return sum(len(table[number]) for number in range(part, 200000, 4))


if __name__ == "__main__":
    fill()
    with multiprocessing.get_context(sys.argv[1]).Pool(3) as pool:
        print(pool.map(look, range(4)))
