"""words.py FILE: makes an index of the words of a text, in dicts and lists, and prints a summary."""
import sys


def main():
    index = {}   # word -> the lines it is in
    sources = {} # source -> its different words
    with open(sys.argv[1], encoding="utf-8") as text:
        for number, line in enumerate(text):
            source, _, says = line.partition("\t")
            seen = sources.setdefault(source, set())
            for word in says.replace("/", " ").split():
                index.setdefault(word, []).append(number)
                seen.add(word)
    lonely = sum(1 for lines in index.values() if len(lines) == 1)
    print(len(index), "words,", lonely, "of them once,", len(sources), "sources")
    for word in sorted(index, key=lambda word: (-len(index[word]), word))[:5000]:
        lines = index[word]
        print(word, len(lines), lines[0], lines[-1], sum(lines) % 1000003)
    for source in sorted(sources):
        rare = min(sources[source], key=lambda word: (len(index[word]), word), default="")
        print(source, len(sources[source]), rare)


main()
