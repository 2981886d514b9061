#!/usr/bin/python3
"""A machine of 512 MiB works through 1.5 GiB on a swap device of farpage, over soft-RoCE and
over TCP. The donor is another machine. This is the test vm_pressure_* for longer, with figures: pages touched a
second, the longest time for one page, the worst second's share of waiting for memory (PSI, full), and the least free
memory. Prints a Markdown table. Status 1 if a page was wrong, or another check failed."""
import argparse
import os
import re
import subprocess
import sys

FABRICS = ("rdma", "tcp")
LINE = re.compile(r"# (second|total) (\d+) touched (\d+) wrong (\d+) stall_ms ([\d.]+) at ([\d.]+) free_kib (\d+) psi ([\d.]+)")
FILLED = re.compile(r"# filled (\d+) checked (\d+) wrong (\d+)")
REST = 300  # seconds for everything except the job: booting, swap off


def parse(text):
    """Returns the output of test_pressure.sh: the figures, and the failed tests."""
    found = {"failed": re.findall(r"^not ok \d+ - (.*)$", text, re.MULTILINE)}
    for what, second, touched, wrong, stall, at, free, psi in LINE.findall(text):
        if what == "total":
            found |= {"seconds": int(second), "touched": int(touched), "stall_ms": float(stall), "stall_at": float(at),
                      "free_kib": int(free), "psi": float(psi)}
    for filled, checked, wrong in FILLED.findall(text):
        found |= {"filled": int(filled), "checked": int(checked), "wrong": int(wrong)}
    if not found["failed"] and ("wrong" not in found or "seconds" not in found or not re.search(r"^1\.\.\d+$", text, re.MULTILINE)):
        found["failed"] = ["it did not come to its end"]
    return found


def measure(fabric, options):
    command = f"bash tests/vm/test_pressure.sh {fabric} {options.seconds} {options.check}"
    build = os.path.abspath(options.build)
    words = ["setpriv", "--pdeathsig", "TERM", "/usr/bin/python3", "-B", "tests/vm/pair.py", "--hold", "-m", "512",
             "--donor-memory", "2304", "-t", str(options.seconds + (options.check or 10 * REST) + REST),
             "-e", f"FARPAGE={build}/bin/farpage", "-e", f"FARPAGE_MEMSERVER={build}/bin/farpage-memserver",
             "-e", f"FARPAGE_PRESSURE={build}/tests/vm/vm_pressure", command, command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    found = parse(done.stdout)
    if found["failed"] or done.returncode:
        found["failed"] = found["failed"] or [f"status {done.returncode}"]
        sys.stderr.write(done.stdout + done.stderr)
    elif options.verbose:
        sys.stderr.write(done.stdout)
    return found


def table(results):
    rows = ["| over | pages touched | a second | longest stall | worst PSI full | least free | pages filled / checked at the end / wrong | |",
            "| ---- | ------------: | -------: | ------------: | -------------: | ---------: | --------------------------------------: | --- |"]
    for fabric, found in results.items():
        if "seconds" in found and "filled" in found:
            figures = (f"{found['touched']:,} | {found['touched'] / max(found['seconds'], 1):,.0f} | {found['stall_ms'] / 1000:.1f} s "
                       f"(at {found['stall_at']:.0f} s) | {found['psi']:.0f} % | {found['free_kib'] / 1024:.1f} MiB | "
                       f"{found['filled']:,} / {found['checked']:,} / {found['wrong']}")
        else:
            figures = "- | - | - | - | - | -"
        rows.append(f"| {fabric} | {figures} | {'FAILED: ' + found['failed'][0] if found['failed'] else 'well'} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench soak swap", description=__doc__)
    parser.add_argument("fabric", nargs="*", metavar="FABRIC", help="only these: " + ", ".join(FABRICS))
    parser.add_argument("--build", default="build-bench", metavar="DIR", help="what is measured (%(default)s); needs bin/")
    parser.add_argument("--seconds", type=int, default=300, help="of each; then each page is checked (%(default)s)")
    parser.add_argument("--check", type=int, default=300, metavar="SECONDS",
                        help="for the latter, at most; 0: as long as it takes (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="the job's own lines as well, every ten seconds one")
    options = parser.parse_args()
    unknown = [fabric for fabric in options.fabric if fabric not in FABRICS]
    if unknown:
        parser.error(f"no fabric {unknown[0]}; there are {', '.join(FABRICS)}")
    results = {}
    for fabric in options.fabric or FABRICS:
        results[fabric] = measure(fabric, options)
        print(f"{fabric}: {results[fabric]['failed'] or 'well'}", file=sys.stderr, flush=True)
    print(table(results))
    return 1 if any(found["failed"] for found in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
