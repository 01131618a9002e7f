# SPDX-License-Identifier: Apache-2.0
"""Tiled Cholesky factorisations of A + kI for k = 0, 1, 2, ..., recorded anew for each k.

A recorded context turns the tasks of a step into one graph. For the first step that graph is made
ready to be launched, which takes long; those of later steps have the same shape and only bring new
parameters. On a machine without GPUs tiles are NumPy arrays, on GPUs they are PyTorch tensors.

    python examples/python/recorded_cholesky.py
"""

from types import SimpleNamespace

import millstream as stf
import numpy as np

TILE, TILES, STEPS = 32, 4, 6
LOWER = [(i, j) for i in range(TILES) for j in range(i + 1)]
MACHINE = stf.machine()


# --- what is done with tiles


class numpy_tiles:
    @staticmethod
    def assemble(source, tile, shift):
        tile[:] = source + shift * np.eye(TILE)

    @staticmethod
    def potrf(tile):
        tile[:] = np.linalg.cholesky(tile)

    @staticmethod
    def trsm(pivot, tile):
        tile[:] = np.linalg.solve(pivot, tile.T).T

    @staticmethod
    def syrk(left, tile):
        tile -= left @ left.T

    @staticmethod
    def gemm(left, top, tile):
        tile -= left @ top.T


def torch_tiles():
    """The same on tensors. What they queue is captured, so they wait for nothing."""
    import torch
    from millstream.interop.pytorch import tensor_arguments

    def on_tensors(function):
        def body(*arguments):
            tensors = tensor_arguments(stf.current_task())
            tensors = tensors if isinstance(tensors, tuple) else (tensors,)
            function(*tensors, *arguments[len(tensors) :])

        return body

    def assemble(source, tile, shift):
        tile.copy_(source)
        tile.diagonal().add_(shift)

    def potrf(tile):
        tile.copy_(torch.linalg.cholesky_ex(tile).L)

    def trsm(pivot, tile):
        tile.copy_(torch.linalg.solve_triangular(pivot.mT, tile, upper=True, left=False))

    def syrk(left, tile):
        tile.addmm_(left, left.mT, alpha=-1)

    def gemm(left, top, tile):
        tile.addmm_(left, top.mT, alpha=-1)

    # Libraries set themselves up at their first call, and not all of that can be captured.
    device = "cuda" if MACHINE.name == "cuda" else "cpu"
    pivot = torch.eye(TILE, dtype=torch.float64, device=device)
    torch.linalg.cholesky_ex(pivot)
    torch.linalg.solve_triangular(pivot.mT, pivot, upper=True, left=False)
    pivot.addmm_(pivot, pivot.mT)
    if device == "cuda":
        torch.cuda.synchronize()
    functions = (assemble, potrf, trsm, syrk, gemm)
    return SimpleNamespace(**{each.__name__: on_tensors(each) for each in functions})


# --- the tasks of a step


def place_of(i, j):
    return stf.exec_place.device((i + j) % MACHINE.device_count)


def submit_step(ctx, do, source, tiles, shift):
    """Everything in plain order; the order that is needed follows from the accesses."""
    for i, j in LOWER:
        ctx.submit(do.assemble, source[i, j].read(), tiles[i, j].write(),
                   args=(shift if i == j else 0.0,), place=place_of(i, j))  # fmt: skip
    for p in range(TILES):
        ctx.submit(do.potrf, tiles[p, p].rw(), place=place_of(p, p))
        for i in range(p + 1, TILES):
            ctx.submit(do.trsm, tiles[p, p].read(), tiles[i, p].rw(), place=place_of(i, p))
        for j in range(p + 1, TILES):
            ctx.submit(do.syrk, tiles[j, p].read(), tiles[j, j].rw(), place=place_of(j, j))
            for i in range(j + 1, TILES):
                ctx.submit(do.gemm, tiles[i, p].read(), tiles[j, p].read(), tiles[i, j].rw(),
                           place=place_of(i, j))  # fmt: skip


def part(i, j):
    return slice(i * TILE, (i + 1) * TILE), slice(j * TILE, (j + 1) * TILE)


def gather(ctx, tiles):
    """Waits for the tiles; the first wait launches what was recorded."""
    factor = np.zeros((TILES * TILE, TILES * TILE))
    for i, j in LOWER:
        factor[part(i, j)] = ctx.wait(tiles[i, j])
    return np.tril(factor)


def run(do):
    size = TILES * TILE
    noise = np.random.default_rng(0).standard_normal((size, size))
    matrix = noise @ noise.T + np.eye(size)
    with stf.context(use_graph=True) as ctx:
        source = {at: ctx.logical_data(matrix[part(*at)].copy()) for at in LOWER}
        tiles = {at: ctx.logical_data_empty((TILE, TILE), np.float64) for at in LOWER}
        for at in LOWER:  # so that the first step is like the others
            ctx.submit(lambda *_: None, source[at].read(), place=place_of(*at))
        ctx.fence()
        before = ctx.stats()
        worst = 0.0
        for step in range(STEPS):
            submit_step(ctx, do, source, tiles, float(step))
            factor = gather(ctx, tiles)
            difference = factor @ factor.T - matrix - step * np.eye(size)
            worst = max(worst, float(np.abs(difference).max() / np.abs(matrix).max()))
        after = ctx.stats()
    made, updated = (after[name] - before[name] for name in ("instantiations", "updates"))
    assert worst < 1e-12, worst
    assert (made, updated) == (1, STEPS - 1), after
    return f"{STEPS} factorisations, {made} graph made ready and {updated} times updated"


def main():
    if MACHINE.name != "cuda":
        print(run(numpy_tiles))
        return
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("this PyTorch has no GPU")
    except ImportError as missing:
        print(f"left out: GPUs need PyTorch here ({missing})")
        return
    print(run(torch_tiles()))


if __name__ == "__main__":
    main()
