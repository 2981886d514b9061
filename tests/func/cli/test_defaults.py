#!/usr/bin/python3
"""test_defaults.py FARPAGE MEMSERVER: files of defaults, their order of precedence, and one line for each mistake."""
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]
GONE = "tcp://127.0.0.1:1"


def call(file, *arguments, **more):
    """Runs farpage with one file of defaults."""
    return run(farpage, *arguments, env={**os.environ, "FARPAGE_CONFIG": str(file), **more})


def refused(name, result, mentioned):
    lines = [line for line in result.stderr.splitlines() if not line.startswith("# ")]
    ok(result.returncode and len(lines) == 1 and mentioned in lines[0], name, shown(result))


def verbs_take_their_defaults(file, donor, key):
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {key}\n[run]\nlocal = 16M\nquiet = yes\n", encoding="ascii")
    for verb in (["donors"], ["doctor"], ["bench", "--no-faults", "--seconds", "0.05", "--depths", "1", "--size", "16M"]):
        result = call(file, *verb)
        ok(donor in result.stdout and "--donor" not in result.stderr,
           f"{verb[0]} takes its donor and key from the file of defaults", shown(result))
    result = call(file, "donors", "drain", donor)
    ok(result.returncode == 0 and call(file, "donors", "undrain", donor).returncode == 0,
       "donors drain takes its key from the file of defaults", shown(result))
    result = call(file, "run", "--", "echo", "ran")
    ok((result.returncode, result.stdout, result.stderr) == (0, "ran\n", ""),
       "run takes its donor, key and budget from the file of defaults", shown(result))
    result = call(file, "run", "--quiet=no", "--", "true")
    ok(" of 16M" in result.stderr or "nothing needed far memory" in result.stderr,
       "an option of run wins over the file of defaults", shown(result))
    refused("--donor of donors wins over the file of defaults", call(file, "donors", "--donor", GONE), GONE)
    result = call(file, "disk", "attach", "--name", "x", "--size", "1M", "--key", "/nowhere")
    refused("disk attach takes the donor from the file of defaults and refuses a missing key", result, "/nowhere")


def narrower_defaults_win(folder, donor, key):
    """The user's file is read. A verb's section wins over the shared section. --config replaces all files."""
    home = folder / "home/.config/farpage"
    home.mkdir(parents=True)
    file = home / "farpage.ini"
    environment = {word: value for word, value in os.environ.items() if word not in ("FARPAGE_CONFIG", "XDG_CONFIG_HOME")}
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {key}\n", encoding="ascii")
    result = run(farpage, "donors", env={**environment, "HOME": str(folder / "home")})
    ok(result.returncode == 0 and donor in result.stdout, "~/.config/farpage/farpage.ini is read", shown(result))
    result = run(farpage, "donors", env={**environment, "HOME": "/", "XDG_CONFIG_HOME": str(folder / "home/.config")})
    ok(result.returncode == 0 and donor in result.stdout, "farpage/farpage.ini in XDG_CONFIG_HOME is read", shown(result))
    file.write_text(f"[run]\ndonor = {donor}\nlocal = 16M\n[farpage]\ndonor = {GONE}\nkey = {key}\n", encoding="ascii")
    result = call(file, "run", "--quiet", "--", "true")
    ok(result.returncode == 0, "the verb's section wins over the shared section, wherever it stands", shown(result))
    own = folder / "own.ini"
    own.write_text(f"[run]\nlocal = 16M\ndonor = {GONE}\n", encoding="ascii")
    refused("--config is read in place of the file of defaults", call(file, "run", "--config", own, "--", "true"), GONE)


def budget_is_told(file, donor, key):
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {key}\n", encoding="ascii")
    result = call(file, "run", "--", "true")
    ok(result.returncode == 0 and "half of what is available" in result.stderr,
       "run prints its budget when none is given", shown(result))
    result = call(file, "run", "--local", "900T", "--", "true")
    ok(result.returncode == 0 and "--local 900T bounds nothing: this machine has" in result.stderr,
       "run warns of a budget beyond the machine's memory", shown(result))
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {key}.gone\n", encoding="ascii")
    refused("run prints one line about a missing key file, and none about its budget", call(file, "run", "--", "true"),
            "cannot read key file")


def mistakes_in_defaults_are_refused(file, donor, folder):
    file.write_text("[farpage]\ndonor = bla\n", encoding="ascii")
    refused("a donor that is no address is refused", call(file, "run", "--local", "16M", "--", "true"), "bla")
    file.write_text("[farpage]\nlocal = 16M\n", encoding="ascii")
    refused("a setting of run in the shared section is refused", call(file, "run", "--", "true"), f"{file}:2: 'local'")
    file.write_text("[farpage]\n[rum]\nlocal = 16M\n", encoding="ascii")
    refused("an unknown section is refused", call(file, "donors"), f"{file}:3: [rum]")
    file.write_text("[run]\nlokal = 16M\n", encoding="ascii")
    refused("an unknown setting of run is refused by run", call(file, "run", "--", "true"),
            f"{file}:2: unknown setting 'lokal'")
    refused("an unknown setting of run is ignored by donors", call(file, "donors"), "no donor to ask")
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {folder}/no.key\n", encoding="ascii")
    refused("run refuses a missing key file from the file of defaults",
            call(file, "run", "--local", "16M", "--", "true"), f"{folder}/no.key")
    file.chmod(0o666)
    refused("a file of defaults that others may write is refused", call(file, "donors"), "chmod go-w")
    file.chmod(0o644)
    if os.getuid() == 0:
        os.chown(file, 65534, 65534)
        refused("a file of defaults of another user is refused", call(file, "donors"), "belongs to another user")
        os.chown(file, 0, 0)
    refused("a missing file of defaults that is named is refused", call(folder / "none.ini", "donors"),
            "none.ini: cannot be opened")
    refused("run is refused without a donor and a file of defaults", call("", "run", "--", "true"), "no donor is named")


with tempfile.TemporaryDirectory(prefix="farpage-test-") as temporary:
    place = Path(temporary)
    run(farpage, "key", place / "key")
    try:
        uri = start_donor(memserver, "--donate", "64M", "--slab", "8M", "--key", str(place / "key"))[1]
        verbs_take_their_defaults(place / "farpage.ini", uri, place / "key")
        narrower_defaults_win(place, uri, place / "key")
        budget_is_told(place / "farpage.ini", uri, place / "key")
        mistakes_in_defaults_are_refused(place / "farpage.ini", uri, place)
    finally:
        stop_donors()
done()
