#!/usr/bin/python3
"""test_install.py BUILD: `meson install` once more keeps what the operator has written into the configuration."""
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402

build = sys.argv[1]
NAMES = ("farpage.ini", "farpage-blockdev.ini", "farpage-memserver.ini")


def install(root):
    return run("meson", "install", "-C", build, "--no-rebuild", "--tags", "config", "--destdir", root)


def test(root):
    folder = root / "etc/farpage"
    result = install(root)
    ok(result.returncode == 0 and all((folder / name).read_text() for name in NAMES), "the first time there are samples",
       shown(result))
    samples = {name: (folder / name).read_text() for name in NAMES}
    (folder / "farpage-memserver.ini").write_text("[farpage-memserver]\ndonate = 7G\n")
    (folder / "farpage.ini").unlink()
    (folder / "farpage-blockdev.ini").unlink()
    (folder / "farpage-blockdev.ini").symlink_to("elsewhere")
    result = install(root)
    ok(result.returncode == 0 and "donate = 7G" in (folder / "farpage-memserver.ini").read_text(),
       "the second time the operator's file is kept", shown(result))
    ok((folder / "farpage-blockdev.ini").is_symlink(), "a link to nowhere is kept")
    ok((folder / "farpage.ini").read_text() == samples["farpage.ini"], "a file that was removed is there again")
    copies = list(root.glob("**/doc/farpage/examples/farpage-memserver.ini"))
    ok(len(copies) == 1 and copies[0].read_text() == samples["farpage-memserver.ini"],
       "the sample is with the documentation", copies)


with tempfile.TemporaryDirectory(prefix="farpage-install-") as temporary:
    test(Path(temporary))
done()
