# SPDX-License-Identifier: Apache-2.0
"""`ctx.trace()`: what ran when and where."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import page, perfetto
from .model import Node, Recording, bytes_text, place_name, save_text, seconds_text
from .tracks import assign, queue_places


class Record(NamedTuple):
    """One task or copy; times in seconds since the first one began, None where it did not run."""

    id: int
    name: str
    kind: str
    """How a task was submitted, or "copy"."""
    place: str
    queue: int
    begin: float | None
    duration: float
    waited: float
    """From submission to begin."""
    bytes: int
    """Of a copy."""
    outcome: str
    site: str


class Trace:
    """Times of tasks and copies. A picture: it does not change when the context goes on.

    `print(trace)` sums up, `trace.save("trace.json")` is for https://ui.perfetto.dev,
    `trace.save("timeline.html")` is a page of its own.
    """

    def __init__(self, snapshot: Mapping[str, Any]) -> None:
        self._recording = Recording.of(snapshot)
        nodes = self._recording.tasks + self._recording.copies
        self._ran = [node for node in nodes if node.ran]
        self._start = min((node.began_ns for node in self._ran), default=0)
        self._end = max((node.ended_ns for node in self._ran), default=0)

    @property
    def tasks(self) -> list[Record]:
        return [self._record(node) for node in self._recording.tasks]

    @property
    def copies(self) -> list[Record]:
        return [self._record(node) for node in self._recording.copies]

    @property
    def span(self) -> float:
        """Seconds from the first begin to the last end."""
        return (self._end - self._start) / 1e9

    def _record(self, node: Node) -> Record:
        return Record(
            id=node.id,
            name=node.label,
            kind="copy" if node.is_copy else node.kind,
            place=node.place_name,
            queue=node.queue,
            begin=(node.began_ns - self._start) / 1e9 if node.ran else None,
            duration=node.duration_ns / 1e9,
            waited=max(0, node.began_ns - node.submitted_ns) / 1e9 if node.ran else 0.0,
            bytes=node.bytes,
            outcome=node.how,
            site=node.site,
        )

    # --- sums ------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Times per task name, busy time per queue, copies per route; seconds and bytes."""
        return {
            "span": self.span,
            "tasks": len(self._recording.tasks),
            "names": self._per_name(),
            "queues": self._per_queue(),
            "copies": self._per_route(),
        }

    def _per_name(self) -> dict[str, dict[str, float]]:
        """Slowest in total first."""
        times: dict[str, list[int]] = {}
        for node in self._recording.tasks:
            times.setdefault(node.name or node.kind, []).append(node.duration_ns)
        ranked = sorted(times.items(), key=lambda item: (-sum(item[1]), item[0]))
        return {
            name: {
                "count": len(spans),
                "total": sum(spans) / 1e9,
                "mean": sum(spans) / len(spans) / 1e9,
                "longest": max(spans) / 1e9,
            }
            for name, spans in ranked
        }

    def _per_queue(self) -> dict[str, dict[str, float]]:
        busy: dict[tuple[int, int], list[int]] = {}
        place_of = queue_places(self._recording.tasks + self._recording.copies)
        for node in self._ran:
            busy.setdefault((place_of[node.queue], node.queue), []).append(node.duration_ns)
        whole = max(self._end - self._start, 1)
        return {
            f"{place_name(place)}, queue {queue}": {
                "count": len(spans),
                "busy": sum(spans) / 1e9,
                "share": sum(spans) / whole,
            }
            for (place, queue), spans in sorted(busy.items())
        }

    def _per_route(self) -> dict[str, dict[str, int]]:
        routes: dict[str, dict[str, int]] = {}
        for copy in self._recording.copies:
            route = f"{place_name(copy.source)} to {copy.place_name}"
            total = routes.setdefault(route, {"count": 0, "bytes": 0})
            total["count"] += 1
            total["bytes"] += copy.bytes
        return dict(sorted(routes.items()))

    # --- as data and text ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The trace-event document (see `to_json`)."""
        return perfetto.document(self._recording)

    def to_json(self) -> str:
        """Trace-event JSON: ui.perfetto.dev and chrome://tracing open it."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def to_text(self) -> str:
        """The summary as aligned columns."""
        all_of = self.summary()
        lines = [repr(self)[1:-1], ""]
        lines.append(f"  {'task':<24}{'count':>8}{'total':>11}{'mean':>11}{'longest':>11}")
        for name, row in all_of["names"].items():
            times = "".join(
                f"{seconds_text(row[key] * 1e9):>11}" for key in ("total", "mean", "longest")
            )
            lines.append(f"  {name:<24}{row['count']:>8}{times}")
        for queue, row in all_of["queues"].items():
            lines.append(f"  {queue:<24}{row['count']:>8}  busy {row['share']:.0%}")
        for route, row in all_of["copies"].items():
            lines.append(f"  {route:<24}{row['count']:>8}  {bytes_text(row['bytes'])} copied")
        return "\n".join([*lines, ""])

    def to_html(self) -> str:
        """One file without links to others: a timeline with zoom, pan, details and sums."""
        return page.timeline_page(self._page_data(), repr(self))

    def _page_data(self) -> dict[str, Any]:
        """Columns rather than records: a large trace stays a small file."""
        r = self._recording
        tracks = assign(self._ran)
        rows = sorted(set(tracks.values()), key=lambda track: track.order)
        row_of = {track: i for i, track in enumerate(rows)}
        position = {node.id: i for i, node in enumerate(self._ran)}
        arrows = [(e.source, e.target, e.name) for e in r.edges]
        arrows += [(c.id, c.task, c.name) for c in r.copies]
        return {
            "tracks": [track.label for track in rows],
            "slices": [
                [
                    row_of[tracks[node.id]],
                    node.began_ns - self._start,
                    node.duration_ns,
                    node.id,
                    "copy" if node.is_copy else node.name or node.kind,
                    self._hint(node),
                    node.how,
                ]
                for node in self._ran
            ],
            "arrows": [
                [position[source], position[target], name]
                for source, target, name in arrows
                if source in position and target in position
            ],
            "span": self._end - self._start,
            "summary": self.to_text(),
        }

    def _hint(self, node: Node) -> str:
        if node.is_copy:
            route = f"{place_name(node.source)} to {node.place_name}"
            return f"{node.label}: {bytes_text(node.bytes)}, {route} ({node.reason})"
        return f"{node.site}  {self._recording.accesses(node)}".strip()

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes .json (for Perfetto), .html or .txt by the suffix of `path`; returns the path."""
        writers = {".json": self.to_json, ".html": self.to_html, ".txt": self.to_text}
        return save_text(path, writers, "a trace")

    # --- notebooks -------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """The page in a frame, so that its style and script cannot meet the notebook's."""
        source = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:480px;border:0"></iframe>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": self.to_text()}

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        copied = sum(copy.bytes for copy in self._recording.copies)
        return (
            f"<millstream trace: {len(self._recording.tasks):,} tasks and "
            f"{len(self._recording.copies):,} copies ({bytes_text(copied)}) in "
            f"{seconds_text(self._end - self._start)}>"
        )
