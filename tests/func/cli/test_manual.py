#!/usr/bin/python3
"""test_manual.py SOURCE MEMSERVER BLOCKDEV: the manual pages have exactly the options and commands of the
programs."""
import re
import shutil
import sys
from pathlib import Path

from tap import done, farpage, ok, options_of, run, skip, verbs_of

source, memserver, blockdev = Path(sys.argv[1]), *sys.argv[2:]
FOLDER = source / "docs/man"
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.[1-8]"))}
# The commands of each page, and the page that describes further options of them.
COMMANDS = {
    "farpage-advise.1": (["advise"], None),
    "farpage-bench.1": (["bench"], None),
    "farpage-disk.8": (["disk attach", "disk detach", "disk list", "disk adopt", "disk leave"], None),
    "farpage-doctor.1": (["doctor"], None),
    "farpage-donors.8": (["donors", "donors holders", "donors drain", "donors undrain", "donors roll"], None),
    "farpage-helper.8": (["helper"], None),
    "farpage-key.1": (["key"], None),
    "farpage-run.1": (["run"], None),
    "farpage-status.1": (["status"], None),
    "farpage-top.1": (["top"], None),
    "farpage-swap.8": (["swap on", "swap off", "swap list", "swap squeeze"], "farpage-disk.8"),
}
EVERYWHERE = {"help", "version"}


def tagged(page):
    """The options that have a paragraph in a page, written with mdoc(7) or man(7)."""
    text = PAGES[page].replace("\\-", "-")
    tags = re.findall(r"^\.It (Fl .*)|^\.TP\n\.[BIR]+ (--.*)", text, re.MULTILINE)
    return {name for tag in tags for name in re.findall(r"(?<!-)--?([a-z][a-z-]+)", " ".join(tag))}


def mentioned(page):
    """All options that a page names."""
    text = PAGES[page].replace("\\-", "-")
    macros = " ".join(re.findall(r"^\..*\bFl .*", text, re.MULTILINE))
    return set(re.findall(r"(?<![\w-])-([a-z][a-z-]+)", macros)) | set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", text))


def each_page_has_the_options_of_its_commands():
    every = set(EVERYWHERE)
    for page, (commands, further) in COMMANDS.items():
        helps = {command: options_of(farpage(*command.split(), "--help").stdout) for command in commands}
        options = set().union(*helps.values())
        every |= options
        known = mentioned(page) | (mentioned(further) if further else set())
        ok(options <= known, f"{page} has every option of its commands", options - known)
        ok(tagged(page) <= options | EVERYWHERE, f"{page} describes no option that its commands lack",
           tagged(page) - options)
    for page, program in (("farpage-memserver.8", memserver), ("farpage-blockdev.8", blockdev)):
        options = options_of(run(program, "--help").stdout)
        every |= options
        ok(len(options) > 10 and tagged(page) == options | EVERYWHERE, f"{page} has exactly the options of its program",
           tagged(page) ^ (options | EVERYWHERE))
    for page in PAGES:
        # Options of other programs: pkg-config, swapon(8), systemctl(1).
        unknown = mentioned(page) - every - {"cflags", "libs", "discard", "now", "kill-whom", "signal"}
        ok(not unknown, f"{page} names no option that no program has", unknown)


def each_variable_for_the_library_is_documented():
    code = (source / "cli/run/run_pager.c").read_text(encoding="utf-8")
    passed = set(re.findall(r'set_(?:text|number)\("(\w+)"', code))
    missing = {name for name in passed if not re.search(rf"^\.It Ev .*\b{name}\b", PAGES["farpage-run.1"], re.MULTILINE)}
    ok(len(passed) > 10 and not missing, "farpage-run(1) has each variable that run passes to its library", missing)


def each_verb_has_a_page():
    listed = set(verbs_of(farpage("--help").stdout))
    named = set(re.findall(r"^\.It Cm ([a-z]+)$", PAGES["farpage.1"], re.MULTILINE))
    ok(len(listed) > 5 and listed == named, "farpage(1) lists the verbs of farpage --help", listed ^ named)
    for verb in sorted(listed):
        page = next((page for page in COMMANDS if page.startswith(f"farpage-{verb}.")), None)
        ok(page in PAGES and f"Xr {page[:-2]} {page[-1]}" in PAGES["farpage.1"], f"farpage(1) names the page of {verb}")
    for page, (commands, _) in COMMANDS.items():
        verb = commands[0].split()[0]
        listed = set(verbs_of(farpage(verb, "--help").stdout))
        known = {command.split()[1] for command in commands if " " in command}
        ok(listed == known, f"{page} is checked against each verb of farpage {verb}", listed ^ known)
        ok(all(verb in PAGES[page] for verb in known), f"{page} has each verb of farpage {verb}")


def pages_name_pages_that_exist():
    for page, text in PAGES.items():
        pairs = re.findall(r"^\.Xr (\S+) (\d)|^\.BR (farpage\S*) \((\d)\)", text.replace("\\-", "-"), re.MULTILINE)
        others = {f"{name}.{section}" for pair in pairs for name, section in (pair[:2], pair[2:]) if "farpage" in name}
        ok(others <= PAGES.keys(), f"each page that {page} names exists", others - PAGES.keys())


def pages_are_installed_once():
    installed = re.findall(r"'([\w.-]+\.[1-8])'", (FOLDER / "meson.build").read_text(encoding="utf-8"))
    ok(sorted(installed) == sorted(PAGES), "meson installs each page", set(installed) ^ PAGES.keys())
    packaged = [line for path in source.glob("debian/*.install")
                for line in re.findall(r"^usr/share/man/man./(\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)]
    ok(sorted(packaged) == sorted(PAGES), "each page is in one Debian package", sorted(packaged))


def pages_render_without_warnings():
    for page in PAGES:
        name = f"man renders {page} without a warning"
        if not shutil.which("man"):
            skip(name, "man is not installed")
            continue
        shown = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", FOLDER / page)
        ok(shown.returncode == 0 and len(shown.stdout) > 100 and not shown.stderr, name, shown.stderr)


each_page_has_the_options_of_its_commands()
each_variable_for_the_library_is_documented()
each_verb_has_a_page()
pages_name_pages_that_exist()
pages_are_installed_once()
pages_render_without_warnings()
done()
