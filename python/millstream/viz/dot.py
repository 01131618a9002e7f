# SPDX-License-Identifier: Apache-2.0
"""Graphviz: DOT text, and SVG by the `dot` program where it is installed."""

from __future__ import annotations

import shutil
import subprocess

from . import colours
from .collapse import Box, Picture

_LABELLED_ARROWS = 80  # beyond, names on arrows only hide each other; they stay as tooltips
_SECONDS = 20.0
# `dot` needs a second for 250 arrows and more than 20 for 850; the built-in layout stays below one.
MOST_ARROWS = 400


def quoted(text: str) -> str:
    """A DOT string; line breaks are kept."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def text(picture: Picture) -> str:
    """The picture in the language of Graphviz."""
    names = colours.by_name(_role(box) for box in picture.boxes)
    lines = [
        "digraph millstream {",
        '  graph [rankdir=TB, fontname="Helvetica", nodesep=0.25, ranksep=0.4];',
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];',
        '  edge [color="#555555", fontname="Helvetica", fontsize=9, arrowsize=0.6];',
    ]
    if picture.note:
        lines.append(f"  label={quoted(picture.note)}; labelloc=t;")
    lines += [_box(box, names[_role(box)]) for box in picture.boxes]
    labelled = len(picture.arrows) <= _LABELLED_ARROWS
    for arrow in picture.arrows:
        key = "label" if labelled else "tooltip"
        lines.append(f"  n{arrow.source} -> n{arrow.target} [{key}={quoted(arrow.label)}];")
    return "\n".join([*lines, "}", ""])


def _role(box: Box) -> str:
    return box.tasks[0].name or box.tasks[0].kind


def fill(box: Box, colour: str) -> str:
    """Skipped tasks are white, whatever they would have done."""
    return colours.SKIPPED if all(task.how == "skipped" for task in box.tasks) else colour


def border(box: Box) -> str:
    """Colour of the frame: of a failure where one of its tasks failed."""
    return colours.FAILED if any(task.how == "failed" for task in box.tasks) else "#333333"


def _box(box: Box, colour: str) -> str:
    label = f"{box.title}\n{box.subtitle}".rstrip()
    return (
        f"  n{box.key} [label={quoted(label)}, tooltip={quoted(box.details)}, "
        f'fillcolor="{fill(box, colour)}", color="{border(box)}"];'
    )


def is_installed() -> bool:
    """Whether the program ``dot`` of Graphviz is on the search path."""
    return shutil.which("dot") is not None


def svg(source: str) -> str | None:
    """The picture, or None where `dot` is missing, fails, or takes too long."""
    program = shutil.which("dot")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=source.encode(), capture_output=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode() if done.returncode == 0 else None
