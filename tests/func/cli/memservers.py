"""memservers: donors for tests in Python, as tests/func/donors.sh is for those in bash."""
import os
import subprocess

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


def stop_donors():
    for process in _started:
        process.terminate()
        process.wait()
        process.stdout.close()
