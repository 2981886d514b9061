#!/usr/bin/python3
"""TAP tests of the reports of ./dev bench vm and soak: figures.py, report.py, plot.py, soak.py. No
machines."""
import json
import sys
from pathlib import Path
from xml.dom import minidom

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "lib")]
import figures  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import soak  # noqa: E402
from tap import done, ok  # noqa: E402


def fio(direction, iops, p50, p99, error=0):
    side = {"iops": iops, "total_ios": iops, "clat_ns": {"percentile": {"50.000000": p50, "99.000000": p99}}}
    return json.dumps({"jobs": [{"error": error, direction: side}]})


def refused(pairs):
    try:
        figures.of_lines(pairs)
    except ValueError:
        return True
    return False


def test_lines():
    found, machine = figures.of_lines([("kernel", "6.12"), ("processor", "QEMU TCG CPU"), ("fio_qd1_read", fio("read", 9, 250000, 500000)),
                                       ("fio_qd32_write", fio("write", 1234, 1, 2)), ("touch4_accesses_s", "77"),
                                       ("touch4_fault_p99_us", "12.5"), ("touch4_p50_us", "3"), ("touch4_wrong", "0")])
    ok(found == {"qd1_read_p50": 250, "qd1_read_p99": 500, "qd32_write": 1234, "touch4_accesses": 77, "touch4_fault_p99": 12.5},
       "a peer has latencies of single requests in µs, rates of 32 requests, and faults", found)
    ok(machine == {"kernel": "6.12", "processor": "QEMU TCG CPU"}, "the figures name kernel and processor of the machine", machine)
    ok(refused([("touch1_wrong", "2")]), "figures of a run with wrong pages are refused")
    ok(refused([("fio_qd1_read", fio("read", 9, 1, 1, error=5))]), "figures of a run with an I/O error are refused")
    ok(refused([("fio_qd1_read", fio("read", 0, 1, 1))]), "figures of a run without requests are refused")


def ratio_of(peers, peer, other, figure):
    return next((ratio for ratio in figures.ratios(peers)
                 if (ratio["peer"], ratio["other"], ratio["figure"]) == (peer, other, figure)), None)


def test_ratios():
    peers = {"farpage-rdma": {"qd1_read_p50": [70, 100, 80], "qd32_read": [10, 20]},
             "nvme-rdma": {"qd1_read_p50": [100, 100, 100], "qd32_read": [10, 10]}, "nbd": {}}
    latency, rate = (ratio_of(peers, "farpage-rdma", "nvme-rdma", figure) for figure in ("qd1_read_p50", "qd32_read"))
    ok(latency["ratio"] == 0.8 and latency["met"] is False, "the ratio of latencies is the median of the rounds' ratios, and less is better", latency)
    ok(rate["ratio"] == 1.5 and rate["met"] is True, "the ratio of rates is the median of the rounds' ratios, and more is better", rate)
    ok(ratio_of(peers, "farpage-rdma", "nbd", "qd32_read") is None, "a peer that was not measured has no ratio")
    table = report.ratios_table(figures.ratios(peers))
    ok("at most 0.75" in table and "missed" in table and "at least 1.25 (better 1.5)" in table, "the table of ratios has the aims", table)
    names = {"nvme-rdma", "nvme-tcp", "nbd", "rnbd", "rnbd-trusting", "zram", "null", "farpage-memory", "farpage-rdma", "farpage-tcp"}
    ok(all(aim.figure in figures.BY_NAME and {aim.peer, aim.other} <= names for aim in figures.AIMS), "each aim names an existing figure and existing peers")


def test_shown():
    measured = {figure.name: [1000, 3000, 2000] for figure in figures.FIGURES}
    null = {name: values for name, values in measured.items() if name.startswith("qd")}
    peers = {"nvme-rdma": measured, "null": null, "farpage-rdma": {}}
    table = report.peers_table(peers)
    ok("2,000 / 2,000" in table.splitlines()[2], "the table of peers has medians", table)
    ok({cell.strip() for cell in table.splitlines()[4].split("|")[2:-1]} == {"-"}, "the table of peers has no figure of a peer that failed", table)
    texts = [node.firstChild.data for node in minidom.parseString(plot.svg(peers, "a <note>")).getElementsByTagName("text")]
    ok(texts.count("nvme-rdma") == len(plot.PANELS) and texts.count("null") == 2, "the plot leaves out figures that a peer cannot have", texts)
    ok(texts.count("not measured") == len(plot.PANELS) and "a <note>" in texts, "the plot names a peer that was not measured", texts)


SOAKED = """ok 1 - swap space on another machine, over tcp
# second 10 touched 90 wrong 0 stall_ms 774.5 at 8.9 free_kib 5248 psi 30.2
# total 300 touched 99351 wrong 0 stall_ms 1774.5 at 28.9 free_kib 2048 psi 97.1
# filled 393216 checked 393216 wrong 0
ok 2 - swap off
1..2
"""


def test_soak():
    found = soak.parse(SOAKED)
    ok(found == {"failed": [], "seconds": 300, "touched": 99351, "stall_ms": 1774.5, "stall_at": 28.9, "free_kib": 2048, "psi": 97.1,
                 "filled": 393216, "checked": 393216, "wrong": 0}, "the output of a soak gives its figures", found)
    row = soak.table({"tcp": found}).splitlines()[2]
    ok("| 331 | 1.8 s (at 29 s) | 97 % | 2.0 MiB |" in row and row.endswith("| well |"), "the table has a line for a soak", row)
    ok(soak.parse(SOAKED.replace("ok 2", "not ok 2"))["failed"] == ["swap off"], "a failed test of a soak is named")
    ok(soak.parse(SOAKED[:200])["failed"] == ["it did not come to its end"], "a soak whose output ends before its plan counts as failed")
    ok("FAILED: it did not" in soak.table({"tcp": soak.parse("")}), "the table says that a soak without figures has failed")


test_lines()
test_ratios()
test_soak()
test_shown()
done()
