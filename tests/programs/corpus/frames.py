"""A table of a million rows in pandas: grouped, sorted and joined."""
import numpy
import pandas

ROWS = 1_000_000
random = numpy.random.default_rng(1)
table = pandas.DataFrame({"key": random.integers(0, 1000, ROWS), "value": random.integers(0, 1 << 30, ROWS),
                          "name": random.integers(0, 50, ROWS).astype(str)})
print(table.groupby("key").value.sum().max())
print(table.sort_values("value").iloc[::100000].key.tolist())
names = table.groupby("name").value.max().rename("largest")
print((table.merge(names, on="name").largest % 1000).sum())
