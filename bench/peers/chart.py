# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The rows of bench/peers as an SVG: one line each, a dot for each side, on a logarithmic scale."""

import html
import math

COLORS = {"ours": "#c0392b", "ucx": "#2471a3", "libfabric": "#1e8449", "socket": "#7d6608", "machine": "#555555"}
OTHER = "#8e44ad"
LEFT, WIDTH, LINE, TOP = 380, 560, 26, 60
STATES = ("near", "far", "changed")


def state_of(row):
    """The state in which most of our samples were taken."""
    counts = {state: sum(side == "ours" and where == state for side, where, _ in row.found) for state in STATES}
    return max(counts, key=counts.get)


def values_of(row):
    state = state_of(row)
    values = {side: row.median(side, state) for side in row.samples}
    return {side: value for side, value in values.items() if value is not None and value > 0}


def draw(rows):
    known = [(row, values_of(row)) for row in rows]
    known = [(row, values) for row, values in known if values]
    every = [value for _, values in known for value in values.values()]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    height = TOP + LINE * len(known) + 50

    def x_of(value):
        return LEFT + WIDTH * (math.log10(value) - low) / max(1, high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    sides = dict.fromkeys(side for _, values in known for side in values)
    for number, side in enumerate(sides):
        x = 20 + number % 8 * 105
        y = 18 + number // 8 * 16
        out.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{COLORS.get(side, OTHER)}"/>'
                   f'<text x="{x + 9}" y="{y + 4}">{html.escape(side)}</text>')
    for power in range(low, high + 1):
        x = x_of(10 ** power)
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 34}" stroke="#dddddd"/>'
                   f'<text x="{x:.1f}" y="{height - 18}" text-anchor="middle">{10 ** power:g}</text>')
    for number, (row, values) in enumerate(known):
        y = TOP + LINE * number + 8
        out.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{html.escape(row.title)}, {row.unit}</text>'
                   f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + WIDTH}" y2="{y}" stroke="#eeeeee"/>')
        for side, value in sorted(values.items(), key=lambda item: item[0] == "ours"):
            out.append(f'<circle cx="{x_of(value):.1f}" cy="{y}" r="5" fill="{COLORS.get(side, OTHER)}" '
                       f'fill-opacity="0.85"><title>{html.escape(side)}: {value:.4g} {row.unit}</title></circle>')
    out.append("</svg>\n")
    return "\n".join(out)
