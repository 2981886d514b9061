#!/usr/bin/python3
"""Compares block devices of far memory, each in a fresh virtual machine. fio reads and writes 4 KiB at random. Then
a program of 192 MiB swaps with 64 MiB of memory; three in ten of its accesses are writes, and page-cluster is 0.
Prints Markdown tables, and writes the figures as JSON and as a plot."""
import argparse
import json
import sys
import time
from pathlib import Path

import figures
import machines
import plot
import report

PEERS = ("nvme-rdma", "nvme-tcp", "nbd", "rnbd", "rnbd-trusting", "farpage-rdma", "farpage-tcp", "null", "farpage-memory", "zram")


def read_options():
    parser = argparse.ArgumentParser(prog="./dev bench vm", description=__doc__)
    parser.add_argument("peer", nargs="*", metavar="PEER", help="only these: " + ", ".join(PEERS))
    parser.add_argument("--build", default="build-bench", metavar="DIR", help="what is measured (%(default)s); needs bin/")
    parser.add_argument("--rounds", type=int, default=3, help="all peers, one after the other; medians are shown (%(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="of each of the six measurements of a peer (%(default)s)")
    parser.add_argument("--output", metavar="NAME", help="NAME.json and NAME.svg are written (BUILD/peers)")
    parser.add_argument("--from", dest="source", metavar="JSON", help="measure nothing: show what an earlier run has written")
    options = parser.parse_args()
    unknown = [peer for peer in options.peer if peer not in PEERS]
    if unknown:
        parser.error(f"no peer {unknown[0]}; there are {', '.join(PEERS)}")
    if options.rounds < 1 or options.seconds < 1:
        parser.error("at least one round, and one second")
    return options


class Run:
    """The results of one run so far: figures of peers, and the peers that failed."""

    def __init__(self, options):
        self.options = options
        self.names = [peer for peer in PEERS if not options.peer or peer in options.peer]
        self.peers = {name: {} for name in self.names}
        self.failed = {}
        self.machine = {}

    def measure(self, name):
        """Runs one round of one peer. A peer that has failed is not tried again, but keeps the figures of the rounds
        before."""
        try:
            found, self.machine = figures.of_lines(
                machines.measure("tests/bench/vm/guest.sh", name, self.options.build, self.options.seconds,
                                 drivers=["rnbd"] if name.startswith("rnbd") else []))
        except (machines.Failed, ValueError, KeyError) as why:
            self.failed[name] = str(why)
            return
        for figure, value in found.items():
            self.peers[name].setdefault(figure, []).append(value)

    def measure_all(self):
        for number in range(self.options.rounds):
            for name in self.names:
                if name in self.failed:
                    continue
                begin = time.monotonic()
                self.measure(name)
                outcome = "FAILED: " + self.failed[name] if name in self.failed else f"{time.monotonic() - begin:.0f} s"
                print(f"round {number + 1} of {self.options.rounds}: {name}: {outcome}", file=sys.stderr, flush=True)

    def result(self):
        return {"machine": self.machine, "rounds": self.options.rounds, "seconds": self.options.seconds,
                "peers": self.peers, "failed": self.failed, "ratios": figures.ratios(self.peers)}


def show(result):
    print(f"\nMedians of {result['rounds']} round{'s' if result['rounds'] > 1 else ''}, {result['seconds']} s for each figure.\n")
    print(report.peers_table(result["peers"]))
    if result["ratios"]:
        print("\n" + report.ratios_table(result["ratios"]))
    print("\n" + report.meaning(result["machine"]))
    for name, why in result["failed"].items():
        print(f"\n{name} FAILED: {why}")


def main():
    options = read_options()
    if options.source:
        result = json.loads(Path(options.source).read_text(encoding="utf-8"))
    else:
        run = Run(options)
        try:
            run.measure_all()
        except KeyboardInterrupt:
            run.failed["the run"] = "interrupted"
        result = run.result()
    show(result)
    output = options.output or f"{options.build}/peers"
    note = (f"Medians of {result['rounds']} rounds in virtual machines ({result['machine'].get('processor', 'unknown processor')}), "
            "both ends in one; lines: least to greatest. Only ratios mean something.")
    Path(output + ".svg").write_text(plot.svg(result["peers"], note), encoding="utf-8")
    if not options.source:
        Path(output + ".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"\nplot: {output}.svg" + ("" if options.source else f"; figures: {output}.json"))
    return 1 if result["failed"] else 0


sys.exit(main())
