#!/usr/bin/python3
"""prose.py FILE...: counts sentences that must be read twice, in the comments of C, in Markdown and in manual pages.

A sentence counts if it has more than 30 words, or matches a pattern that our rules for writing forbid (docs/contributing.md).
Prints one line for each, then the count. Exit status 1 if the count is not 0.
"""
import re
import sys

LONG = 30  # words
FORBIDDEN = (
    r"\bbe it\b", r"\b(?:is|are|was|were|may|might|has|have) to be (?!opened)\b", r"\bhas had\b", r"\bhad had\b", r"\bhow-manieth\b",
    r"\bwhat there is of\b", r"^(?:Who|What|Of|Whose|That which|As what)\s(?!follows|happens|goes)[a-z]+ ", r"^Whether\b",
    r"\bsuch as want\b", r"\bso (?:few|much) that\b",
)
PATTERNS = [re.compile(pattern) for pattern in FORBIDDEN]


def comments(text):
    """Yields the comments of a C file as blocks of prose (line, text)."""
    for found in re.finditer(r"/\*(.*?)\*/", text, re.S):
        line = text.count("\n", 0, found.start()) + 1
        block = []
        starred = re.search(r"\n\s*\*", found[1])
        for row in found[1].split("\n"):
            row = re.sub(r"^\s*\* ?", "", row) if starred else row.strip()
            if not row.strip() or re.match(r"\s*(?:[-*+]|\d+\.)\s|\s{3,}\S|\s*\S+(?:,? \S+){0,6}\s{2,}\S", row):
                yield line, " ".join(block)
                line += len(block)
                block = []
                row = re.sub(r"^\s*(?:[-*+]|\d+\.)\s", "", row)
                row = "" if re.search(r"--|->|  \S+  ", row) else row # a drawing
            block.append(row.strip())
        yield line, " ".join(block)


def paragraphs(text, manual):
    """Yields the blocks of prose of a Markdown file or a manual page."""
    block, start, code = [], 1, False
    for number, row in enumerate(text.split("\n"), 1):
        fence = row.startswith("```") or (manual and row.startswith((".Bd", ".Ed")))
        code ^= fence
        ends = fence or code or not row.strip() or row.startswith(("    ", "|", "#", ".", "- ", "* ", "<")) or \
            re.match(r"\d+\. ", row)
        if ends:
            yield start, " ".join(block)
            block, start = [], number
            if manual or fence or code or row.startswith(("    ", "|", "#", ".", "<")):
                continue
            row = re.sub(r"^(?:[-*]|\d+\.) ", "", row)
        block.append(row.strip())
    yield start, " ".join(block)


def sentences(block):
    block = re.sub(r"`[^`]*`|\([^()]*\)|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "x", block)
    block = re.sub(r"\b(?:e\.g|i\.e|etc|vs)\.", "x", block)
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+|(?<=:)\s+(?=[A-Z])", block.strip()) if sentence]


def judge(sentence):
    if len(re.findall(r"[A-Za-z][\w'-]*", sentence)) > LONG:
        return "long"
    for pattern in PATTERNS:
        if pattern.search(sentence):
            return "pattern"
    return None


def main():
    count = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        blocks = comments(text) if path.endswith((".c", ".h")) else paragraphs(text, not path.endswith(".md"))
        for line, block in blocks:
            for sentence in sentences(block):
                why = judge(sentence)
                if why:
                    count += 1
                    print(f"{path}:{line}: {why}: {sentence[:160]}")
    print(f"{count} sentences to write again")
    return 1 if count else 0


sys.exit(main())
