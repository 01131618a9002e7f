# SPDX-License-Identifier: Apache-2.0
"""Which row of a timeline each task and copy is drawn in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .model import MANAGED, Node, place_name


class Track(NamedTuple):
    """One row: a queue of a place, and the n-th lane of it where slices overlap."""

    place: int
    queue: int
    lane: int

    @property
    def label(self) -> str:
        lane = f" ({self.lane + 1})" if self.lane else ""
        return f"{place_name(self.place)}, queue {self.queue}{lane}"

    @property
    def order(self) -> tuple[int, int, int]:
        return (self.place if self.place != MANAGED else 1 << 20, self.queue, self.lane)


def assign(nodes: Iterable[Node]) -> dict[int, Track]:
    """A track for each node that ran; no two slices of one track overlap."""
    ends: dict[tuple[int, int], list[int]] = {}
    tracks: dict[int, Track] = {}
    ran = (node for node in nodes if node.ran)
    for node in sorted(ran, key=lambda n: (n.began_ns, n.ended_ns, n.id)):
        lanes = ends.setdefault((node.place, node.queue), [])
        for lane, end in enumerate(lanes):
            if end <= node.began_ns:
                lanes[lane] = node.ended_ns
                break
        else:
            lane = len(lanes)
            lanes.append(node.ended_ns)
        tracks[node.id] = Track(node.place, node.queue, lane)
    return tracks
