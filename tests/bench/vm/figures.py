"""figures: the figures of a peer, and the ratios that farpage should reach. Pure functions; peers.py measures.

A peer's figures are lists with one value for each round. A ratio is taken in each round, because the rounds of one
run differ less than machines do. The median is shown.
"""
import collections
import json
import statistics

Figure = collections.namedtuple("Figure", "name title unit more_is_better")

FIGURES = [Figure(*words) for words in (
    ("qd1_read_p50", "QD1 read p50", "µs", False),
    ("qd1_read_p99", "QD1 read p99", "µs", False),
    ("qd32_read", "QD32 reads", "/s", True),
    ("qd1_write_p50", "QD1 write p50", "µs", False),
    ("qd1_write_p99", "QD1 write p99", "µs", False),
    ("qd32_write", "QD32 writes", "/s", True),
    ("touch1_accesses", "swap, 1 thread: accesses", "/s", True),
    ("touch1_fault_p50", "swap, 1 thread: fault p50", "µs", False),
    ("touch1_fault_p99", "swap, 1 thread: fault p99", "µs", False),
    ("touch4_accesses", "swap, 4 threads: accesses", "/s", True),
    ("touch4_fault_p50", "swap, 4 threads: fault p50", "µs", False),
    ("touch4_fault_p99", "swap, 4 threads: fault p99", "µs", False),
)]
BY_NAME = {figure.name: figure for figure in FIGURES}

# Columns of the table. Several figures may share a column.
COLUMNS = [("QD1 read p50 / p99 µs", "qd1_read_p50", "qd1_read_p99"), ("QD32 reads/s", "qd32_read"),
           ("QD1 write p50 / p99 µs", "qd1_write_p50", "qd1_write_p99"), ("QD32 writes/s", "qd32_write"),
           ("1 thread accesses/s", "touch1_accesses"), ("fault p50 / p99 µs", "touch1_fault_p50", "touch1_fault_p99"),
           ("4 threads accesses/s", "touch4_accesses"), ("fault p50 / p99 µs", "touch4_fault_p50", "touch4_fault_p99")]

# @peer's figure divided by that of @other is at least (more is better) or at most @bound; @wish: what we would like.
Aim = collections.namedtuple("Aim", "peer other figure bound wish", defaults=(None,))

NBD = 1.5  # times as fast, in everything
AIMS = [
    Aim("farpage-rdma", "nvme-rdma", "qd1_read_p50", 0.75),
    Aim("farpage-rdma", "nvme-rdma", "qd32_read", 1.25, 1.5),
    Aim("farpage-rdma", "nvme-rdma", "touch1_accesses", 1.5),
    Aim("farpage-rdma", "nvme-rdma", "touch4_accesses", 1.2, 1.5),
    Aim("farpage-rdma", "nvme-tcp", "touch1_accesses", 1.15),
    Aim("farpage-rdma", "nvme-tcp", "touch4_accesses", 1.25),
    Aim("farpage-rdma", "nvme-tcp", "touch1_fault_p99", 0.5),
    Aim("farpage-rdma", "nvme-tcp", "touch4_fault_p99", 0.5),
    *(Aim("farpage-rdma", "nbd", figure.name, NBD if figure.more_is_better else 1 / NBD) for figure in FIGURES),
    Aim("farpage-memory", "null", "qd1_read_p50", 1.15),
    Aim("farpage-memory", "null", "qd32_read", 0.85),
    # There is no aim for rnbd, nor for farpage over tcp. The comparisons are only shown.
    *(Aim("farpage-rdma", other, figure, None) for other in ("rnbd", "rnbd-trusting")
      for figure in ("qd1_read_p50", "qd32_read", "touch1_accesses", "touch4_accesses", "touch1_fault_p99")),
    *(Aim("farpage-tcp", other, figure, None) for other in ("nvme-tcp", "nbd")
      for figure in ("qd1_read_p50", "qd32_read", "touch1_accesses", "touch4_accesses", "touch1_fault_p99")),
]


def of_fio(job, report):
    """Returns the figures in fio's report of @job: latencies of single requests, or rates of many at a time."""
    report = json.loads(report)["jobs"][0]
    depth, direction = job.split("_")
    side = report[direction]
    if report["error"] or not side["total_ios"]:
        raise ValueError(f"fio {job}: error {report['error']}")
    if depth != "qd1":
        return {job: side["iops"]}
    quantiles = side["clat_ns"]["percentile"]
    return {f"{job}_p50": quantiles["50.000000"] / 1e3, f"{job}_p99": quantiles["99.000000"] / 1e3}


def of_lines(pairs):
    """Returns the figures in the output of guest.sh, and its lines about the machine."""
    figures, machine, wrong = {}, {}, 0
    for name, value in pairs:
        if name.startswith("fio_"):
            figures |= of_fio(name.removeprefix("fio_"), value)
        elif name.startswith("touch"):
            if name.endswith("_wrong"):
                wrong += int(value)
            figure = name.removesuffix("_s").removesuffix("_us")
            if figure in BY_NAME:
                figures[figure] = float(value)
        elif name in ("kernel", "processor"):
            machine[name] = value
    if wrong:
        raise ValueError(f"{wrong} wrong pages")
    return figures, machine


def median(values):
    return statistics.median(values)


def ratios(peers):
    """Returns the result of each aim whose two peers were measured, as dictionaries for the table and the JSON."""
    found = []
    for aim in AIMS:
        ours, theirs = (peers.get(name, {}).get(aim.figure) for name in (aim.peer, aim.other))
        if not ours or not theirs:
            continue
        value = median([a / b for a, b in zip(ours, theirs)])
        more = BY_NAME[aim.figure].more_is_better
        met = None if aim.bound is None else value >= aim.bound if more else value <= aim.bound
        found.append({"peer": aim.peer, "other": aim.other, "figure": aim.figure, "ratio": round(value, 3),
                      "bound": aim.bound and round(aim.bound, 3), "wish": aim.wish, "at_least": more, "met": met})
    return found
