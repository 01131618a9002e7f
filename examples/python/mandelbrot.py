# SPDX-License-Identifier: Apache-2.0
"""The Mandelbrot set, tile by tile on several devices; writes a picture.

Tiles take very different times, and nothing has to be said about that: each is a task that writes
its counts, and a host function behind it colours that part of the picture.

    python examples/python/mandelbrot.py [--side 160] [--tiles 4] [--limit 60] [--out FOLDER]
"""

import argparse
from itertools import pairwise
from pathlib import Path

import millstream as stf
import numpy as np

CENTRE, WIDTH = -0.6 + 0j, 3.0


def points(side, rows):
    """The complex numbers of some rows of the picture."""
    axis = (np.arange(side) + 0.5) / side - 0.5
    return CENTRE + WIDTH * (axis[None, :] + 1j * axis[rows, None])


def count_turns(counts, side, first, limit):
    """How many turns of z = z*z + c it takes each point to leave, `limit` for those that stay."""
    c = points(side, slice(first, first + len(counts)))
    z = np.zeros_like(c)
    counts[:] = limit
    for turn in range(limit):
        inside = counts == limit
        z[inside] = z[inside] ** 2 + c[inside]
        counts[inside & (z.real**2 + z.imag**2 > 4)] = turn


def colour(counts, picture, first, limit):
    share = np.where(counts == limit, 0, counts / limit)[..., None]
    tint = share ** np.array([0.6, 0.8, 0.4])
    picture[first : first + len(counts)] = (255 * tint).astype(np.uint8)


def run_by_tasks(side, tiles, limit):
    machine = stf.machine("host", devices=2)
    picture = np.zeros((side, side, 3), np.uint8)
    bounds = np.linspace(0, side, tiles + 1).astype(int)
    with stf.context(machine=machine) as ctx:
        made = []
        for number, (first, end) in enumerate(pairwise(bounds)):
            counts = ctx.logical_data_empty((end - first, side), np.int32, name=f"tile {number}")
            place = stf.exec_place.device(number % machine.device_count)
            ctx.submit(count_turns, counts.write(), args=(side, first, limit), place=place)
            ctx.host_launch(counts.read(), fn=colour, args=(picture, first, limit))
            made.append(counts)
        counts = np.vstack([ctx.wait(each) for each in made])
    return counts, picture


def check(counts, picture, side, limit):
    whole = np.empty((side, side), np.int32)
    count_turns(whole, side, 0, limit)
    assert np.array_equal(counts, whole)
    expected = np.zeros_like(picture)
    colour(whole, expected, 0, limit)
    assert np.array_equal(picture, expected)
    # Whatever is within a quarter of the origin stays; whatever is beyond 2 leaves at once.
    c = points(side, slice(0, side))
    assert (counts[abs(c) < 0.25] == limit).all()
    assert (counts[abs(c) > 2] == 0).all()


def save_picture(picture, path):
    try:
        from PIL import Image
    except ImportError:
        return "no picture, because Pillow is not installed"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)
    return f"picture in {path}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--tiles", type=int, default=4)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("out/mandelbrot"))
    chosen = parser.parse_args()

    counts, picture = run_by_tasks(chosen.side, chosen.tiles, chosen.limit)
    check(counts, picture, chosen.side, chosen.limit)
    inside = (counts == chosen.limit).mean()
    saved = save_picture(picture, chosen.out / "mandelbrot.png")
    print(f"{chosen.tiles} tiles, {inside:.1%} of the points stay; {saved}")


if __name__ == "__main__":
    main()
