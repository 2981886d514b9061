#!/usr/bin/python3 -B
"""The simulator finds bugs: each of planted/*.patch, applied to a copy of the sources, is found within some seeds.
sim/seeds_1 shows that nothing is found in these seeds without them. Files that a patch touches are compiled anew,
and all other objects are linked as they were built. A patch with a rare bug names the first seed to try: "From seed
N."

test_planted.py SOURCES COMPILER LIBRARY... -- LINKER_ARGUMENT..."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

SEEDS = 300
FOLDERS = ["client", "common", "fabric", "include", "memserver", "tests/sim", "wire"]
C_FLAGS = ["-std=gnu11", "-O2", "-g", "-D_GNU_SOURCE", '-DFARPAGE_VERSION="planted"', "-fno-strict-aliasing"]

count = failed = 0


def ok(good, name, why=""):
    global count, failed
    count += 1
    failed += not good
    print(f"{'' if good else 'not '}ok {count} - {name}")
    for line in why.splitlines() if not good else []:
        print("# " + line)
    sys.stdout.flush()
    return good


def run(*words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          check=False, **options)


def simulate(simulator, first="1"):
    """Returns one line with the bug that the simulator found, or nothing."""
    result = run(simulator, "--seeds", str(SEEDS), "--from", first)
    found = re.search(r"^(# seed .*|not ok .*)$", result.stdout, re.M)
    if not found and result.returncode:
        return f"status {result.returncode}: {result.stdout}"
    return found.group(1) if found else ""


def copy(sources, folder):
    for name in FOLDERS:
        shutil.copytree(os.path.join(sources, name), os.path.join(folder, name))


def build(folder, patch, compiler, libraries, arguments):
    """Patches the copy in @folder and builds it. Returns None, or the error."""
    touched = re.findall(r"^\+\+\+ b/(\S+)", open(patch, encoding="utf-8").read(), re.M)
    applied = run("patch", "-p1", "--fuzz=0", "--forward", "--batch", "-i", patch, cwd=folder)
    if applied.returncode or not touched:
        return "it does not apply any more: make it anew\n" + applied.stdout
    headers = [name for name in touched if name.endswith(".h")]
    # Each source in the folder of a touched header may include the header.
    again = {name for name in touched if name.endswith(".c")}
    for header in headers:
        where = os.path.dirname(header)
        again |= {f"{where}/{name}" for name in os.listdir(os.path.join(folder, where)) if name.endswith(".c")}
    objects = []
    for name in sorted(again):
        objects.append(name.replace("/", "_") + ".o")
        renames = ["-Ddonor_tick=memserver_donor_tick"] if name.startswith("memserver/") else []
        built = run(*compiler, *C_FLAGS, *renames, "-I.", "-Iinclude", "-c", name, "-o", objects[-1], cwd=folder)
        if built.returncode:
            return built.stdout
    # The new objects come first, so the linker does not take the libraries' old ones.
    built = run(*compiler, "-o", "sim", *objects, "-Wl,--start-group", *libraries, "-Wl,--end-group", *arguments,
                cwd=folder)
    return built.stdout if built.returncode else None


def try_patch(sources, patch, compiler, libraries, arguments):
    """Returns the bug that the simulator found, or nothing; and an error, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy(sources, folder)
        wrong = build(folder, patch, compiler, libraries, arguments)
        with open(patch, encoding="utf-8") as text:
            first = re.search(r"From seed (\d+)\.|$", text.read()).group(1) or "1"
        return "" if wrong else simulate(os.path.join(folder, "sim"), first), wrong


def main():
    sources = sys.argv[1]
    split = sys.argv.index("--")
    compiler, libraries, arguments = sys.argv[2].split(","), sys.argv[3:split], sys.argv[split + 1:]
    libraries = [os.path.abspath(library) for library in libraries]
    patches = os.path.abspath(os.path.join(sources, "tests/sim/planted"))
    names = sorted(os.listdir(patches))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for name, (found, wrong) in zip(names, threads.map(
                lambda name: try_patch(sources, os.path.join(patches, name), compiler, libraries, arguments), names)):
            ok(bool(found), f"{name}: {found.lstrip('# ') or 'not found'}", wrong or f"not found in {SEEDS} seeds")
    print(f"1..{count}")
    return failed != 0


sys.exit(main())
