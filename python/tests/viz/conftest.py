# SPDX-License-Identifier: Apache-2.0
"""Snapshots as a context would give them."""

import pytest


class Recorder:
    """Builds a snapshot task by task; edges follow from reads and writes."""

    def __init__(self):
        self.nodes, self.edges, self.data = [], [], {}
        self._last, self._readers = {}, {}

    def _node(self, **fields):
        node = {
            "id": len(self.nodes) + 1, "is_copy": False, "kind": "submit", "reason": "coherence",
            "name": "", "file": "/home/user/flow.py", "line": 10, "place": 0, "from": -1,
            "queue": 1, "task": 0, "bytes": 0, "data": [], "modes": [], "submitted_ns": 0,
            "began_ns": 0, "ended_ns": 0, "how": "done",
        }  # fmt: skip
        node.update(fields)
        self.nodes.append(node)
        return node["id"]

    def _datum(self, name):
        return self.data.setdefault(name, {"id": len(self.data) + 1, "name": name, "bytes": 8})[
            "id"
        ]

    def task(self, name, reads=(), writes=(), began=0, ended=0, **fields):
        use = {self._datum(each): "read" for each in reads} | {
            self._datum(each): "write" for each in writes
        }
        number = self._node(
            name=name, data=list(use), modes=list(use.values()), began_ns=began, ended_ns=ended,
            **fields,
        )  # fmt: skip
        causes = {}
        for datum, mode in use.items():
            readers = self._readers.setdefault(datum, [])
            before = [self._last[datum]] if datum in self._last else []
            if mode == "write":
                before = readers or before
                self._last[datum], self._readers[datum] = number, []
            else:
                readers.append(number)
            for each in before:
                causes.setdefault(each, datum)
        self.edges += [{"from": s, "to": number, "data": d} for s, d in sorted(causes.items())]
        return number

    def copy(self, name, task=0, began=0, ended=0, **fields):
        return self._node(
            is_copy=True, name=name, task=task, data=[self._datum(name)], modes=["read"],
            began_ns=began, ended_ns=ended, **fields,
        )  # fmt: skip

    def snapshot(self):
        return {
            "nodes": self.nodes,
            "edges": self.edges,
            "data": list(self.data.values()),
            "machine": {"name": "host", "device_count": 2},
        }


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def diamond(recorder):
    """first -> left, right -> last, one copy for `right`, times in microseconds."""
    us = 1000
    recorder.task("first", writes=["x"], began=10 * us, ended=20 * us, submitted_ns=4 * us)
    recorder.task("left", ["x"], ["a"], began=20 * us, ended=50 * us, line=11)
    recorder.copy(
        "x", task=4, began=22 * us, ended=25 * us, place=1, bytes=2048, queue=9, **{"from": 0}
    )
    recorder.task("right", ["x"], ["b"], began=25 * us, ended=45 * us, place=1, queue=2)
    recorder.task("last", ["a", "b"], ["x"], began=50 * us, ended=60 * us, how="failed")
    return recorder.snapshot()
