#!/usr/bin/python3
"""
corpus.py [--all] [--only NAME] [--packages] [--table FILE] BIN: runs programs that people use under both engines of
farpage run.

Each program first runs by itself, and its output and exit status must be the same under an engine. One of these is
expected of an engine:

  far      the same output and exit status, within the budget, with memory on the donors
  local    the same output and exit status, and a line that says what stayed local
  refused  exit status 126, one line, and the program has not begun
  denied   no success, and a line that says that the user cannot read the key
  back     the same output and exit status, memory on the donors, and a line that memory came back beyond the budget
  -        not tried

Prints TAP. A program that is not installed is skipped; --packages lists the Debian packages of all. Without --all only the
light programs run. --table writes the results as a table into FILE (docs/programs.md), between its two marks.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

from processes import Processes
from tap import done, ok, skip, skip_all

HERE = Path(__file__).resolve().parent
FILES = HERE / "corpus"
LIMIT = 240 # seconds for one run
MIB = 1 << 20
MARKS = ("<!-- corpus -->", "<!-- end of corpus -->")

# name: the usual name. needs: programs that must be installed. check: for sh, fails if something else is missing.
# local: the budget. preload: a library for LD_PRELOAD, as a pattern. command: for sh, in a folder that has the
# corpus's files; its output is the same each time. before: a command that runs there first, without farpage.
Program = namedtuple("Program", "name packages needs check local preload command before pager swap light")


def program(name, command, packages="", needs="", check="", local="16M", preload="", before="", pager="far", swap="far",
            light=False):
    return Program(name, packages.split(), needs.split(), check, local, preload, command, before, pager, swap, light)


def preloaded(name, library, package):
    """sort with a malloc other than libc's."""
    return program(f"{name}, by LD_PRELOAD", "exec sort -S 200M --parallel=1 lines", package, preload=f"/usr/lib/*/{library}",
                   before=LINES)


CC = "cc -O1 -o memory memory.c"
STATIC = CC + " -static"
LINES = "python3 generate.py lines >lines"
KERNEL = "/var/cache/farpage/vm/*/vmlinuz"
JAVA = "exec java -Xmx256m -XX:{} Hashes.java"

