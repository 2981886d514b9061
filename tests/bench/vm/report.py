"""report: the Markdown tables that peers.py prints, and the meaning of its figures."""
import textwrap

import figures

MEANING = """All peers ran in {machines} of 2 processors{emulated}. Program, initiator and target shared them. So compare
a figure only with other figures of this run. nvme-rdma, nvme-tcp, nbd and rnbd serve memory of the same machine. rnbd's
server withdraws the client's right to a buffer after each request; that of rnbd-trusting does not. farpage-rdma and
farpage-tcp are farpage's ublk device with one donor. soft-RoCE emulates RDMA with UDP packets on the processors. So these
figures do not show how RDMA on a device compares with TCP. null is a ublk device that stores nothing. farpage-memory is
farpage's device with pages in local memory. zram is compressed memory of the same machine."""


def _cell(peer, names):
    if not all(peer.get(name) for name in names):
        return "-"
    return " / ".join(f"{figures.median(peer[name]):,.0f}" for name in names)


def _rows(rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                                       for i, (cell, width) in enumerate(zip(row, widths))) + " |" for row in rows)


def peers_table(peers):
    return _rows([["peer", *(title for title, *_ in figures.COLUMNS)],
                  *([name, *(_cell(peer, names) for _, *names in figures.COLUMNS)] for name, peer in peers.items())])


def _aim(ratio):
    if ratio["bound"] is None:
        return ""
    wish = f" (better {ratio['wish']})" if ratio["wish"] else ""
    return f"{'at least' if ratio['at_least'] else 'at most'} {ratio['bound']:.2f}{wish}"


def ratios_table(ratios):
    marks = {True: "met", False: "missed", None: ""}
    return _rows([["ratio", "figure", "measured", "aim", ""],
                  *([f"{ratio['peer']} / {ratio['other']}", figures.BY_NAME[ratio["figure"]].title, f"{ratio['ratio']:.2f}",
                     _aim(ratio), marks[ratio["met"]]] for ratio in ratios)])


def meaning(machine):
    emulated = "TCG" in machine.get("processor", "")
    kernel = machine.get("kernel", "")
    return textwrap.fill(MEANING.format(machines=f"virtual machines (Linux {kernel})" if kernel else "virtual machines",
                                        emulated=" that QEMU emulates" if emulated else ""), 120)
