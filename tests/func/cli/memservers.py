"""memservers: donors for tests in Python. tests/func/donors.sh does the same for tests in bash."""
import json
import os
import subprocess
import time

from tap import run

# tests/vm runs the same tests over other fabrics than TCP on loopback.
LISTEN = (["--listen", os.environ["FARPAGE_TEST_URI"], "--insecure"] if "FARPAGE_TEST_URI" in os.environ else
          ["--listen", "tcp://127.0.0.1:0"])

_started = []


def start_donor(memserver, *options):
    """Starts a donor on a free port. Returns its process and address."""
    process = subprocess.Popen([memserver, *LISTEN, *options], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    _started.append(process)
    for line in process.stdout:
        if " listening on " in line:
            return process, line.split()[-1]
    raise SystemExit("the donor does not start")


def donor_says(farpage, uri, *options):
    """Returns the data that `farpage donors` prints for one donor."""
    return json.loads(run(farpage, "donors", "--json", "--donor", uri, *options).stdout)["donors"][0]


def given_back(farpage, uri, *options):
    """Waits while the donor clears slabs, which count as leased until then. Returns true if no client is left."""
    answer = donor_says(farpage, uri, *options)
    while answer["clients"] == 0 and answer["leased_bytes"]:
        time.sleep(0.01)
        answer = donor_says(farpage, uri, *options)
    return answer["clients"] == 0


def stop_donors():
    for process in _started:
        process.terminate()
        process.wait()
        process.stdout.close()
