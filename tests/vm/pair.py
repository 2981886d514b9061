#!/usr/bin/python3
"""pair.py [OPTION...] DONOR-COMMANDS CLIENT-COMMANDS: runs commands in two virtual machines (rig.py)."""
import argparse
import sys

import rig

TEXT = """The machines are donor and client; what is said of one in vm.py --help holds for both. They share the directory
/share, read-write, and the client's command decides: its output is passed on as it is, its exit status is the run's, and
the donor is switched off when it ends. The donor's output goes to standard error, prefixed with "donor| ".

Either may kill, stop, continue and start the other, and take a rail down and up: see guest.sh.

  tests/vm/pair.py '. tests/vm/guest.sh; rails_up; share_tell ready; sleep 60' \\
                   '. tests/vm/guest.sh; rails_up; share_wait ready; ping -c 3 $PEER'
"""


def main():
    parser = argparse.ArgumentParser(description=TEXT, formatter_class=argparse.RawDescriptionHelpFormatter)
    rig.add_options(parser, memory=1024, cpus=1)
    parser.add_argument("--rails", type=int, default=2, help="wires between the two (%(default)s)")
    parser.add_argument("--donor-memory", type=int, metavar="MIB", help="the donor's memory, if not as --memory says")
    parser.add_argument("donor", help="commands for bash")
    parser.add_argument("client", help="commands for bash")
    arguments = parser.parse_args()

    def build(made):
        made.add_rails(arguments.rails, ("donor", "client"))
        made.add("donor", arguments.donor, arguments.donor_memory)
        made.add("client", arguments.client)

    return rig.main(arguments, build)


sys.exit(main())
