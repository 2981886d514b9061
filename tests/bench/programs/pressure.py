"""Memory pressure for farpage's rivals: a control group with a limit, and swap on zram or in a file.

Everything here needs root. Each class has close(), which undoes its changes and may be called again.
"""
import os
import subprocess
from pathlib import Path

from memory_group import Unavailable, command, swap_on, write_setting # tests/programs


class Zram:
    """Swap on a new zram device, compressed by lz4."""

    def __init__(self, size):
        if not Path("/sys/class/zram-control").exists():
            subprocess.run(["modprobe", "zram"], stderr=subprocess.DEVNULL, check=False)
        try:
            self.number = Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
        except OSError as error:
            raise Unavailable("no zram in this kernel") from error
        self.device = f"/dev/zram{self.number}"
        try:
            write_setting(f"/sys/block/zram{self.number}/comp_algorithm", "lz4")
            write_setting(f"/sys/block/zram{self.number}/disksize", size)
            swap_on(self.device)
        except Unavailable:
            self.close()
            raise

    def close(self):
        if not os.path.exists(self.device):
            return
        subprocess.run(["swapoff", self.device], stderr=subprocess.DEVNULL, check=False)
        try:
            Path("/sys/class/zram-control/hot_remove").write_text(self.number, encoding="ascii")
        except OSError as error:
            print(f"zram{self.number} is still there: {error.strerror}")


class SwapFile:
    """Swap in a file of @size bytes in @folder, which must be on a disk."""

    def __init__(self, folder, size):
        self.path = os.path.join(folder, f"farpage-bench-{os.getpid()}.swap")
        try:
            kind = command("stat", "--file-system", "--format=%T", folder)
            if kind in ("tmpfs", "ramfs", "overlayfs"):
                raise Unavailable(f"{folder} is {kind}, not a disk; --swap-folder can name another")
            command("fallocate", "--length", str(size), self.path)
            os.chmod(self.path, 0o600)
            swap_on(self.path)
        except Unavailable:
            self.close()
            raise

    def close(self):
        if not os.path.exists(self.path):
            return
        subprocess.run(["swapoff", self.path], stderr=subprocess.DEVNULL, check=False)
        os.unlink(self.path)
