#!/usr/bin/python3
"""test_defaults.py: files of defaults, their order of precedence, and one line for each mistake."""
import os

from donor import Donor
from tap import FOLDER, done, farpage, make_key, ok, refused, shown

GONE = "tcp://127.0.0.1:1"


def call(file, *arguments, **more):
    """Runs farpage with one file of defaults."""
    return farpage(*arguments, env={**os.environ, "FARPAGE_CONFIG": str(file), **more})


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
    result = call(file, "donors", "--donor", GONE)
    ok(result.returncode == 1 and result.stderr.count("\n") == 1 and GONE in result.stderr,
       "--donor of donors wins over the file of defaults", shown(result))
    result = call(file, "disk", "attach", "--name", "x", "--size", "1M", "--key", "/nowhere")
    refused(result, "disk attach takes the donor from the file of defaults and refuses a missing key", "/nowhere")


def narrower_defaults_win(donor, key):
    """The user's file is read. A verb's section wins over the shared section. --config replaces all files."""
    home = FOLDER / "home/.config/farpage"
    home.mkdir(parents=True)
    file = home / "farpage.ini"
    environment = {word: value for word, value in os.environ.items() if word not in ("FARPAGE_CONFIG", "XDG_CONFIG_HOME")}
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {key}\n", encoding="ascii")
    result = farpage("donors", env={**environment, "HOME": str(FOLDER / "home")})
    ok(result.returncode == 0 and donor in result.stdout, "~/.config/farpage/farpage.ini is read", shown(result))
    result = farpage("donors", env={**environment, "HOME": "/", "XDG_CONFIG_HOME": str(FOLDER / "home/.config")})
    ok(result.returncode == 0 and donor in result.stdout, "farpage/farpage.ini in XDG_CONFIG_HOME is read", shown(result))
    file.write_text(f"[run]\ndonor = {donor}\nlocal = 16M\n[farpage]\ndonor = {GONE}\nkey = {key}\n", encoding="ascii")
    result = call(file, "run", "--quiet", "--", "true")
    ok(result.returncode == 0, "the verb's section wins over the shared section, wherever it stands", shown(result))
    own = FOLDER / "own.ini"
    own.write_text(f"[run]\nlocal = 16M\ndonor = {GONE}\n", encoding="ascii")
    refused(call(file, "run", "--config", own, "--", "true"), "--config is read in place of the file of defaults", GONE)


def budget_is_told(file, donor, key):
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {key}\n", encoding="ascii")
    result = call(file, "run", "--", "true")
    ok(result.returncode == 0 and "half of what is available" in result.stderr,
       "run prints its budget when none is given", shown(result))
    result = call(file, "run", "--local", "900T", "--", "true")
    ok(result.returncode == 0 and "--local 900T bounds nothing: this machine has" in result.stderr,
       "run warns of a budget beyond the machine's memory", shown(result))
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {key}.gone\n", encoding="ascii")
    refused(call(file, "run", "--", "true"),
            "run prints one line about a missing key file, and none about its budget", "cannot read key file")


def mistakes_in_defaults_are_refused(file, donor):
    file.write_text("[farpage]\ndonor = bla\n", encoding="ascii")
    refused(call(file, "run", "--local", "16M", "--", "true"), "a donor that is no address is refused", "bla")
    file.write_text("[farpage]\nlocal = 16M\n", encoding="ascii")
    refused(call(file, "run", "--", "true"), "a setting of run in the shared section is refused", f"{file}:2: 'local'")
    file.write_text("[farpage]\n[rum]\nlocal = 16M\n", encoding="ascii")
    refused(call(file, "donors"), "an unknown section is refused", f"{file}:3: [rum]")
    file.write_text("[run]\nlokal = 16M\n", encoding="ascii")
    refused(call(file, "run", "--", "true"),
            "an unknown setting of run is refused by run", f"{file}:2: unknown setting 'lokal'")
    refused(call(file, "donors"), "an unknown setting of run is ignored by donors", "no donor to ask")
    file.write_text(f"[farpage]\ndonor = {donor}\nkey = {FOLDER}/no.key\n", encoding="ascii")
    refused(call(file, "run", "--local", "16M", "--", "true"),
            "run refuses a missing key file from the file of defaults", f"{FOLDER}/no.key")
    file.chmod(0o666)
    refused(call(file, "donors"), "a file of defaults that others may write is refused", "chmod go-w")
    file.chmod(0o644)
    if os.getuid() == 0:
        os.chown(file, 65534, 65534)
        refused(call(file, "donors"), "a file of defaults of another user is refused", "belongs to another user")
        os.chown(file, 0, 0)
    refused(call(FOLDER / "none.ini", "donors"),
            "a missing file of defaults that is named is refused", "none.ini: cannot be opened")
    refused(call("", "run", "--", "true"), "run is refused without a donor and a file of defaults", "no donor is named")


file_of_defaults, the_key = FOLDER / "farpage.ini", make_key()
lender = Donor("--donate", "64M", "--slab", "8M", "--key", the_key).uri
verbs_take_their_defaults(file_of_defaults, lender, the_key)
narrower_defaults_win(lender, the_key)
budget_is_told(file_of_defaults, lender, the_key)
mistakes_in_defaults_are_refused(file_of_defaults, lender)
done()
