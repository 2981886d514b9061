"""documents: reads commands, files and names from documents in Markdown.

An indented block has commands of a shell. A fenced block begins with its kind: ini, yaml or c for a part of a file,
text for output. README.md's drawing is the only fenced block without a kind.
"""
import re
import shlex

KINDS = ("c", "ini", "yaml", "text")


class Document:
    """A document. @commands are (line, text) of each command, @fences (line, kind, text) of each fenced block."""

    def __init__(self, path):
        self.path = path
        self.name = path.name
        self.text = path.read_text(encoding="utf-8")
        self.commands, self.fences, prose, indented = [], [], [], []
        fence = None
        for number, line in enumerate(self.text.split("\n") + [""], 1):
            if fence:
                if line == "```":
                    self.fences.append((fence[0], fence[1], "\n".join(fence[2:])))
                    fence = None
                else:
                    fence.append(line)
            elif line.startswith("```"):
                fence = [number, line[3:]]
            elif line.startswith("    ") or (indented and not line.strip()):
                indented.append((number, line[4:]))
            else:
                self.commands += commands_of(indented)
                indented = []
                prose.append(line)
        self.commands += commands_of(indented)
        self.prose = re.sub(r"<!--.*?-->", "", "\n".join(prose), flags=re.DOTALL)

    def codes(self):
        """Returns the inline code of the text."""
        return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", self.prose)]

    def links(self):
        """Returns the targets of links to other documents and to headings."""
        return [link for link in re.findall(r"\]\(([^)\s]+)\)", self.prose) if not link.startswith("http")]

    def anchors(self):
        """Returns the names of the headings, as GitHub makes them."""
        titles = re.findall(r"^#+ (.*)", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def commands_of(lines):
    """Splits the lines of a block into commands. A command may have several lines, and files inside."""
    commands, begin, text, end = [], 0, "", None
    for number, line in lines:
        begin = begin if text else number
        text += line + "\n"
        if end is None:
            found = re.search(r"<<-?'?(\w+)", line)
            end = found[1] if found else None
        elif line == end:
            end = None
        if end or line.endswith("\\") or not is_quoted(text):
            continue
        if text.strip():
            commands.append((begin, text.strip("\n")))
        text = ""
    if text.strip():
        raise ValueError(f"line {begin}: this command has no end: {text}")
    return commands


def is_quoted(text):
    """Returns true if each quotation has an end."""
    try:
        shlex.split(re.sub(r"<<-?'?(\w+).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE))
    except ValueError:
        return False
    return True
