"""donor: donors for tests in Python, as donor.h and donor.sh start them for tests in C and bash.

FARPAGE_MEMSERVER names the program, unless the test does. tests/vm runs the tests over other fabrics than TCP.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess

from tap import FOLDER, at_end, farpage, ok, wait_until

TEST_URI = os.environ.get("FARPAGE_TEST_URI")

_donors = []


class Donor:
    """A donor at @uri, by default on a free port. It listens when this returns. @spawn starts its process, as Popen
    does; if it is given, the caller ends the donor."""

    def __init__(self, *options, uri=None, program=None, log=None, spawn=None):
        self.options = [str(option) for option in options]
        self.uri = uri or TEST_URI or "tcp://127.0.0.1:0"
        self.program = program or os.environ["FARPAGE_MEMSERVER"]
        self.log = log or FOLDER / f"donor.{len(_donors)}.err"
        self.spawn = spawn or subprocess.Popen
        self.process = None
        self.again()
        if not spawn:
            _donors.append(self)

    def again(self):
        """Starts the donor, also one that was killed: with its options and at its address."""
        insecure = ["--insecure"] if TEST_URI else []
        with open(self.log, "a+", encoding="utf-8") as log:
            self.process = self.spawn([self.program, "--listen", self.uri, *insecure, *self.options],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
            line = self.process.stdout.readline()
            if " listening on " not in line:
                log.seek(0)
                raise SystemExit(f"{self.program} does not start:\n{log.read()}")
        self.uri = line.split()[-1]

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """Kills the donor and waits for its end."""
        self.process.kill()
        self.stop()

    def stop(self):
        """Waits for the donor's end. Returns its exit status."""
        self.process.wait()
        self.process.stdout.close()
        return self.process.returncode

    def says(self, *options):
        """Returns the data that `farpage donors` prints for the donor."""
        return json.loads(farpage("donors", "--json", "--donor", self.uri, *options).stdout)["donors"][0]

    def given_back(self, *options):
        """Waits while a client has slabs. Returns true if no client is left."""
        wait_until(lambda: self.says(*options)["clients"] or not self.says(*options)["leased_bytes"])
        return self.says(*options)["clients"] == 0


@contextlib.contextmanager
def no_donors():
    """Gives two addresses: at one nobody answers, and at the other nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            nobody = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        yield f"tcp://127.0.0.1:{silent.getsockname()[1]}", nobody


def donors(count, *options):
    return [Donor(*options) for _ in range(count)]


def donor_options(of):
    """Returns the options of a client of these donors."""
    return [word for donor in of for word in ("--donor", donor.uri)]


def donors_end():
    """Ends all donors that were not killed. Checks that each ran until then and ends well."""
    living = [donor for donor in _donors if donor.process.returncode is None]
    _donors.clear()
    for donor in living:
        donor.signal(signal.SIGCONT)
        donor.process.terminate()
    statuses = [donor.stop() for donor in living]
    if living:
        ok(not any(statuses), "each donor runs until SIGTERM and ends with status 0", statuses)


at_end(donors_end) # after what tests have to end first
