"""memservers: donors for tests in Python, as tests/func/donors.sh is for those in bash."""
import json
import os
import subprocess
import time

from tap import run

# Over another fabric than loopback's TCP the same tests run (tests/vm).
LISTEN = (["--listen", os.environ["FARPAGE_TEST_URI"], "--insecure"] if "FARPAGE_TEST_URI" in os.environ else
          ["--listen", "tcp://127.0.0.1:0"])

_started = []


def start_donor(memserver, *options):
    """A donor on a free port; its process and address."""
    process = subprocess.Popen([memserver, *LISTEN, *options], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    _started.append(process)
    for line in process.stdout:
        if " listening on " in line:
            return process, line.split()[-1]
    raise SystemExit("the donor does not start")


def donor_says(farpage, uri, *options):
    """What `farpage donors` says of one donor."""
    return json.loads(run(farpage, "donors", "--json", "--donor", uri, *options).stdout)["donors"][0]


def given_back(farpage, uri, *options):
    """No client is left there. A slab counts as leased until its donor has cleared it, which takes a moment."""
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
