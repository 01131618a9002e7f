# SPDX-License-Identifier: Apache-2.0
"""Pictures of what a context did: its task graph and its timeline. Pure Python, no package needed.

Both classes are made from a snapshot, a dict of plain values:
`{"nodes": [...], "edges": [...], "data": [...], "machine": {...}}`, with the fields of
`trace_node`, `trace_edge` and `trace_data` in `include/millstream/trace.hpp`, enumerations as
their names and the site as "file" and "line".
"""

from .graph import Graph
from .model import Datum, Edge, Node
from .trace import Record, Trace

__all__ = ["Datum", "Edge", "Graph", "Node", "Record", "Trace"]
