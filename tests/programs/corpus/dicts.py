"""Dicts, lists and strings: what Python programs are made of."""
table = {}
for number in range(80000):
    table[f"key {number * 7919 % 80000}"] = [number, str(number)]
print(len(table), sum(value[0] for value in table.values()), sum(len(value[1]) for value in table.values()))
for number in range(0, 80000, 7919):
    print(table[f"key {number}"])
