# SPDX-License-Identifier: Apache-2.0
"""What a type checker takes and refuses: `tools/check` runs mypy over this, and nobody runs it.

Each `type: ignore` stands for an error that has to be found, as those that are not needed are
errors themselves.
"""

from __future__ import annotations

import millstream as stf
import numpy as np
import numpy.typing as npt
from millstream.interop import numba, pytorch
from millstream.viz import Graph


def names() -> None:
    stf.contxt()  # type: ignore[attr-defined]
    stf.stackable_context  # type: ignore[attr-defined]  # noqa: B018
    numba.numba_tsk  # type: ignore[attr-defined]  # noqa: B018
    pytorch.pytorch_tsk  # type: ignore[attr-defined]  # noqa: B018
    version: str = stf.__version__
    print(version, numba.numba_task, pytorch.pytorch_task)


def contexts() -> None:
    stf.context(handle=3)  # type: ignore[arg-type]
    stf.context(handle=None)
    resources = stf.async_resources(limit_bytes=1 << 20)
    kept: int = resources.executables + resources.executable_bytes
    with stf.context(handle=resources) as ctx:
        ctx.submit()  # type: ignore[call-arg]
        ctx.logical_data_empty(3)  # type: ignore[arg-type]
        ctx.logical_data([1], copy="other")  # type: ignore[arg-type]
    print(kept)


def results(ctx: stf.context, data: stf.logical_data) -> npt.NDArray[np.float64]:
    data.get().result().sum()  # type: ignore[union-attr]
    content = data.get().result()
    assert content is not None  # a token has none
    waited = ctx.wait(data)
    assert waited is not None
    total: npt.NDArray[np.float64] = content + waited
    return total


def streams(ctx: stf.context, data: stf.logical_data) -> list[stf.CudaStream]:
    with ctx.task(data.rw()) as task:
        dims: tuple[int, ...] | None = task.get_grid_dims()
        print(dims)
        return task.get_stream_ptrs()


def pictures(ctx: stf.context) -> Graph:
    return ctx.graph()


def details(error: stf.Error) -> tuple[str | None, int | None]:
    return error.task, error.line
