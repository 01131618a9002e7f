# SPDX-License-Identifier: Apache-2.0
"""SVG of a graph with the built-in layout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from . import colours
from .collapse import Arrow, Box, Picture
from .dot import border, fill
from .layout import layout

_MARGIN = 16.0
_TITLE = 24.0
_LETTER = 6.9  # width of a character at 12 px, generous so that text never leaves its box
_HEIGHT = 40.0
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
    'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
    '<path d="M0 0L10 5L0 10z" fill="#555"/></marker></defs>'
)


def text(picture: Picture) -> str:
    """A complete SVG document."""
    sizes = {box.key: (_width(box), _HEIGHT) for box in picture.boxes}
    placed = layout(sizes, [(arrow.source, arrow.target) for arrow in picture.arrows])
    top = _MARGIN + (_TITLE if picture.note else 0.0)
    width = max(placed.width, _LETTER * len(picture.note)) + 2 * _MARGIN
    height = placed.height + top + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">',
        _HEAD,
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    if picture.note:
        lines.append(f'<text x="{_MARGIN}" y="22" font-size="13">{escape(picture.note)}</text>')
    lines.append(f'<g transform="translate({_MARGIN} {top})">')
    lines += [
        _arrow(arrow, route) for arrow, route in zip(picture.arrows, placed.routes, strict=True)
    ]
    names = colours.by_name(box.tasks[0].name or box.tasks[0].kind for box in picture.boxes)
    lines += [
        _box(box, placed.at[box.key], names[box.tasks[0].name or box.tasks[0].kind])
        for box in picture.boxes
    ]
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _width(box: Box) -> float:
    return max(60.0, _LETTER * max(len(box.title), 0.85 * len(box.subtitle)) + 16)


def _box(box: Box, centre: tuple[float, float], colour: str) -> str:
    width, (x, y) = _width(box), centre
    return (
        f'<g class="node" id="n{box.key}"><title>{escape(box.details)}</title>'
        f'<rect x="{x - width / 2:.1f}" y="{y - _HEIGHT / 2:.1f}" width="{width:.1f}" '
        f'height="{_HEIGHT:.0f}" rx="5" fill="{fill(box, colour)}" stroke="{border(box)}"/>'
        f'<text x="{x:.1f}" y="{y - 3:.1f}" font-size="12" text-anchor="middle">'
        f"{escape(box.title)}</text>"
        f'<text x="{x:.1f}" y="{y + 12:.1f}" font-size="10" fill="#444" text-anchor="middle">'
        f"{escape(box.subtitle)}</text></g>"
    )


def _arrow(arrow: Arrow, route: Sequence[tuple[float, float]]) -> str:
    label = f"n{arrow.source} n{arrow.target}"
    width = min(1.0 + 0.25 * (arrow.count - 1), 3.0)
    return (
        f"<path class={quoteattr('edge ' + label)} d={quoteattr(_curve(route))} "
        f'fill="none" stroke="#555" stroke-opacity="0.65" stroke-width="{width:g}" '
        f'marker-end="url(#head)"><title>{escape(arrow.label)}</title></path>'
    )


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Through all points, upright at each of them."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return path
