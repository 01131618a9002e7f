# SPDX-License-Identifier: Apache-2.0
"""`ctx.graph()`: the tasks of a context and what orders them."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping
from typing import Any

from . import dot, page, svg
from .collapse import Picture, picture
from .model import Datum, Edge, Node, Recording, save_text

LIMIT = 500  # tasks drawn one by one; above, equal tasks share a box


class Graph:
    """Nodes are tasks, edges are the orders that their declared accesses ask for.

    A picture: it does not change when the context goes on. `print(graph.to_dot())`,
    `graph.save("flow.svg")`, or just show it in a notebook.
    """

    def __init__(self, snapshot: Mapping[str, Any]) -> None:
        self._recording = Recording.of(snapshot)

    @property
    def nodes(self) -> list[Node]:
        """The tasks, in the order of submission."""
        return list(self._recording.tasks)

    @property
    def edges(self) -> list[Edge]:
        return list(self._recording.edges)

    @property
    def copies(self) -> list[Node]:
        """The copies that were made; `copy.task` says for which task."""
        return list(self._recording.copies)

    @property
    def data(self) -> list[Datum]:
        return list(self._recording.data.values())

    @property
    def machine(self) -> dict[str, Any]:
        return dict(self._recording.machine)

    def node(self, which: Node | int | str) -> Node:
        """By itself, by id, or by a name that only one task has; raises LookupError."""
        if isinstance(which, Node):
            which = which.id
        found = [n for n in self._recording.tasks if which in (n.id, n.name)]
        if not found:
            raise LookupError(f"no task '{which}' in this graph; see graph.nodes for all of them")
        if len(found) > 1:
            ids = ", ".join(str(n.id) for n in found[:8]) + (", ..." if len(found) > 8 else "")
            raise LookupError(f"{len(found)} tasks are called '{which}'; give an id: {ids}")
        return found[0]

    def why(self, first: Node | int | str, second: Node | int | str) -> list[Edge]:
        """Why `second` comes after `first`: a shortest chain of edges, empty if it need not."""
        start, end = self.node(first).id, self.node(second).id
        leading: dict[int, Edge] = {}
        following: dict[int, list[Edge]] = {}
        for edge in self._recording.edges:
            following.setdefault(edge.source, []).append(edge)
        queue = deque([start])
        while queue and end not in leading:
            for edge in following.get(queue.popleft(), ()):
                if edge.target not in leading:
                    leading[edge.target] = edge
                    queue.append(edge.target)
        chain: list[Edge] = []
        while end in leading and end != start:
            chain.append(leading[end])
            end = chain[-1].source
        return chain[::-1]

    # --- as data and text ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        r = self._recording
        return {
            "machine": dict(r.machine),
            "nodes": [{**n.to_dict(), "label": n.label} for n in r.tasks],
            "edges": [
                {"from": e.source, "to": e.target, "data": e.data, "name": e.name} for e in r.edges
            ],
            "copies": [n.to_dict() for n in r.copies],
            "data": [d._asdict() for d in r.data.values()],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def to_dot(self, limit: int = LIMIT) -> str:
        """Graphviz text. Above `limit` tasks, equal ones share a box, and the title says so."""
        return dot.text(self._picture(limit))

    def native_dot(self) -> str:
        """The graph of the machine that was launched last, in the DOT language of its vendor.

        Raises RuntimeError where nothing was recorded: the context has to be one of ``use_graph``.
        """
        text = self._recording.native_dot
        if text is None:
            raise RuntimeError("there is no graph of the machine; use context(use_graph=True)")
        return text

    def to_svg(self, engine: str | None = None, limit: int = LIMIT) -> str:
        """By graphviz where it is installed and fast enough, else by the built-in layout.

        `engine` is "dot" or "builtin" to ask for one of them. Raises ValueError for another name
        and RuntimeError where "dot" was asked for and cannot draw it.
        """
        if engine not in (None, "dot", "builtin"):
            raise ValueError(f"'{engine}' draws no graph; give 'dot', 'builtin' or None")
        drawn = self._picture(limit)
        few = len(drawn.arrows) <= dot.MOST_ARROWS
        wanted = engine == "dot" or (engine is None and few)
        made = dot.svg(dot.text(drawn)) if wanted else None
        if made is None and engine == "dot":
            raise RuntimeError("'dot' drew no graph; install graphviz or give engine='builtin'")
        return svg.text(drawn) if made is None else made

    def to_html(self, limit: int = LIMIT) -> str:
        """One file without links to others: zoom, pan, search, details under the pointer."""
        return page.graph_page(self.to_svg(limit=limit), repr(self))

    def save(self, path: str | os.PathLike[str], limit: int = LIMIT) -> str:
        """Writes .svg, .html, .dot (or .gv) or .json by the suffix of `path`; returns the path."""
        writers = {
            ".svg": lambda: self.to_svg(limit=limit),
            ".html": lambda: self.to_html(limit=limit),
            ".dot": lambda: self.to_dot(limit=limit),
            ".gv": lambda: self.to_dot(limit=limit),
            ".json": self.to_json,
        }
        return save_text(path, writers, "a graph")

    def _picture(self, limit: int) -> Picture:
        return picture(self._recording, limit)

    # --- notebooks -------------------------------------------------------------------------------

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.to_svg(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        r = self._recording
        return f"<millstream graph: {len(r.tasks):,} tasks, {len(r.edges):,} edges>"
