# SPDX-License-Identifier: Apache-2.0
"""Four tasks on three arrays: X = 2X, Y += 2X, Z += 2X, Z += 2Y, on two simulated devices.

The program says what each task reads and writes; the order and the copies follow from that: the
second and the third task only read X and may run at the same time.

    python examples/python/axpy_chain.py
"""

import millstream as stf
import numpy as np

COUNT = 1_000_000


def scale(x, factor):
    x *= factor


def axpy(x, y, factor):
    y += factor * x


def main():
    x, y, z = (np.ones(COUNT) for _ in range(3))
    machine = stf.machine("host", devices=2)
    first, second = (stf.exec_place.device(number) for number in range(2))

    with stf.context(machine=machine) as ctx:
        lx, ly, lz = map(ctx.logical_data, (x, y, z))
        ctx.submit(scale, lx.rw(), args=(2.0,), place=first)
        ctx.submit(axpy, lx.read(), ly.rw(), args=(2.0,), place=first)
        ctx.submit(axpy, lx.read(), lz.rw(), args=(2.0,), place=second)
        ctx.submit(axpy, ly.read(), lz.rw(), args=(2.0,), place=second)
        copies = ctx.stats()["copies"]

    # Written back when the context ended.
    assert (set(x), set(y), set(z)) == ({2.0}, {5.0}, {15.0})
    print(f"X = {x[0]:g}, Y = {y[0]:g}, Z = {z[0]:g}; {copies} copies before the results came home")


if __name__ == "__main__":
    main()
