"""generate.py KIND: text of a few megabytes that is the same each time."""
import random
import sys

random.seed(16)
if sys.argv[1] == "lines":
    for number in range(400000):
        print(random.getrandbits(40), "line", number)
elif sys.argv[1] == "source":
    print("int all(int x)\n{\n\tint s = 0;")
    for number in range(1000):
        print(f"\tif (x % {number + 3} == {number % 7}) s += x * {random.getrandbits(20)} ^ s >> {number % 13};")
    print("\treturn s;\n}")
elif sys.argv[1] == "commits":
    for number in range(300):
        text = "".join(f"{random.getrandbits(64):x}\n" for _ in range(8000))
        name = f"file{number % 10}"
        print(f"commit refs/heads/main\ncommitter a <a@b> {number} +0000\ndata 1\nc\nM 100644 inline {name}\ndata {len(text)}\n{text}")
elif sys.argv[1] == "reads":
    print("@SQ\tSN:genome\tLN:1000000")
    for number in range(300000):
        print(f"read{number}\t0\tgenome\t{random.randrange(1, 999900)}\t60\t100M\t*\t0\t0\t{'ACGT' * 25}\t{'I' * 100}")
