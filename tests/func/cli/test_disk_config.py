#!/usr/bin/python3
"""test_disk_config.py BLOCKDEV SAMPLE: the sample configuration of farpage-blockdev."""
import re
import sys
from pathlib import Path

import disks
from disks import FRONTEND, LOG
from donor import Donor
from tap import FOLDER, done, farpage, ok, options_of, run, shown, wait_until

blockdev, sample_path = sys.argv[1:3]
sample = Path(sample_path).read_text(encoding="utf-8")
NOT_SETTINGS = {"adopt", "remove", "ready-fd", "config", "version", "help"} # actions, not settings of the device

disks.require()
shown_help = run(blockdev, "--help")
options = options_of(shown_help.stdout) - NOT_SETTINGS
keys = set(re.findall(r"^(?:; )?([a-z-]+) = ", sample, re.MULTILINE))
ok(len(options) > 10 and options == keys, "the sample has exactly the settings of farpage-blockdev", options ^ keys)

backup = FOLDER / "backup"
donor = Donor("--donate", "64M", "--slab", "16M").uri
for name, old, new in (("unchanged but for donor and size", "", ""),
                       ("with every default written out", r"^; (?=[a-z-]+ = )(?!name|key|log|frontend|backup)", ""),
                       ("with a backup", r"^; backup = .*", f"backup = {backup}"),
                       ("with overcommit = yes", r"^; overcommit = no", "overcommit = yes")):
    text = re.sub(r"^size = .*", "size = 32M", sample, flags=re.MULTILINE)
    text = re.sub(r"^donor = .*", f"donor = {donor}", text, flags=re.MULTILINE)
    path = FOLDER / "sample.ini"
    path.write_text(re.sub(old, new, text, flags=re.MULTILINE) if old else text, encoding="utf-8")
    made = farpage("disk", "attach", "--config", path, "--name", "sample", "--frontend", FRONTEND, "--log", LOG)
    ok(made.returncode == 0 and disks.known()["sample"]["size"] == 32 << 20, f"the sample is accepted {name}", shown(made))
    gone = disks.detach("sample")
    ok(gone.returncode == 0 and wait_until(lambda: not disks.left_over()) and not backup.exists(),
       "disk detach removes the sample's device and its backup", shown(gone), disks.left_over())
done()
