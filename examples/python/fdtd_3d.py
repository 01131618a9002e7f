# SPDX-License-Identifier: Apache-2.0
"""Maxwell's equations in a metal box: the six components of the fields are updated by tasks.

The components sit on the edges (electric) and faces (magnetic) of cells, as Yee arranged them. What
the three updates of one field have to wait for follows from what they read. At the end the fields
are finite, their discrete divergence is still zero, and they are those of the same steps in NumPy.

    python examples/python/fdtd_3d.py [--cells 16] [--steps 40]
"""

import argparse

import millstream as stf
import numpy as np

STEP = 0.5  # of a cell, in time; stable up to 1 / sqrt(3)
AXES = "xyz"


def shape_of(field, axis, cells):
    """Electric components lie between the points of their own axis, magnetic ones on them."""
    on_points = [(axis == each) == (field == "H") for each in range(3)]
    return tuple(cells + 1 if points else cells for points in on_points)


def update_magnetic(target, first, second, axis):
    """H_a -= step * (d_b E_c - d_c E_b), for the axes a, b, c in turn."""
    b, c = (axis + 1) % 3, (axis + 2) % 3
    target -= STEP * (np.diff(second, axis=b) - np.diff(first, axis=c))


def update_electric(target, first, second, axis):
    """E_a += step * (d_b H_c - d_c H_b); along the walls of metal it stays 0."""
    b, c = (axis + 1) % 3, (axis + 2) % 3
    inside = [slice(None)] * 3
    inside[b] = inside[c] = slice(1, -1)
    only_b, only_c = [slice(None)] * 3, [slice(None)] * 3
    only_b[b], only_c[c] = slice(1, -1), slice(1, -1)
    curl = np.diff(second, axis=b)[tuple(only_c)] - np.diff(first, axis=c)[tuple(only_b)]
    target[tuple(inside)] += STEP * curl


def start(cells):
    """A smooth field that is a curl, so that it has no divergence."""
    names = [field + axis for field in "EH" for axis in AXES]
    fields = {name: np.zeros(shape_of(name[0], AXES.index(name[1]), cells)) for name in names}
    waves = []
    for axis in range(3):
        grid = np.indices(shape_of("H", axis, cells)) / cells - 0.4
        waves.append((axis + 1) * np.exp(-30 * (grid**2).sum(axis=0)))
    for axis in range(3):
        b, c = waves[(axis + 1) % 3], waves[(axis + 2) % 3]
        update_electric(fields["E" + AXES[axis]], b, c, axis)
    return fields


def updates():
    """Function, target, what it reads and axis, in the order of one time step."""
    for field, other, function in (("H", "E", update_magnetic), ("E", "H", update_electric)):
        for axis in range(3):
            b, c = AXES[(axis + 1) % 3], AXES[(axis + 2) % 3]
            yield function, field + AXES[axis], other + b, other + c, axis


def run_by_tasks(fields, steps):
    machine = stf.machine("host", devices=2)
    with stf.context(machine=machine) as ctx:
        data = {name: ctx.logical_data(each, name=name) for name, each in fields.items()}
        for _ in range(steps):
            for function, target, first, second, axis in updates():
                place = stf.exec_place.device(axis % machine.device_count)
                ctx.submit(
                    function, data[target].rw(), data[first].read(), data[second].read(),
                    args=(axis,), place=place, symbol=target,
                )  # fmt: skip


def run_in_numpy(fields, steps):
    for _ in range(steps):
        for function, target, first, second, axis in updates():
            function(fields[target], fields[first], fields[second], axis)


def most_divergence(fields):
    cells = sum(np.diff(fields["H" + AXES[axis]], axis=axis) for axis in range(3))
    points = 0
    for axis in range(3):
        inside = [slice(1, -1)] * 3
        inside[axis] = slice(None)
        points = points + np.diff(fields["E" + AXES[axis]][tuple(inside)], axis=axis)
    return max(abs(cells).max(), abs(points).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40)
    chosen = parser.parse_args()

    fields, twin = start(chosen.cells), start(chosen.cells)
    assert most_divergence(fields) < 1e-12
    energy = sum((each**2).sum() for each in fields.values())
    run_by_tasks(fields, chosen.steps)
    run_in_numpy(twin, chosen.steps)

    assert all(np.isfinite(each).all() for each in fields.values())
    assert all(np.array_equal(fields[name], twin[name]) for name in fields)
    assert all(abs(each).max() > 0 for each in fields.values())
    divergence = most_divergence(fields)
    assert divergence < 1e-12
    # That of the scheme oscillates a little around the one it keeps.
    left = sum((each**2).sum() for each in fields.values()) / energy
    assert 0.8 < left < 1.2
    print(f"{chosen.steps} steps as in NumPy, largest divergence {divergence:.0e}")


if __name__ == "__main__":
    main()
