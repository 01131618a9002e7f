# SPDX-License-Identifier: Apache-2.0
"""Heat spreads over a plate whose rows are dealt out to devices; writes a picture.

Each strip of rows is data of its own, and so are its first and last row: a step of a strip reads
the edges of its neighbours, so that only rows travel between devices. The result is compared, bit
by bit, with the same steps on one array.

    python examples/python/heat.py [--side 96] [--steps 200] [--strips 4] [--out out/heat]
"""

import argparse
from pathlib import Path

import millstream as stf
import numpy as np

RATE = 0.2  # of the difference to the neighbours, in one step; stable up to 0.25


def plate(side):
    """Cold, with two hot spots, and a border that stays as it is."""
    values = np.zeros((side, side))
    values[side // 8 : side // 4, side // 8 : side // 2] = 1
    values[-side // 3 : -side // 4, -side // 2 : -side // 8] = 0.7
    values[0] = 0.5
    return values


def advance(above, rows, below):
    """New values of `rows`, between the row above and the row below."""
    stack = np.vstack([above, rows, below])
    inner = stack[1:-1, 1:-1]
    around = stack[:-2, 1:-1] + stack[2:, 1:-1] + stack[1:-1, :-2] + stack[1:-1, 2:]
    made = rows.copy()
    made[:, 1:-1] = inner + RATE * (around - 4 * inner)
    return made


def copy_edges(rows, first, last):
    first[:] = rows[:1]
    last[:] = rows[-1:]


def step(above, rows, below, new_rows):
    new_rows[:] = advance(above, rows, below)


def run_by_tasks(values, steps, strips):
    machine = stf.machine("host", devices=2)
    places = [stf.exec_place.device(number % machine.device_count) for number in range(strips)]
    parts = [each.copy() for each in np.array_split(values[1:-1], strips)]
    width = values.shape[1]
    with stf.context(machine=machine) as ctx:
        border = [ctx.logical_data(values[[row]]) for row in (0, -1)]
        now = [ctx.logical_data(each) for each in parts]
        new = [each.empty_like() for each in now]
        first, last = ([ctx.logical_data_empty((1, width)) for _ in parts] for _ in range(2))
        for _ in range(steps):
            for here, place in enumerate(places):
                ctx.submit(copy_edges, now[here].read(), first[here].write(), last[here].write(),
                           place=place, symbol="edges")  # fmt: skip
            for here, place in enumerate(places):
                above = last[here - 1] if here > 0 else border[0]
                below = first[here + 1] if here + 1 < strips else border[1]
                ctx.submit(step, above.read(), now[here].read(), below.read(), new[here].write(),
                           place=place, symbol="step")  # fmt: skip
            now, new = new, now
        rows = [ctx.wait(each) for each in now]
    return np.vstack([values[:1], *rows, values[-1:]])


def run_at_once(values, steps):
    values = values.copy()
    for _ in range(steps):
        values[1:-1] = advance(values[:1], values[1:-1], values[-1:])
    return values


def save_picture(values, path):
    try:
        from PIL import Image
    except ImportError:
        return "no picture, because Pillow is not installed"
    hot = np.clip(np.stack([3 * values, 3 * values - 1, 3 * values - 2], axis=-1), 0, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((255 * hot).astype(np.uint8)).save(path)
    return f"picture in {path}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--strips", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("out/heat"))
    chosen = parser.parse_args()

    start = plate(chosen.side)
    found = run_by_tasks(start, chosen.steps, chosen.strips)
    expected = run_at_once(start, chosen.steps)
    assert np.array_equal(found, expected)
    assert found.min() >= 0
    assert found.max() <= start.max()
    picture = save_picture(found, chosen.out / "heat.png")
    print(f"{chosen.steps} steps of {chosen.strips} strips as on one array; {picture}")


if __name__ == "__main__":
    main()
