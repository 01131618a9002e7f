# SPDX-License-Identifier: Apache-2.0
"""What calls from Python cost.

Prints the median and the spread of several runs, in microseconds a call. Tasks run on the null
machine, which accepts everything and does nothing, so the numbers are the library's own time; the
rows with NumPy arrays and functions run on the host machine. Times are those of the calling
thread's processor, so that a busy machine disturbs them little; rows that wait are by the clock.

    python bench/python/call_cost.py [--runs 15] [--calls 20000] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import millstream as stf
import numpy as np

# The budgets of the design, in microseconds a call on a server core.
BUDGETS_US = {
    "task, 2 deps": 1.2,
    "task, 3 deps": 1.4,
    "task, token": 0.9,
    "task, 2 deps + pointers": 1.5,
    "task, 2 deps + views": 2.0,
    "host task, 2 deps + arrays": 2.0,
    "logical_data_empty": 0.5,
    "context, open and finalize": 8.0,
    "host_launch, submit only": 4.0,
    "wait, small datum": 12.0,
}

Loop = Callable[[int], None]


@contextmanager
def opened(name: str) -> Iterator[tuple[stf.context, list[stf.logical_data]]]:
    """A context with three written data of 16 elements."""
    with stf.context(machine=stf.machine(name)) as ctx:
        yield ctx, [ctx.logical_data(np.zeros(16)) for _ in range(3)]


def task_two(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    a, b, _ = data

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(a.read(), b.rw()):
                pass

    return loop


def task_three(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    a, b, c = data

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(a.read(), b.read(), c.rw()):
                pass

    return loop


def task_token(ctx: stf.context, _: list[stf.logical_data]) -> Loop:
    token = ctx.token()

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(token.rw()):
                pass

    return loop


def task_pointers(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    a, b, _ = data

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(a.read(), b.rw()) as t:
                t.get_arg(0)
                t.get_arg(1)

    return loop


def task_views(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    a, b, _ = data

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(a.read(), b.rw()) as t:
                t.args_cai()

    return loop


def task_arrays(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    a, b, _ = data

    def loop(calls: int) -> None:
        for _ in range(calls):
            with ctx.task(a.read(), b.rw()) as (_x, _y):
                pass

    return loop


def make_empty(ctx: stf.context, _: list[stf.logical_data]) -> Loop:
    def loop(calls: int) -> None:
        for _ in range(calls):
            ctx.logical_data_empty((16,))

    return loop


def submit_only(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    a, b, _ = data

    def body(x: object, y: object) -> None:
        pass

    def loop(calls: int) -> None:
        for _ in range(calls):
            ctx.submit(body, a.read(), b.rw())

    return loop


def host_launch_only(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    a, b, _ = data

    def body(x: object, y: object) -> None:
        pass

    def loop(calls: int) -> None:
        for _ in range(calls):
            ctx.host_launch(a.read(), b.rw(), fn=body)

    return loop


def submit_and_drain(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    submit = submit_only(ctx, data)

    def loop(calls: int) -> None:
        submit(calls)
        ctx.wait(data[1])

    return loop


def wait_small(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    def loop(calls: int) -> None:
        for _ in range(calls):
            ctx.wait(data[0])

    return loop


def get_small(ctx: stf.context, data: list[stf.logical_data]) -> Loop:
    def loop(calls: int) -> None:
        for _ in range(calls):
            data[0].get().result()

    return loop


def open_and_finalize(ctx: stf.context, _: list[stf.logical_data]) -> Loop:
    machine = ctx.machine

    def loop(calls: int) -> None:
        for _ in range(calls):
            stf.context(machine=machine).finalize()

    return loop


class Row(NamedTuple):
    """One line of the report."""

    name: str
    machine: str
    make: Callable[..., Loop]
    clock: Callable[[], float] = time.thread_time
    calls: float = 1.0
    """Share of the calls asked for."""


ROWS = [
    Row("task, 2 deps", "null", task_two),
    Row("task, 3 deps", "null", task_three),
    Row("task, token", "null", task_token),
    Row("task, 2 deps + pointers", "null", task_pointers),
    Row("task, 2 deps + views", "null", task_views),
    Row("logical_data_empty", "null", make_empty),
    Row("submit", "null", submit_only),
    Row("context, open and finalize", "null", open_and_finalize),
    Row("host task, 2 deps + arrays", "host", task_arrays),
    Row("host_launch, submit only", "host", host_launch_only, calls=0.1),
    Row("submit and run", "host", submit_and_drain, time.perf_counter, 0.1),
    Row("wait, small datum", "host", wait_small, time.perf_counter, 0.01),
    Row("get, small datum", "host", get_small, time.perf_counter, 0.01),
]


def measure(row: Row, runs: int, calls: int) -> list[float]:
    """Microseconds a call, one number a run."""
    machine, make, clock = row.machine, row.make, row.clock
    with opened(machine) as (ctx, data):
        loop = make(ctx, data)
        loop(calls // 10)
        found = []
        for _ in range(runs):
            begin = clock()
            loop(calls)
            found.append((clock() - begin) / calls * 1e6)
            stf.synchronize(ctx.fence())
    return found


def import_ms(runs: int) -> list[float]:
    """Milliseconds that the import takes, one number a run."""
    program = (
        "import time; t = time.perf_counter(); import millstream; millstream.context;"
        "print((time.perf_counter() - t) * 1e3)"
    )
    command = [sys.executable, "-c", program]
    return [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(runs)
    ]


def report(name: str, found: list[float], unit: str) -> None:
    budget = BUDGETS_US.get(name)
    print(
        f"{name:28} {statistics.median(found):8.3f} {unit}   "
        f"least {min(found):8.3f}  most {max(found):8.3f}"
        + (f"   budget {budget}" if budget else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=15, help="repetitions of each row")
    parser.add_argument("--calls", type=int, default=20_000, help="calls in a repetition")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    options = parser.parse_args()
    for row in ROWS:
        if options.only in row.name:
            calls = max(1, int(options.calls * row.calls))
            report(row.name, measure(row, options.runs, calls), "us")
    if options.only in "import":
        report("import", import_ms(options.runs), "ms")


if __name__ == "__main__":
    main()