PROGRAMS = [
    program("sqlite3, in memory", "exec sqlite3 :memory: '.read join.sql'", "sqlite3", "sqlite3", local="12M", light=True),
    program("sort", "exec sort -S 200M --parallel=1 lines", local="20M", before=LINES, light=True),
    program("Python, dicts", "exec python3 dicts.py", "python3", "python3", local="20M", light=True),
    program("Python, threads", "exec python3 threads.py", "python3", "python3", local="24M", light=True),
    program("Python, preexec_fn", "exec python3 preexec.py", "python3", "python3", local="24M", light=True),
    program("Python, multiprocessing by spawn", "exec python3 pool.py spawn", "python3", "python3", local="24M"),
    program("Python, multiprocessing by forkserver", "exec python3 pool.py forkserver", "python3", "python3", local="24M"),
    program("Python, multiprocessing by fork", "exec python3 pool.py fork", "python3", "python3", local="18M",
            light=True),
    program("Python, workers that make tables", "exec python3 workers.py", "python3", "python3", local="24M", light=True),
    program("Python, asyncio", "exec python3 tasks.py", "python3", "python3", local="20M"),
    program("Perl", "exec perl hashes.pl", "perl", "perl", local="14M", light=True),
    program("gcc", "exec gcc -O1 -S -o - source.c", "gcc", "gcc", local="24M", before="python3 generate.py source >source.c",
            light=True),
    program("xz", "exec xz -T1 -3 -c lines", "xz-utils", "xz", local="20M", before=LINES),
    program("tar and zstd, a pipeline", "tar -c lines | zstd -q -T1 -9 --long=25 | zstd -q -d --long=25 | tar -x -O | cksum",
            "zstd tar", "zstd", local="24M", before=LINES),
    program("git repack", "git -C repo repack -q -a -d -f --window=50 --threads=1 && git -C repo rev-list --all --objects | cksum",
            "git", "git", before="git init -q -b main repo && python3 generate.py commits | git -C repo fast-import --quiet"),
    program("a shell script of ten commands", "sh ten.sh", "xz-utils", "xz", before=LINES),
    program("a static program", "exec ./memory", "gcc libc6-dev", "cc", before=STATIC, pager="refused", light=True),
    program("busybox", "exec busybox sort lines", "busybox-static", "busybox", before=LINES, pager="refused"),
    program("shared memory", "exec ./memory shared", "gcc libc6-dev", "cc", before=CC, pager="local", light=True),
    program("mmap by a system call", "exec ./memory call", "gcc libc6-dev", "cc", before=CC, pager="local"),
    program("reserved memory, opened later", "exec ./memory reserve", "gcc libc6-dev", "cc", before=CC),
    program("a child that goes on after fork", "exec ./memory fork", "gcc libc6-dev", "cc", before=CC, light=True),
    program("a daemon that forks, then uses memory", "./memory service | cat", "gcc libc6-dev", "cc", before=CC, light=True),
    program("a daemon that forks with far memory", "./memory daemon | cat", "gcc libc6-dev", "cc", before=CC, pager="back",
            light=True),
    program("another user (setpriv)", "exec setpriv --reuid=65534 --clear-groups ./memory", "gcc libc6-dev util-linux",
            "cc setpriv", before=CC, pager="denied"),
    program("Redis, with BGSAVE", "exec sh redis.sh bgsave", "redis-server redis-tools", "redis-server redis-cli", local="24M"),
    program("Redis, with BGREWRITEAOF", "exec sh redis.sh bgrewriteaof", "redis-server redis-tools", "redis-server redis-cli",
            local="24M"),
    preloaded("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    preloaded("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    preloaded("mimalloc", "libmimalloc.so.2", "libmimalloc2.0"),
    program("Java, G1", JAVA.format("+UseG1GC"), "openjdk-17-jdk-headless", "java javac", local="64M"),
    program("Java, Serial", JAVA.format("+UseSerialGC"), "openjdk-17-jdk-headless", "java javac", local="64M"),
    program("Java, Parallel", JAVA.format("+UseParallelGC"), "openjdk-17-jdk-headless", "java javac", local="64M"),
    program("Java, ZGC", JAVA.format("+UseZGC"), "openjdk-17-jdk-headless", "java javac", local="64M", pager="local"),
    program("node", "exec node hashes.js", "nodejs", "node", local="48M"),
    program("Ruby", "exec ruby hashes.rb", "ruby", "ruby", local="24M"),
    program("PHP", "exec php hashes.php", "php-cli", "php", local="24M"),
    program("numpy and scipy", "exec /usr/bin/python3 arrays.py", "python3-scipy", check="/usr/bin/python3 -c 'import scipy'",
            local="64M"),
    program("Go, static", "exec ./hashes", "golang-go", "go", local="24M",
            before="CGO_ENABLED=0 GOCACHE=$PWD/cache go build -o hashes hashes.go", pager="refused"),
    program("Go, with cgo", "exec ./hashes", "golang-go gcc libc6-dev", "go gcc", local="24M",
            before="GOCACHE=$PWD/cache go build -o hashes hashes.go hashes_c.go"),
    program("jemalloc, linked statically", "exec ./memory", "gcc libc6-dev libjemalloc-dev", "cc", before=CC + " -l:libjemalloc.a -lm",
            check="ls /usr/lib/*/libjemalloc.a"),
    program("tcmalloc, linked statically", "exec ./memory", "g++ libgoogle-perftools-dev", "g++",
            before="g++ -O1 -o memory -x c memory.c -x none -l:libtcmalloc_minimal.a", check="ls /usr/lib/*/libtcmalloc_minimal.a",
            pager="refused"),
    program("another user (sudo)", "exec sudo -n -u nobody ./memory", "gcc libc6-dev sudo", "cc sudo", before=CC, pager="local"),
    program("R", "exec Rscript vectors.R", "r-base-core", "Rscript", local="48M"),
    program("Octave", "exec octave-cli -q matrices.m", "octave", "octave-cli", local="48M"),
    program("ImageMagick", "exec convert -size 1400x1400 -seed 16 plasma: -resize 150% -rotate 90 gray:-", "imagemagick", "convert",
            local="40M"),
    program("ffmpeg", "exec ffmpeg -v error -f lavfi -i testsrc2=size=1280x720:duration=2 -c:v mpeg4 -threads 1 -f md5 -", "ffmpeg",
            "ffmpeg", local="12M"),
    program("memcached", "exec python3 memcached.py", "memcached", "memcached", local="24M"),
    program("PostgreSQL, with pgbench", "exec sh postgres.sh", "postgresql", "setpriv", check="ls /usr/lib/postgresql/*/bin/initdb",
            local="48M", pager="denied"),
    program("MariaDB", "exec sh mariadb.sh", "mariadb-server", "mariadbd", local="64M"),
    program("ClickHouse, a column store", "exec sh clickhouse.sh", "clickhouse-server clickhouse-client",
            "clickhouse-server clickhouse-client", local="80M"),
    program("QEMU, with a guest that boots", f"exec sh guest.sh {KERNEL}", "qemu-system-x86 busybox-static cpio",
            "qemu-system-x86_64 busybox cpio", local="128M", check=f"ls {KERNEL}"),
    program("awk", "exec awk 'NR % 4 == 0 { table[$1] = $0 } END { for (key in table) sum += length(table[key]); print sum }' lines",
            "mawk", "awk", local="8M", before=LINES),
    program("pandas", "exec /usr/bin/python3 frames.py", "python3-pandas", check="/usr/bin/python3 -c 'import pandas'", local="96M"),
    program("scikit-learn", "exec /usr/bin/python3 forest.py", "python3-sklearn",
            check="/usr/bin/python3 -c 'import sklearn'", local="64M"),
    program("Haskell", "exec ./tree", "ghc", "ghc", local="32M", before="ghc -v0 -O -o tree Tree.hs"),
    program("Erlang", "exec erl -noshell -s tables main", "erlang-base", "erl erlc", local="48M", before="erlc tables.erl"),
    program("C#, by Mono", "exec mono Hashes.exe", "mono-mcs mono-runtime", "mono mcs", local="32M", before="mcs Hashes.cs"),
    program("Rust", "exec ./hashes", "rustc", "rustc", before="rustc -O hashes.rs"),
    program("Guile", "exec guile --no-auto-compile hashes.scm", "guile-3.0", "guile", local="24M"),
    program("Prolog", "exec swipl sorting.prolog", "swi-prolog-nox", "swipl", local="32M"),
    program("Lisp, by SBCL", "exec sbcl --script hashes.lisp", "sbcl", "sbcl", local="24M", pager="local"),
    program("Racket", "exec racket hashes.rkt", "racket", "racket", local="32M", pager="local"),
    program("Lisp, by ECL", "exec ecl --shell hashes.lisp", "ecl", "ecl", local="24M"),
    program("Lisp, by CLISP", "exec clisp -q hashes.lisp", "clisp", "clisp", pager="local"),
    program("Python, by PyPy", "exec pypy3 dicts.py", "pypy3", "pypy3", local="24M"),
    program("LuaJIT", "exec luajit hashes.lua", "luajit", "luajit", local="24M"),
    program("OCaml", "exec ./hashes", "ocaml-nox", "ocamlopt", local="24M", before="ocamlopt -o hashes hashes.ml"),
    program("data.table, in R", "exec Rscript groups.R", "r-cran-data.table", "Rscript",
            check="Rscript -e 'library(data.table)'", local="72M"),
    program("samtools sort", "exec samtools sort --no-PG -O sam reads", "samtools", "samtools", local="32M",
            before="python3 generate.py reads >reads"),
    program("SPAdes, which limits its address space", "exec sh assemble.sh", "spades", "spades.py", local="48M",
            before="python3 generate.py pairs"),
    program("PyTorch, with forked loaders", "exec /usr/bin/python3 training.py", "python3-torch", local="48M",
            check="/usr/bin/python3 -c 'import torch'"),
    program("GDAL", "exec /usr/bin/python3 raster.py", "python3-gdal", check="/usr/bin/python3 -c 'import osgeo'", local="40M"),
    program("OpenCV", "exec /usr/bin/python3 images.py", "python3-opencv", check="/usr/bin/python3 -c 'import cv2'", local="32M"),
    program("LibreOffice Calc", "exec sh calc.sh", "libreoffice-calc-nogui unzip", "soffice unzip", local="64M",
            before="python3 generate.py numbers >numbers.csv"),
    program("PHP-FPM, with workers of another user", "exec sh fpm.sh", "php-fpm libfcgi-bin", "cgi-fcgi",
            check="ls /usr/sbin/php-fpm*", local="24M"),
    program("MPI, by Open MPI and UCX", "mpirun.openmpi --allow-run-as-root --oversubscribe --mca pml ucx --mca opal_common_ucx_tls any "
            "--mca opal_common_ucx_devices any -np 2 ./ring", "openmpi-bin libopenmpi-dev gcc libc6-dev",
            "mpirun.openmpi mpicc.openmpi", local="24M", before="mpicc.openmpi -O1 -o ring ring.c"),
    program("MPI, by MPICH", "exec mpirun.mpich -np 2 ./ring", "mpich libmpich-dev gcc libc6-dev", "mpirun.mpich mpicc.mpich",
            local="24M", before="mpicc.mpich -O1 -o ring ring.c"),
    program("gunicorn, with forked workers", "exec sh gunicorn.sh", "gunicorn curl", "gunicorn curl", local="24M"),
]


def prepare(one, folder):
    """Makes a folder with the corpus's files and the program's needs. Returns the folder, or the error."""
    shutil.copytree(FILES, folder)
    os.chmod(folder, 0o755)
    result = subprocess.run(["sh", "-ec", one.before], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    return result.stderr if result.returncode else None


def lacking(one):
    """Returns the reason why the program cannot be tried here, or None."""
    for need in one.needs:
        if not shutil.which(need):
            return f"{need} is not installed"
    if one.preload and not glob.glob(one.preload):
        return f"{one.packages[0]} is not installed"
    if one.check and subprocess.run(["sh", "-c", one.check], capture_output=True, check=False).returncode:
        return f"{one.packages[0]} is not installed"
    return None


def command_of(one):
    """Returns the words of the program's command."""
    # A shell that would only exec the program is left out, because farpage run judges a program by its file.
    return one.command[5:].split() if re.fullmatch(r"exec [\w./ -]+", one.command) else ["/bin/sh", "-c", one.command]


def environment_of(one):
    """Returns the variables that the program needs beside the usual ones."""
    return {"LD_PRELOAD": glob.glob(one.preload)[0]} if one.preload else {}


class Corpus:
    def __init__(self, bin_folder, processes):
        self.bin = Path(bin_folder).resolve()
        self.processes = processes
        self.folder = Path(processes.folder)
        donors = processes.start_donors(self.bin, 2, "1G", slab="8M")
        self.options = [word for donor in donors for word in ("--donor", donor)] + ["--key", processes.key]
        self.failed = False
        self.rows = []

    def report(self, good, name, *notes):
        self.failed |= not ok(good, name, *("\n".join(str(note).splitlines()[-20:]) for note in notes))

    def call(self, one, folder, *prefix):
        """Runs the command in a new session. Returns None if it takes longer than LIMIT."""
        process = self.processes.start([*prefix, *command_of(one)], cwd=folder, stdin=subprocess.DEVNULL,
                                       env={**os.environ, **environment_of(one)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.processes.end(process)
            return None
        self.processes.made.remove(process)
        return subprocess.CompletedProcess(one.command, process.returncode, out, err.decode("utf-8", "replace"))

    def try_engine(self, one, engine, plain):
        folder, stats = self.folder / "work", self.folder / "stats"
        prepare(one, folder)
        stats.unlink(missing_ok=True)
        result = self.call(one, folder, str(self.bin / "farpage"), "run", "--engine", engine, "--local", one.local, *self.options,
                           "--stats", str(stats), "--")
        shutil.rmtree(folder)
        wanted = getattr(one, engine)
        if result is None:
            self.report(False, f"{one.name}, {engine}: {wanted}", f"not over after {LIMIT} s")
            return
        figures = json.loads(stats.read_text(encoding="ascii")) if stats.exists() and stats.stat().st_size else {}
        good = self.judge(wanted, result, plain, figures)
        self.report(good, f"{one.name}, {engine}: {wanted}", f"status {result.returncode}, by itself {plain.returncode}",
                    f"output {'the same' if result.stdout == plain.stdout else 'another: ' + repr(result.stdout[-300:])}",
                    figures, result.stderr)

    @staticmethod
    def judge(wanted, result, plain, figures):
        same = (result.returncode, result.stdout) == (plain.returncode, plain.stdout)
        said = result.stderr
        if wanted == "far":
            return same and figures.get("far_peak_bytes", 0) > 0 and figures.get("children_stopped", 0) == 0 and \
                figures["resident_peak_bytes"] <= figures["local_bytes"] >= figures.get("outside_bytes", 0)
        if wanted == "local":
            return same and ("outside farpage's reach" in said or "more than --local" in said)
        if wanted == "refused":
            return result.returncode == 126 and result.stdout == b"" and said.count("\n") == 1
        if wanted == "denied":
            return result.returncode != 0 and result.stdout == b"" and "cannot read key file" in said
        return wanted == "back" and same and figures.get("far_peak_bytes", 0) > 0 and "comes back to this machine" in said

    def run(self, one):
        why = lacking(one)
        if why:
            skip(one.name, why)
            return
        folder = self.folder / "work"
        wrong = prepare(one, folder)
        plain = None if wrong else self.call(one, folder)
        shutil.rmtree(folder)
        if not plain or plain.returncode:
            self.report(False, f"{one.name}, by itself", wrong or (plain and plain.stderr))
            return
        for engine in ("pager", "swap"):
            if getattr(one, engine) != "-":
                self.try_engine(one, engine, plain)
        self.rows.append(one)


WORDS = {"far": "yes", "local": "runs, stays local, and a line says so", "refused": "no, refused with a line",
         "denied": "no, unless that user may read the key", "back": "yes, but memory comes back for a moment, and a line says so", "-": "not tried"}


def write_table(path, rows):
    lines = ["| program | `--engine pager` | `--engine swap` (root) |", "|---|---|---|"]
    lines += [f"| {one.name} | {WORDS[one.pager]} | {WORDS[one.swap]} |" for one in rows]
    text = Path(path).read_text(encoding="utf-8")
    pattern = re.escape(MARKS[0]) + ".*" + re.escape(MARKS[1])
    Path(path).write_text(re.sub(pattern, "\n".join([MARKS[0], *lines, MARKS[1]]), text, flags=re.S), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--packages", action="store_true")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("bin", nargs="?")
    options = parser.parse_args()
    if options.packages:
        print(*sorted({package for one in PROGRAMS for package in one.packages if options.all or one.light}))
        return
    if os.geteuid() != 0:
        skip_all("the swap engine needs root")
    with Processes("corpus") as processes:
        corpus = Corpus(options.bin, processes)
        for one in PROGRAMS:
            if one.name in options.only if options.only else options.all or one.light:
                corpus.run(one)
        if options.table and not corpus.failed:
            write_table(options.table, corpus.rows)
    done()


if __name__ == "__main__":
    main()
