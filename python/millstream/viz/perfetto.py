# SPDX-License-Identifier: Apache-2.0
"""Trace-event JSON, which ui.perfetto.dev and chrome://tracing open.

Processes are places, threads are queues, slices are tasks and copies, arrows are dependencies.
The format counts in microseconds; three decimals keep every nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .model import Node, Recording, place_name
from .tracks import Track, assign

Event = dict[str, Any]

_MOST_FLOWS = 200_000  # arrows are the bulk of the file; beyond, the viewer drowns in them


def document(recording: Recording) -> dict[str, Any]:
    """What ran, as a trace file of Chrome and Perfetto; times in microseconds."""
    nodes = [node for node in recording.tasks + recording.copies if node.ran]
    tracks = assign(nodes)
    start = min((node.began_ns for node in nodes), default=0)
    thread = {t: i + 1 for i, t in enumerate(sorted(set(tracks.values()), key=lambda t: t.order))}
    events = list(_names(thread))
    at = {node.id: _Slice(node, tracks[node.id], thread[tracks[node.id]], start) for node in nodes}
    events += [_slice(recording, each) for each in at.values()]
    events += _copied_bytes(recording, at)
    links = [(e.source, e.target, e.name, "dependency") for e in recording.edges]
    links += [(c.id, c.task, c.name, "copy") for c in recording.copies if c.task]
    links = [link for link in links if link[0] in at and link[1] in at]
    for number, (source, target, name, kind) in enumerate(links[:_MOST_FLOWS]):
        events += _flow(number + 1, at[source], at[target], name or "copy", kind)
    other = {**recording.machine, "arrows_left_out": max(0, len(links) - _MOST_FLOWS)}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


class _Slice:
    def __init__(self, node: Node, track: Track, thread: int, start: int) -> None:
        self.node = node
        self.process = _process(track.place)
        self.thread = thread
        self.begin = (node.began_ns - start) / 1000
        self.end = (node.ended_ns - start) / 1000


def _process(place: int) -> int:
    return place + 3  # host 2, managed 1, device n as n + 3


def _names(threads: dict[Track, int]) -> Iterator[Event]:
    for place in sorted({track.place for track in threads}):
        pid = _process(place)
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": place_name(place)}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for track, tid in threads.items():
        pid = _process(track.place)
        name = track.label.split(", ", 1)[1]
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def _slice(recording: Recording, where: _Slice) -> Event:
    node = where.node
    args: dict[str, Any] = {"id": node.id, "outcome": node.how}
    if node.is_copy:
        category = "copy"
        route = f"{place_name(node.source)} to {node.place_name}"
        args.update(reason=node.reason, bytes=node.bytes, route=route)
    else:
        category = "task"
        args.update(kind=node.kind, site=node.site, data=recording.accesses(node))
        args["waited_us"] = max(0, node.began_ns - node.submitted_ns) / 1000
    return {
        "ph": "X",
        "name": node.label,
        "cat": category,
        "pid": where.process,
        "tid": where.thread,
        "ts": where.begin,
        "dur": round(where.end - where.begin, 3),
        "args": args,
    }


def _flow(number: int, source: _Slice, target: _Slice, name: str, kind: str) -> list[Event]:
    common = {"name": name, "cat": kind, "id": number}
    # A flow hangs on the slice that encloses its time, so it leaves just before the end.
    leave = max(source.begin, round(source.end - 0.001, 3))
    begin = {"ph": "s", "pid": source.process, "tid": source.thread, "ts": leave, **common}
    end = {"ph": "f", "bp": "e", "pid": target.process, "tid": target.thread, "ts": target.begin}
    return [begin, {**end, **common}]


def _copied_bytes(recording: Recording, at: dict[int, _Slice]) -> Iterator[Event]:
    """A counter per place: bytes copied to it so far."""
    total: dict[int, int] = {}
    for copy in sorted((c for c in recording.copies if c.ran), key=lambda c: (c.ended_ns, c.id)):
        total[copy.place] = total.get(copy.place, 0) + copy.bytes
        yield {
            "ph": "C",
            "name": "bytes copied to it",
            "pid": _process(copy.place),
            "ts": at[copy.id].end,
            "args": {"bytes": total[copy.place]},
        }
