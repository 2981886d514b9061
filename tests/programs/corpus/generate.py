"""generate.py KIND: text of a few megabytes that is the same each time. The KIND pairs writes two files."""
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
elif sys.argv[1] == "numbers":
    for _ in range(20000):
        print(*(random.randrange(10**6) for _ in range(10)), sep=",")
elif sys.argv[1] == "pairs":
    genome = "".join(random.choice("ACGT") for _ in range(200000))
    with open("left.fastq", "w", encoding="ascii") as left, open("right.fastq", "w", encoding="ascii") as right:
        for number in range(20000):
            start = random.randrange(len(genome) - 300)
            after = genome[start + 200:start + 300].translate(str.maketrans("ACGT", "TGCA"))[::-1]
            print(f"@{number}\n{genome[start:start + 100]}\n+\n{'I' * 100}", file=left)
            print(f"@{number}\n{after}\n+\n{'I' * 100}", file=right)
