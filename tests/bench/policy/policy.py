"""
policy.py COLLAPSE POLICIES: orders of eviction, on traces of real programs with a quarter of their pages local.

valgrind's lackey records each access of sqlite3, sort, Python and numpy with small inputs; that takes some minutes for each
program. collapse.c makes traces of pages of them, and policies.c replays these. A loop over a sixth more pages than are
local is the last trace.
"""
import array
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "programs"))
from jobs import make_jobs, make_more_jobs  # noqa: E402

SCALE = float(os.environ.get("SCALE", "0.012"))  # of jobs.py
LOCAL = 250  # thousandths

collapse, policies = sys.argv[1:]


def record(job, folder, trace):
    """Writes the trace of @job's pages."""
    read, write = os.pipe()
    with open(job.stdin or os.devnull, "rb") as stdin, open(trace, "wb") as out, \
         subprocess.Popen([collapse], stdin=read, stdout=out) as collapsing:
        os.close(read)
        valgrind = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no", f"--log-fd={write}", *job.command]
        status = subprocess.run(valgrind, cwd=folder, env=job.environment, stdin=stdin, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, pass_fds=[write], check=False).returncode
        os.close(write)
    if status or collapsing.returncode:
        sys.exit(f"policy: {job.name} under valgrind: status {status}")


def replay(name, trace, local):
    """Prints how many pages each order fetches. @local is in thousandths of the trace's pages."""
    result = subprocess.run([policies, trace, str(local)], check=True, capture_output=True, text=True)
    print(f"\n{name}: {result.stdout}", end="", flush=True)


def main():
    if not shutil.which("valgrind"):
        sys.exit("policy: needs valgrind")
    with tempfile.TemporaryDirectory(prefix="farpage-policy-") as folder:
        for job in make_jobs(folder, SCALE) + make_more_jobs(SCALE)[:1]:
            trace = Path(folder, job.name + ".trace")
            record(job, folder, trace)
            replay(job.name, trace, LOCAL)
            trace.unlink()
        trace = Path(folder, "loop.trace")
        trace.write_bytes(array.array("I", [2 * page for page in range(6000)] * 40).tobytes())
        replay("loop", trace, 857)


main()
