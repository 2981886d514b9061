#!/usr/bin/python3
"""test_install.py BUILD: a repeated `meson install` keeps the operator's configuration files."""
import sys

from tap import FOLDER, done, ok, run, shown

build = sys.argv[1]
NAMES = ("farpage.ini", "farpage-blockdev.ini", "farpage-memserver.ini")


def install(root):
    return run("meson", "install", "-C", build, "--no-rebuild", "--tags", "config", "--destdir", root)


def install_keeps_the_operators_files(root):
    folder = root / "etc/farpage"
    result = install(root)
    ok(result.returncode == 0 and all((folder / name).read_text() for name in NAMES),
       "the first install copies the sample configurations", shown(result))
    samples = {name: (folder / name).read_text() for name in NAMES}
    (folder / "farpage-memserver.ini").write_text("[farpage-memserver]\ndonate = 7G\n")
    (folder / "farpage.ini").unlink()
    (folder / "farpage-blockdev.ini").unlink()
    (folder / "farpage-blockdev.ini").symlink_to("elsewhere")
    result = install(root)
    ok(result.returncode == 0 and "donate = 7G" in (folder / "farpage-memserver.ini").read_text(),
       "the second install keeps the operator's file", shown(result))
    ok((folder / "farpage-blockdev.ini").is_symlink(), "the second install keeps a dangling link")
    ok((folder / "farpage.ini").read_text() == samples["farpage.ini"], "the second install restores a removed file")
    copies = list(root.glob("**/doc/farpage/examples/farpage-memserver.ini"))
    ok(len(copies) == 1 and copies[0].read_text() == samples["farpage-memserver.ini"],
       "install puts the sample among the documentation's examples", copies)


install_keeps_the_operators_files(FOLDER)
done()
