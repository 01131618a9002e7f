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


def queue_places(nodes: Iterable[Node]) -> dict[int, int]:
    """The place that each queue belongs to. A copy ran in the queue of either of its ends: where
    no task has used the queue, the destination is taken.
    """
    of_copies: dict[int, int] = {}
    of_tasks: dict[int, int] = {}
    for node in nodes:
        (of_copies if node.is_copy else of_tasks).setdefault(node.queue, node.place)
    return of_copies | of_tasks


def assign(nodes: Iterable[Node]) -> dict[int, Track]:
    """A track for each node that ran; no two slices of one track overlap."""
    nodes = list(nodes)
    place_of = queue_places(nodes)
    ends: dict[tuple[int, int], list[int]] = {}
    tracks: dict[int, Track] = {}
    ran = (node for node in nodes if node.ran)
    for node in sorted(ran, key=lambda n: (n.began_ns, n.ended_ns, n.id)):
        lanes = ends.setdefault((place_of[node.queue], node.queue), [])
        for lane, end in enumerate(lanes):
            if end <= node.began_ns:
                lanes[lane] = node.ended_ns
                break
        else:
            lane = len(lanes)
            lanes.append(node.ended_ns)
        tracks[node.id] = Track(place_of[node.queue], node.queue, lane)
    return tracks
