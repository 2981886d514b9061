"""plot: the figures of peers.py as an SVG, with a panel for each of some figures and a bar for each peer.

A bar is the median of the rounds. The thin line on it goes from the lowest to the highest value.
"""
from xml.sax.saxutils import escape

import figures

PANELS = [("qd1_read_p50", "4 KiB read, one at a time: p50, µs (less is better)"),
          ("qd32_read", "4 KiB reads, 32 at a time: per second"),
          ("touch1_accesses", "swap, 1 thread: accesses per second"),
          ("touch4_accesses", "swap, 4 threads: accesses per second"),
          ("touch1_fault_p50", "swap, 1 thread: fault p50, µs (less is better)"),
          ("touch1_fault_p99", "swap, 1 thread: fault p99, µs (less is better)")]
ACROSS = 2
OURS, THEIRS, LOCAL = "#1f6feb", "#8b949e", "#c9d1d9"  # farpage; other far memory; no network in it
WITHOUT_NETWORK = ("null", "farpage-memory", "zram")
LEFT, BAR, GAP, WIDTH, TITLE, MARGIN, VALUE = 112, 15, 6, 250, 30, 16, 62
PANEL_WIDTH = LEFT + WIDTH + VALUE


def _text(x, y, text, size=12, anchor="start", weight="normal", fill="#24292f"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{fill}">{escape(text)}</text>')


def _colour(name):
    return LOCAL if name in WITHOUT_NETWORK else OURS if name.startswith("farpage") else THEIRS


def _number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _panel(x, y, title, peers, figure):
    """Draws one panel at (@x, @y). Leaves out a measured peer that cannot have this figure."""
    peers = {name: peer for name, peer in peers.items() if not peer or peer.get(figure)}
    parts = [_text(x, y + 14, title, 13, weight="bold")]
    most = max((max(peer[figure]) for peer in peers.values() if peer.get(figure)), default=1)
    for row, (name, peer) in enumerate(peers.items()):
        top = y + TITLE + row * (BAR + GAP)
        middle = top + BAR / 2
        parts.append(_text(x + LEFT - 6, middle + 4, name, anchor="end"))
        values = peer.get(figure)
        if not values:
            parts.append(_text(x + LEFT, middle + 4, "not measured", 11, fill="#6e7781"))
            continue
        length, least, greatest = (value / most * WIDTH for value in (figures.median(values), min(values), max(values)))
        parts.append(f'<rect x="{x + LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{_colour(name)}"/>')
        parts.append(f'<line x1="{x + LEFT + least:.1f}" x2="{x + LEFT + greatest:.1f}" y1="{middle}" y2="{middle}" stroke="#24292f"/>')
        parts.append(_text(x + LEFT + greatest + 5, middle + 4, _number(figures.median(values)), 11))
    return parts


def svg(peers, note):
    """@peers: name -> figures, each a list of the rounds' values; empty if the peer failed. @note: a line below."""
    height = TITLE + len(peers) * (BAR + GAP) + MARGIN
    lines = -(-len(PANELS) // ACROSS)
    width = MARGIN + ACROSS * (PANEL_WIDTH + MARGIN)
    total = MARGIN + lines * height + 44
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" viewBox="0 0 {width} {total}" '
             'font-family="sans-serif">', f'<rect width="{width}" height="{total}" fill="#ffffff"/>']
    for number, (figure, title) in enumerate(PANELS):
        x = MARGIN + number % ACROSS * (PANEL_WIDTH + MARGIN)
        parts += _panel(x, MARGIN + number // ACROSS * height, title, peers, figure)
    y = MARGIN + lines * height + 8
    for place, (colour, what) in enumerate(((OURS, "farpage"), (THEIRS, "other far memory"), (LOCAL, "no network in it"))):
        parts.append(f'<rect x="{MARGIN + place * 150}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(MARGIN + place * 150 + 18, y, what))
    parts += [_text(MARGIN, y + 22, note, 11, fill="#57606a"), "</svg>"]
    return "\n".join(parts) + "\n"
