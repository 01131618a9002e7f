# SPDX-License-Identifier: Apache-2.0
"""HTML pages that stand alone: style, script and data are inside, nothing is fetched."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from typing import Any


def graph_page(svg: str, title: str) -> str:
    """One HTML file with the drawing of a graph."""
    drawing = re.sub(r"^.*?(?=<svg)", "", svg, count=1, flags=re.DOTALL)
    return _fill("graph.html", title, drawing)


def timeline_page(data: dict[str, Any], title: str) -> str:
    """One HTML file with a timeline; `data` is what its script draws."""
    # "</" would end the script element, wherever a user's name has it.
    return _fill(
        "timeline.html", title, json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    )


def _fill(template: str, title: str, content: str) -> str:
    text = (
        resources.files(__package__)
        .joinpath("assets")
        .joinpath(template)
        .read_text(encoding="utf-8")
    )
    head, tail = text.split("{{content}}")
    return head.replace("{{title}}", html.escape(title.strip("<>"))) + content + tail
