# SPDX-License-Identifier: Apache-2.0
"""What `context.add_graph` takes: graphs as other packages have them.

The compiled module knows integers and its own graphs; it asks here for everything else. No package
is imported that the caller has not imported.
"""

from __future__ import annotations

import ctypes
from typing import Any

from millstream._errors import InvalidTypeError

_CData: Any = ctypes._SimpleCData.__mro__[1]


def find(graph: Any) -> int:
    """The handle of the CUgraph."""
    if hasattr(graph, "raw_cuda_graph"):  # PyTorch keeps it where it was asked to
        return _to_int(graph.raw_cuda_graph(), graph)
    builder = getattr(graph, "_mnff", None)  # of cuda.core, which shows no handle everywhere
    return _to_int(getattr(graph, "handle", getattr(builder, "graph", graph)), graph)


def _to_int(handle: Any, graph: Any) -> int:
    """Handles are integers, objects with `__int__`, or of ctypes."""
    if "graphexec" in type(handle).__name__.lower():
        raise InvalidTypeError(
            f"a graph of type {type(graph).__name__} is ready to run and cannot be taken apart; "
            "pass the graph or the builder that it was made from"
        )
    if isinstance(handle, _CData):
        handle = handle.value or 0
    if not hasattr(handle, "__int__") or isinstance(handle, (bool, float)):
        raise InvalidTypeError(
            f"a graph of type {type(graph).__name__} cannot be added; pass what to_graph() gave, "
            "the handle of a CUgraph as an int, or an object of cuda.core, cuda.bindings or "
            "PyTorch that has one"
        )
    return int(handle)
