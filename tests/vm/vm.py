#!/usr/bin/python3
"""vm.py [OPTION...] COMMANDS: runs shell commands as root in a fresh virtual machine (rig.py)."""
import argparse
import os
import sys

import rig

TEXT = """The machine's / is this one's, read-only, with a tmpfs over it: whatever is installed or built here runs there, and
nothing that it does stays. The commands run as root in this directory; their output and exit status are passed on.
Status 124: the time was over; 125: the machine died before they ended (the end of its console is shown).

  ./dev vm 'uname -r; ls /sys/class/infiniband'
  ./dev vm '. tests/vm/guest.sh && rxe_up && ibv_devinfo'
"""


def main():
    parser = argparse.ArgumentParser(prog=os.environ.get("VM_PROGRAM", "vm.py"), description=TEXT, add_help=True,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    rig.add_options(parser, memory=1536, cpus=2)
    parser.add_argument("commands", nargs=argparse.REMAINDER, help="for bash, joined by spaces")
    arguments = parser.parse_args()
    words = arguments.commands[1:] if arguments.commands[:1] == ["--"] else arguments.commands
    if not words:
        parser.error("which commands? For example: ./dev vm 'uname -a'")
    return rig.main(arguments, lambda made: made.add("machine", " ".join(words)))


sys.exit(main())
