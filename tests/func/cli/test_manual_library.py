#!/usr/bin/python3
"""test_manual_library.py SOURCE LIBRARY: libfarpage(3) has the whole header, and its example is compiled and run.

CC names the compiler.
"""
import os
import re
import sys
from pathlib import Path

from donor import Donor
from tap import FOLDER, done, make_key, ok, run, shown, skip

source, library = Path(sys.argv[1]), Path(sys.argv[2])
page = (source / "docs/man/libfarpage.3").read_text(encoding="utf-8")
header = (source / "include/farpage/farpage.h").read_text(encoding="utf-8")


def the_page_has_the_whole_header():
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    functions = re.findall(r"^(?:int|void) (farpage_\w+)\(", code, re.MULTILINE)
    synopsis = re.findall(r"^\.Fn (farpage_\w+) \"", page, re.MULTILINE)
    ok(len(functions) > 5 and synopsis == functions, "the synopsis has the functions of farpage.h", functions, synopsis)
    names = re.findall(r"^\.Nm (\w+)", page, re.MULTILINE)
    ok(set(functions) < set(names), "the page is found under the name of each function", names)
    options = re.search(r"struct farpage_options \{(.*?)\};", code, re.DOTALL)[1]
    fields = {name for line in options.split(";") for name in re.findall(r"(\w+)\s*$", line.strip())}
    tags = set(re.findall(r"\w+", " ".join(re.findall(r"^\.It Va (.*)", page, re.MULTILINE))))
    ok(len(fields) > 10 and tags == fields, "the page describes each option", tags ^ fields)
    constants = set(re.findall(r"\bFARPAGE_(?!FARPAGE_H)[A-Z_]+", code))
    ok(all(name in page for name in constants), "the page has each constant", constants)


def the_example_compiles_and_runs():
    example = re.search(r"^\.Bd -literal\n(#include.*?)^\.Ed", page, re.DOTALL | re.MULTILINE)[1]
    (FOLDER / "example.c").write_text(example.replace("\\e", "\\"), encoding="utf-8")
    made = run(os.environ.get("CC", "cc"), "-Wall", "-Wextra", "-Werror", "-I", source / "include", "-o",
               FOLDER / "example", FOLDER / "example.c", library, f"-Wl,-rpath,{library.parent}")
    if not ok(made.returncode == 0, "the example compiles without a warning", shown(made)):
        return
    key = make_key()
    donor = Donor("--donate", "64M", "--slab", "4M", "--reserve", "1M", "--key", key)
    result = run(FOLDER / "example", key, donor.uri)
    name = "the example has more than half of its memory on the donor"
    if result.returncode and re.search(r"userfaultfd|UFFDIO_MOVE|Linux 6\.8", result.stderr):
        skip(name, result.stderr.strip())
        return
    far = re.match(r"(\d+) MiB are far", result.stdout)
    ok(result.returncode == 0 and far and int(far[1]) > 16, name, shown(result))


the_page_has_the_whole_header()
the_example_compiles_and_runs()
done()
