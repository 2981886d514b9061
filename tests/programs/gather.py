"""gather.py COUNT: arrays of COUNT numbers, sorted, summed and gathered. Prints only values that are the same on
every machine."""
import sys

import numpy

count = int(sys.argv[1])
numbers = numpy.random.default_rng(1).integers(0, 1 << 40, count)
order = numpy.argsort(numbers, kind="stable")
ordered = numbers[order]
running = numpy.cumsum(ordered)
print(ordered[0], ordered[-1], int(running[-1]), int(running[::4096].sum() & ((1 << 62) - 1)))
