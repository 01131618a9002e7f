# SPDX-License-Identifier: Apache-2.0
"""What a context recorded, as Python objects: tasks, copies, edges, data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HOST, MANAGED = -1, -2


def place_name(place: int) -> str:
    """ "host", "managed" or "device 0" for the number of a place."""
    return {HOST: "host", MANAGED: "managed"}.get(place, f"device {place}")


@dataclass(frozen=True)
class Node:
    """A task or a copy. Times are nanoseconds of a monotonic clock; 0 means "not (yet)"."""

    id: int
    is_copy: bool = False
    kind: str = "task"
    """How a task was submitted: task, submit, host_launch, parallel_for, fill or cuda_kernel."""
    reason: str = "coherence"
    """Why a copy was made: coherence, write_back or read_back."""
    name: str = ""
    file: str = ""
    line: int = 0
    place: int = HOST
    """Device number where a task ran or a copy went to; -1 is the host."""
    source: int = HOST
    """Where a copy came from."""
    queue: int = 0
    task: int = 0
    """The task that a copy was made for; 0 is none."""
    bytes: int = 0
    data: tuple[int, ...] = ()
    modes: tuple[str, ...] = ()
    submitted_ns: int = 0
    began_ns: int = 0
    ended_ns: int = 0
    how: str = "done"

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Node:
        """From a snapshot's dict; keys that are missing keep their defaults."""
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        known["source"] = fields.get("from", HOST)
        known["file"] = fields.get("file") or ""
        known["data"] = tuple(fields.get("data", ()))
        known["modes"] = tuple(fields.get("modes", ()))
        return cls(**known)

    @property
    def label(self) -> str:
        """The symbol, or kind and number."""
        if self.is_copy:
            return f"copy {self.name}" if self.name else f"copy {self.id}"
        return self.name or f"{self.kind} {self.id}"

    @property
    def site(self) -> str:
        """The user's line as `file.py:12`, or an empty text."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else ""

    @property
    def place_name(self) -> str:
        return place_name(self.place)

    @property
    def ran(self) -> bool:
        return self.began_ns > 0 and self.ended_ns >= self.began_ns

    @property
    def duration_ns(self) -> int:
        return self.ended_ns - self.began_ns if self.ran else 0

    def to_dict(self) -> dict[str, Any]:
        """With the keys of the snapshot it came from."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["from"] = fields.pop("source")
        fields["data"], fields["modes"] = list(self.data), list(self.modes)
        return fields


class Edge(NamedTuple):
    """`target` may not begin before `source` has ended, because of the datum `data`."""

    source: int
    target: int
    data: int
    name: str
    """Of the datum: its symbol, or "data 3"."""


class Datum(NamedTuple):
    id: int
    name: str
    bytes: int

    @property
    def label(self) -> str:
        return self.name or f"data {self.id}"


@dataclass(frozen=True)
class Recording:
    """A snapshot, taken apart. Nodes are sorted by id, edges by target and source."""

    tasks: list[Node] = field(default_factory=list)
    copies: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    data: dict[int, Datum] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    native_dot: str | None = None

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> Recording:
        data = {d["id"]: Datum(d["id"], d["name"], d["bytes"]) for d in snapshot.get("data", ())}
        nodes = sorted((Node.of(n) for n in snapshot.get("nodes", ())), key=lambda n: n.id)
        edges = [
            Edge(e["from"], e["to"], e["data"], _label(data, e["data"]))
            for e in snapshot.get("edges", ())
        ]
        return cls(
            tasks=[n for n in nodes if not n.is_copy],
            copies=[n for n in nodes if n.is_copy],
            edges=sorted(edges, key=lambda e: (e.target, e.source)),
            data=data,
            machine=dict(snapshot.get("machine", {})),
            native_dot=snapshot.get("native_dot"),
        )

    def data_label(self, number: int) -> str:
        return _label(self.data, number)

    def accesses(self, node: Node) -> str:
        """What a task declared, as `rw C, read A`."""
        pairs = zip(node.modes, node.data, strict=False)
        return ", ".join(f"{mode} {self.data_label(number)}" for mode, number in pairs)


def _label(data: Mapping[int, Datum], number: int) -> str:
    return data[number].label if number in data else f"data {number}"


def bytes_text(count: float) -> str:
    """For instance 512 B, 1.5 KiB, 20.0 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"


def seconds_text(nanoseconds: float) -> str:
    """For instance 850 ns, 12.3 us, 4.56 ms, 1.20 s."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def save_text(path: str | os.PathLike[str], writers: Mapping[str, Any], what: str) -> str:
    """Writes the text that belongs to the path's suffix; returns the path."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in writers:
        known = ", ".join(f"'{each}'" for each in writers)
        raise ValueError(f"{what} cannot be saved as '{name}'; give a name that ends in {known}")
    text = writers[suffix]()
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name
