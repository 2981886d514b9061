#!/usr/bin/python3
"""test_squeeze_group.py: farpage swap squeeze of a real control group, with 64M of idle memory."""
import os
import subprocess
from pathlib import Path

import disks
from tap import at_end, done, farpage, ok, shown, skip_all, wait_until

MIB = 1 << 20
ROOT = Path("/sys/fs/cgroup")
CHILD = "import time; memory = bytearray(b'x') * (64 << 20); print('ready', flush=True); time.sleep(600)"

disks.require()
if not (ROOT / "cgroup.controllers").exists() or "memory" not in (ROOT / "cgroup.subtree_control").read_text():
    skip_all("no control groups of version 2 with the memory controller")
folder = ROOT / f"farpage-test-{os.getpid()}"
try:
    folder.mkdir()
except OSError as error:
    skip_all(f"cannot make a control group: {error}")
at_end(folder.rmdir)
if not (folder / "memory.reclaim").exists() or not (folder / "memory.pressure").exists():
    skip_all("no memory.reclaim or no PSI")
if disks.attach("swap", "96M", "--memory", verb=("swap", "on")).returncode != 0:
    skip_all("cannot make swap space here")
with subprocess.Popen(["/usr/bin/python3", "-c", CHILD], stdout=subprocess.PIPE, text=True,
                      preexec_fn=lambda: (folder / "cgroup.procs").write_text("0")) as process:
    process.stdout.readline()
    before = int((folder / "memory.current").read_text())
    result = farpage("swap", "squeeze", folder.name, "--interval=1", "--for=8", "--max-step=20%", "--min=8M", "--psi=5%")
    after = int((folder / "memory.current").read_text())
    ok(result.returncode == 0 and after < before - 16 * MIB, "squeeze of a real group moves idle memory to swap space", shown(result),
       before, after)
    ok((folder / "memory.high").read_text() == "max\n", "squeeze leaves no limit behind")
    process.kill()
wait_until(lambda: not (folder / "cgroup.procs").read_text())
ok(farpage("swap", "off").returncode == 0 and disks.nothing_left(), "swap off after squeeze leaves nothing", disks.left_over())
done()
