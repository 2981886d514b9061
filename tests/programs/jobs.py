"""Real programs on real text, for the demo and the benchmark of programs.

The text comes from files of every Debian machine: the package manager's lists of files, then /usr/share/doc,
/usr/include and the rest of /usr/share. A line is its source, a tab, and the text. If a machine has too little text,
the same text comes again under another source.
"""
import gzip
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINE_MAX = 160


class Job:
    """A command, its standard input, and its usual name.

    probe: the program that uses the memory, with an argument that ends it at once.
    folder: where the command runs; None: in the folder of Processes.
    """

    def __init__(self, name, command, stdin=None, environment=None, probe=None, folder=None):
        self.name = name
        self.command = command
        self.probe = probe or (command[0], "--version")
        self.stdin = stdin
        self.folder = folder
        self.environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", **(environment or {})}


def _text_files():
    yield from sorted(Path("/var/lib/dpkg/info").glob("*.list"))
    for top in ("/usr/share/doc", "/usr/include", "/usr/share"):
        for folder, folders, files in os.walk(top):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield path


def _text_lines(path):
    """Yields the lines of a text file; yields nothing for another file."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            text = file.read(1 << 20)
    except (OSError, EOFError):
        return
    if b"\0" in text[:4096]:
        return
    for line in text.decode("utf-8", "replace").splitlines():
        line = " ".join(line.split())
        if line:
            yield line[:LINE_MAX]


def write_text(path, size):
    """Writes about @size bytes of whole lines to @path."""
    written = 0
    again = 0
    with open(path, "w", encoding="utf-8") as out:
        while written < size:
            before = written
            for source in _text_files():
                name = source.name if not again else f"{source.name}#{again}"
                for line in _text_lines(source):
                    line = f"{name}\t{line}\n"
                    out.write(line)
                    written += len(line)
                if written >= size:
                    return
            if written == before:
                raise SystemExit("no text found in /var/lib/dpkg/info and /usr/share")
            again += 1


def make_jobs(folder, scale):
    """Writes the inputs to @folder and returns the jobs, which run there. At @scale 1 they use about 400, 180 and
    230 MB."""
    folder = Path(folder)
    text, rows, words = folder / "text", folder / "rows", folder / "words"
    write_text(text, int(220 * scale) << 20)
    write_head(text, rows, int(52 * scale) << 20)
    write_head(text, words, int(52 * scale) << 20)
    return [
        Job("sqlite3", ["/usr/bin/sqlite3", ":memory:"], stdin=HERE / "join.sql"),
        sort_job(text, int(600 * scale) << 20),
        Job("python3", ["/usr/bin/python3", str(HERE / "words.py"), str(words)]),
    ]


def make_more_jobs(scale):
    """Returns two more jobs, which need Debian's python3-numpy and redis-server. At @scale 1 they use about 400 and
    180 MB."""
    return [
        Job("numpy", ["/usr/bin/python3", str(HERE / "gather.py"), str(int(12e6 * scale))]),
        Job("Redis", ["/bin/sh", str(HERE / "gets.sh"), str(int(60e4 * scale))], 
            probe=("/usr/bin/redis-server", "--version")),
    ]


def sort_job(text, buffer):
    """A job that sorts the lines of the file @text by their text, with at most @buffer bytes of memory."""
    return Job("sort", ["/usr/bin/sort", "--parallel=1", f"--buffer-size={buffer >> 10}K", "--field-separator=\t",
                        "--key=2", str(text)])


def write_head(source, target, size):
    with open(source, "rb") as whole, open(target, "wb") as part:
        while size > 0 and (block := whole.read(min(size, 1 << 20))):
            part.write(block)
            size -= len(block)
        part.write(whole.readline())
