# SPDX-License-Identifier: Apache-2.0
"""The picture of a graph: boxes and arrows, with equal tasks merged where there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from .model import Edge, Node, Recording


@dataclass
class Box:
    """One or several tasks drawn as one."""

    key: int
    tasks: list[Node]
    details: str = ""

    @property
    def title(self) -> str:
        first = self.tasks[0]
        if len(self.tasks) == 1:
            return first.label
        return f"{first.name or first.kind} x {len(self.tasks)}"

    @property
    def subtitle(self) -> str:
        places = sorted({task.place for task in self.tasks})
        first = self.tasks[0]
        where = first.place_name if len(places) == 1 else f"{len(places)} places"
        return f"{where}  {first.site}".rstrip()


@dataclass
class Arrow:
    source: int
    target: int
    names: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return sum(self.names.values())

    @property
    def label(self) -> str:
        shown = ", ".join(list(self.names)[:3])
        return shown + (f", ... ({self.count})" if len(self.names) > 3 else "")


@dataclass
class Picture:
    boxes: list[Box]
    arrows: list[Arrow]
    note: str = ""
    """What was simplified; empty where every task is shown."""


def levels(tasks: list[Node], edges: list[Edge]) -> dict[int, int]:
    """For each task the length of the longest chain that leads to it."""
    level = {task.id: 0 for task in tasks}
    # Edges are sorted by target and lead from lower ids to higher ones: one pass suffices.
    for edge in edges:
        if edge.source in level and edge.target in level:
            level[edge.target] = max(level[edge.target], level[edge.source] + 1)
    return level


def picture(recording: Recording, limit: int) -> Picture:
    """All tasks up to `limit`; above it, tasks of one name and depth merged, or of one name."""
    tasks = recording.tasks
    if len(tasks) <= limit:
        return _merge(recording, lambda task: task.id, "")
    depth = levels(tasks, recording.edges)
    total = f"{len(tasks):,} tasks and {len(recording.edges):,} edges"
    by_depth = {(_role(task), depth[task.id]) for task in tasks}
    if len(by_depth) <= limit:
        return _merge(
            recording,
            lambda task: (_role(task), depth[task.id]),
            f"{total}: tasks of the same name and depth are drawn as one box",
        )
    return _merge(recording, _role, f"{total}: all tasks of the same name are drawn as one box")


def _role(task: Node) -> Hashable:
    return (task.name or task.kind, task.file, task.line)


def _merge(recording: Recording, group: Callable[[Node], Hashable], note: str) -> Picture:
    boxes: dict[Hashable, Box] = {}
    home: dict[int, int] = {}
    for task in recording.tasks:
        box = boxes.setdefault(group(task), Box(task.id, []))
        box.tasks.append(task)
        home[task.id] = box.key
    arrows: dict[tuple[int, int], Arrow] = {}
    for edge in recording.edges:
        if edge.source not in home or edge.target not in home:
            continue
        ends = home[edge.source], home[edge.target]
        if ends[0] != ends[1]:
            arrows.setdefault(ends, Arrow(*ends)).names[edge.name] += 1
    for box in boxes.values():
        box.details = _details(recording, box)
    return Picture(list(boxes.values()), list(arrows.values()), note)


def _details(recording: Recording, box: Box) -> str:
    first = box.tasks[0]
    if len(box.tasks) > 1:
        shown = ", ".join(str(task.id) for task in box.tasks[:12])
        rest = ", ..." if len(box.tasks) > 12 else ""
        return f"{box.title}\n{box.subtitle}\nids {shown}{rest}"
    parts = [f"{first.label} (id {first.id}, {first.kind})", first.place_name]
    if first.file:
        parts.append(f"{first.file}:{first.line}")
    if first.data:
        parts.append(recording.accesses(first))
    if first.how != "done":
        parts.append(first.how)
    return "\n".join(parts)
