# SPDX-License-Identifier: Apache-2.0
"""What calls from Python cost on a GPU machine, by the clock.

Rows with a twin do the same work without the library, in turns with ours, in the same run. Ends
with 77 where there is no GPU. With the look-alike driver in MILLSTREAM_CUDA_DRIVER and --quick
everything but the frameworks runs, and no value means anything.

    python bench/python/gpu_cost.py [--runs 15] [--only PATTERN] [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import call_cost
import millstream as stf
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

import numba_names

Loop = Callable[[int], None]

KERNEL = (Path(__file__).resolve().parent.parent / "touch.ptx").read_bytes()


class Row(NamedTuple):
    """One line of the report; budgets are in microseconds a call, `over` of what ours adds."""

    name: str
    make: Callable[[Session], tuple[Loop, Loop | None]]
    budget: float = 0.0
    over: float = 0.0
    calls: int = 20_000
    together: bool = False
    """The time until the work has ended counts, too."""


class Session:
    """A context with three data on the device, and the driver as a program uses it by itself."""

    def __init__(self, machine: stf.machine) -> None:
        self.machine = machine
        self.ctx = stf.context(machine=machine)
        self.recorded: list[stf.context] = []
        self.data = [self.ctx.logical_data(np.zeros(16)) for _ in range(3)]
        for datum in self.data:
            with self.ctx.task(datum.rw()):
                pass
        self.driver = ctypes.CDLL(os.environ.get("MILLSTREAM_CUDA_DRIVER") or "libcuda.so.1")
        self.context = self.handle("cuDevicePrimaryCtxRetain", 0)
        self.call("cuCtxSetCurrent", self.context)
        self.module = self.handle("cuModuleLoadData", KERNEL)
        self.kernel = self.handle("cuModuleGetFunction", self.module, b"test_touch")
        self.stream = self.handle("cuStreamCreate", 1)
        self.block = self.handle("cuMemAlloc", ctypes.c_size_t(512))

    def call(self, name: str, *arguments: object) -> None:
        entry = getattr(self.driver, f"{name}_v2", None) or getattr(self.driver, name)
        answer = entry(*arguments)
        if answer != 0:
            raise RuntimeError(f"{name} answered {answer}")

    def handle(self, name: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def launcher(self) -> Callable[[int, int], None]:
        """A launch (stream, address), as lean as ctypes can."""
        launch = self.driver.cuLaunchKernel
        unsigned, pointer = ctypes.c_uint, ctypes.c_void_p
        launch.argtypes = [pointer, *[unsigned] * 7, pointer, pointer, pointer]
        address = ctypes.c_uint64()
        parameters = (pointer * 1)(ctypes.addressof(address))
        kernel = self.kernel

        def run(stream: int, where: int) -> None:
            address.value = where
            if launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None) != 0:
                raise RuntimeError("a launch failed")

        return run

    def drain(self) -> None:
        for ctx in (self.ctx, *self.recorded):
            stf.synchronize(ctx.fence())
        self.call("cuStreamSynchronize", self.stream)

    def close(self) -> None:
        for ctx in (self.ctx, *self.recorded):
            ctx.finalize()
        self.call("cuMemFree", self.block)
        self.call("cuStreamDestroy", self.stream)
        self.call("cuModuleUnload", self.module)


def alone(make: Callable[..., Loop]) -> Callable[[Session], tuple[Loop, None]]:
    """A loop of call_cost.py, without a twin."""
    return lambda session: (make(session.ctx, session.data), None)


def first_write(session: Session) -> tuple[Loop, None]:
    ctx = session.ctx

    def loop(calls: int) -> None:
        for _ in range(calls):
            fresh = ctx.logical_data_empty((16,))
            with ctx.task(fresh.write()):
                pass

    return loop, None


def kernel_in_task(session: Session) -> tuple[Loop, Loop]:
    ctx, (datum, *_) = session.ctx, session.data
    launch = session.launcher()
    stream, block = session.stream.value or 0, session.block.value or 0

    def ours(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(datum.rw()) as t:
                launch(t.stream_ptr(), t.get_arg(0))

    def twin(calls: int) -> None:
        for _ in range(calls):
            launch(stream, block)

    return ours, twin


def kernel_submitted(session: Session) -> tuple[Loop, Loop]:
    ctx, (datum, *_) = session.ctx, session.data
    launch = session.launcher()
    current = stf.current_task

    def body(view: stf.stf_cai) -> None:
        launch(current().stream_ptr(), view.ptr)

    def ours(calls: int) -> None:
        for _ in range(calls):
            ctx.submit(body, datum.rw())

    return ours, kernel_in_task(session)[1]


def recording(session: Session) -> tuple[stf.context, stf.logical_data]:
    """A context whose stages end with the runs, and a datum on its device."""
    ctx = stf.context(machine=session.machine, use_graph=True)
    session.recorded.append(ctx)
    datum = ctx.logical_data_zeros((16,))
    return ctx, datum


def recorded_task(session: Session) -> tuple[Loop, None]:
    ctx, datum = recording(session)

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(datum.rw()):
                pass

    return loop, None


class Kernel:
    """A kernel as cuda.core has it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle


def recorded_kernel(session: Session) -> tuple[Loop, None]:
    return recorded_kernels(session, Kernel(session.kernel.value or 0))


def recorded_handle(session: Session) -> tuple[Loop, None]:
    return recorded_kernels(session, session.kernel.value or 0)


def recorded_kernels(session: Session, kernel: object) -> tuple[Loop, None]:
    ctx, datum = recording(session)

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.cuda_kernel(datum.rw()) as k:
                k.launch(kernel, 1, 1, (k.get_arg(0),))

    return loop, None


def recorded_launch(session: Session) -> tuple[Loop, Loop]:
    ctx, datum = recording(session)
    launch = session.launcher()

    def ours(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(datum.rw()) as t:
                launch(t.stream_ptr(), t.get_arg(0))

    return ours, kernel_in_task(session)[1]


def torch_op(session: Session) -> tuple[Loop, Loop]:
    import torch

    ctx, (datum, *_) = session.ctx, session.data
    tensor = torch.zeros(16, dtype=torch.float64, device="cuda")

    def body(view: stf.stf_cai) -> None:
        torch.as_tensor(view, device="cuda").add_(1.0)

    def ours(calls: int) -> None:
        for _ in range(calls):
            ctx.submit(body, datum.rw())

    def twin(calls: int) -> None:
        for _ in range(calls):
            tensor.add_(1.0)

    return ours, twin


def torch_dlpack(session: Session) -> tuple[Loop, Loop]:
    import torch

    ctx, (datum, *_) = session.ctx, session.data

    def body(view: stf.stf_cai) -> None:
        torch.from_dlpack(view).add_(1.0)

    def ours(calls: int) -> None:
        for _ in range(calls):
            ctx.submit(body, datum.rw())

    return ours, torch_op(session)[1]


def torch_op_in_task(session: Session) -> tuple[Loop, Loop]:
    import torch

    ctx, (datum, *_) = session.ctx, session.data

    def ours(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(datum.rw()) as t:
                stream = torch.cuda.ExternalStream(t.stream_ptr())
                with torch.cuda.stream(stream):
                    torch.as_tensor(t.args_cai(), device="cuda").add_(1.0)

    return ours, torch_op(session)[1]


def torch_op_in_adapter(session: Session) -> tuple[Loop, Loop]:
    from millstream.interop.pytorch import pytorch_task

    ctx, (datum, *_) = session.ctx, session.data

    def ours(calls: int) -> None:
        for _ in range(calls):
            with pytorch_task(ctx, datum.rw()) as (tensor,):
                tensor.add_(1.0)

    return ours, torch_op(session)[1]


def torch_adapter_alone(session: Session) -> tuple[Loop, None]:
    from millstream.interop.pytorch import pytorch_task

    ctx, (datum, *_) = session.ctx, session.data

    def ours(calls: int) -> None:
        for _ in range(calls):
            with pytorch_task(ctx, datum.rw()):
                pass

    return ours, None


def torch_arguments(session: Session) -> tuple[Loop, Loop]:
    from millstream.interop.pytorch import tensor_arguments

    ctx, (datum, *_) = session.ctx, session.data
    current = stf.current_task

    def body(_: stf.stf_cai) -> None:
        tensor_arguments(current()).add_(1.0)

    def ours(calls: int) -> None:
        for _ in range(calls):
            ctx.submit(body, datum.rw())

    return ours, torch_op(session)[1]


def torch_stream_alone(session: Session) -> tuple[Loop, None]:
    import torch

    torch.cuda.init()
    ctx, (datum, *_) = session.ctx, session.data

    def body(_: stf.stf_cai) -> None:
        pass

    def ours(calls: int) -> None:
        for _ in range(calls):
            ctx.submit(body, datum.rw())

    return ours, None


def cupy_op(session: Session) -> tuple[Loop, Loop]:
    import cupy

    ctx, (datum, *_) = session.ctx, session.data
    array = cupy.zeros(16)

    def body(view: stf.stf_cai) -> None:
        mine = cupy.asarray(view)
        cupy.add(mine, 1.0, out=mine)

    def ours(calls: int) -> None:
        for _ in range(calls):
            ctx.submit(body, datum.rw())

    def twin(calls: int) -> None:
        for _ in range(calls):
            cupy.add(array, 1.0, out=array)

    return ours, twin


class Numba:
    """A kernel that adds one to a word, and its launch without the library."""

    def __init__(self) -> None:
        numba_names.add()
        from numba import cuda

        def add_one(x: np.ndarray) -> None:
            x[0] += 1.0

        self.cuda = cuda
        self.function = add_one
        self.touch = cuda.jit(add_one)

    def twin(self) -> Loop:
        array = self.cuda.device_array(16)
        launch = self.touch[1, 1]

        def loop(calls: int) -> None:
            for _ in range(calls):
                launch(array)

        return loop


def numba_kernel(session: Session) -> tuple[Loop, Loop]:
    numba = Numba()
    cuda, touch = numba.cuda, numba.touch
    ctx, (datum, *_) = session.ctx, session.data

    def ours(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(datum.rw()) as t:
                stream = cuda.external_stream(t.stream_ptr())
                touch[1, 1, stream](cuda.as_cuda_array(t.args_cai(), sync=False))

    return ours, numba.twin()


def numba_adapter(session: Session) -> tuple[Loop, Loop]:
    from millstream.interop.numba import external_stream, numba_task

    numba = Numba()
    touch = numba.touch
    ctx, (datum, *_) = session.ctx, session.data

    def ours(calls: int) -> None:
        for _ in range(calls):
            with numba_task(ctx, datum.rw()) as ((array,), stream):
                touch[1, 1, external_stream(stream)](array)

    return ours, numba.twin()


def numba_jit(session: Session) -> tuple[Loop, Loop]:
    from millstream.interop.numba import jit

    numba = Numba()
    touch = jit(numba.function)
    _, (datum, *_) = session.ctx, session.data

    def ours(calls: int) -> None:
        for _ in range(calls):
            touch[1, 1](datum.rw())

    return ours, numba.twin()


def have(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def framework(name: str, make: Callable[..., object], budget: float = 0, over: float = 0) -> Row:
    """A row whose twin is the framework alone; what is queued counts until it has ended."""
    return Row(name, make, budget, over, 5_000, together=True)


def rows() -> list[Row]:
    budgets = call_cost.BUDGETS_US
    made = [
        Row("Python empty task, 2 data", alone(call_cost.task_two), budgets["task, 2 deps"]),
        Row("Python empty task, 3 data", alone(call_cost.task_three), budgets["task, 3 deps"]),
        Row("Python empty task, token", alone(call_cost.task_token), budgets["task, token"]),
        Row(
            "Python task, 2 data + pointers",
            alone(call_cost.task_pointers),
            budgets["task, 2 deps + pointers"],
        ),
        Row(
            "Python task, 2 data + array views",
            alone(call_cost.task_views),
            budgets["task, 2 deps + views"],
        ),
        Row("Python submit, 2 data", alone(call_cost.submit_only)),
        Row("Python logical_data_empty", alone(call_cost.make_empty), 0.5),
        Row("Python logical_data_empty + first write", first_write, 1.5),
        Row("Python context, open and finalize", alone(call_cost.open_and_finalize), 8.0),
        Row(
            "Python host_launch, 1,000 submitted", alone(call_cost.host_launch_only), 4.0, 0, 1_000
        ),
        Row(
            "Python host_launch, 1,000 until done",
            alone(call_cost.host_launch_only),
            15.0,
            0,
            1_000,
            together=True,
        ),
        Row("Python wait, small datum", alone(call_cost.wait_small), 12.0, 0, 1_000),
        *(
            Row(f"Python recorded {what}, {calls:,}", make, budget, calls=calls)
            for calls in (500, 50_000)
            for what, make, budget in (
                ("task, nothing launched", recorded_task, 3.0),
                ("cuda_kernel", recorded_kernel, 3.0),
                ("cuda_kernel by its handle", recorded_handle, 3.0),
                ("kernel by ctypes in a task", recorded_launch, 0.0),
            )
        ),
        Row("Python 50,000 recorded kernels, run", recorded_kernel, calls=50_000, together=True),
        Row("Python kernel by ctypes in a task", kernel_in_task, calls=5_000, together=True),
        Row("Python kernel by ctypes, submitted", kernel_submitted, calls=5_000, together=True),
    ]
    if have("torch"):
        made += [
            framework("PyTorch op, submitted", torch_op, 10.0),
            framework("PyTorch op by DLPack, submitted", torch_dlpack, 10.0),
            framework("PyTorch op by tensor_arguments, submitted", torch_arguments, 10.0),
            framework("PyTorch op in a task", torch_op_in_task),
            framework("PyTorch op in pytorch_task", torch_op_in_adapter, 10.0),
            framework("PyTorch imported, empty function submitted", torch_stream_alone),
            framework("PyTorch, empty pytorch_task", torch_adapter_alone),
        ]
    if have("cupy"):
        made.append(framework("CuPy op, submitted", cupy_op))
    if have("numba") and have("numba.cuda"):
        made += [
            framework("Numba kernel in a task", numba_kernel),
            framework("Numba kernel in numba_task", numba_adapter, over=3.0),
            framework("Numba kernel by jit", numba_jit, over=3.0),
        ]
    return made


def measure(row: Row, machine: stf.machine, runs: int, share: float) -> dict[str, object]:
    """The row as bench/run.py takes it, microseconds a call, a value a run."""
    calls = max(2, int(row.calls * share))
    session = Session(machine)

    def time_of(loop: Loop) -> float:
        begin = time.perf_counter()
        loop(calls)
        if row.together:
            session.drain()
        took = time.perf_counter() - begin
        session.drain()
        return took / calls * 1e6

    ours, twin = row.make(session)
    found: dict[str, list[float]] = {"values": [], "by_hand": []}
    for run in range(runs + 1):
        hand = time_of(twin) if twin else None
        mine = time_of(ours)
        if run == 0:
            continue  # warms up
        found["values"].append(mine)
        if hand is not None:
            found["by_hand"].append(hand)
    session.close()
    return {"name": row.name, "unit": "us", "budget": row.budget, "over_budget": row.over, **found}


def show(row: dict[str, object]) -> None:
    values, twin = row["values"], row["by_hand"]
    print(
        f"{row['name']:40} {statistics.median(values):9.3f} us  "
        f"({min(values):.3f} to {max(values):.3f})"
        + (f"  budget {row['budget']}" if row["budget"] else "")
        + (f"  by hand {statistics.median(twin):.3f}" if twin else ""),
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=15, help="values of each row")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--json", help="file for the rows")
    parser.add_argument("--quick", action="store_true", help="tiny amounts, without frameworks")
    options = parser.parse_args()
    try:
        machine = stf.machine("cuda", devices=1)
        stf.context(machine=machine).finalize()  # opens it
    except stf.UnavailableError as reason:
        print(f"gpu_cost: {reason}", file=sys.stderr)
        return 77
    chosen = [row for row in rows() if options.only in row.name]
    if options.quick:
        chosen = [row for row in chosen if row.name.startswith("Python")]
    found = []
    for row in chosen:
        found.append(
            measure(
                row, machine, 2 if options.quick else options.runs, 0.01 if options.quick else 1
            )
        )
        show(found[-1])
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": found}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
