# SPDX-License-Identifier: Apache-2.0
"""The main job as a task flow: kernel ridge regression by tiled Cholesky factorisation.

Everything here is written in plain program order. What may overlap, which tile has to move where,
and when, follows from `read`, `write` and `rw`.

    training images X    targets Y        held-out images T
          |                  |                   |
       kernel tiles          |                   |
          |                  |                   |
       Cholesky  -------> two solves ------> predictions
    potrf trsm syrk gemm   L, then L^T         K(T, X) weights
"""

import functools
import inspect
from types import SimpleNamespace

import numpy as np
from data import CLASSES
from tiles import cut

FLOAT = np.dtype(np.float64)


class RidgeFlow:
    """Submits the job to `context`, tile by tile, each task to the device that owns its output.

    `kernels` is the module with the tile functions, `place_of(device)` makes an execution place,
    `done()` is called at the end of each task.
    """

    def __init__(self, context, kernels, layout, place_of, tile, gamma, ridge, done=None):
        self.context = context
        self.kernels = followed_by(done, kernels) if done else kernels
        self.layout = layout
        self.places = [place_of(d) for d in range(layout.rows * layout.columns)]
        self.tile = tile
        self.gamma = gamma
        self.ridge = ridge

    def run(self, digits):
        """Returns (weights, scores) as arrays; waits for them."""
        images = self.register(digits.train, "X")
        tests = self.register(digits.test, "T")
        # The targets are overwritten by the weights; the caller's array stays as it is.
        weights = self.register(digits.targets.copy(), "Y")
        self.sizes = self.heights(digits.train)
        self.test_sizes = self.heights(digits.test)

        matrix = self.kernel_matrix(images)
        self.factorise(matrix)
        self.solve(matrix, weights)
        scores = self.predict(tests, images, weights)
        del matrix  # frees each tile once the last task that uses it has ended
        return self.gather(weights), self.gather(scores)

    # --- the stages ------------------------------------------------------------------------------

    def kernel_matrix(self, images):
        """Lower tiles of K(X, X) + ridge I; the rest is never stored."""
        submit, k, at = self.context.submit, self.kernels, self.at
        plain, ridged = (self.gamma,), (self.gamma, self.ridge)
        matrix = {}
        for i, x in enumerate(images):
            for j, z in enumerate(images[:i]):
                tile = matrix[i, j] = self.empty(self.sizes[i], self.sizes[j], f"K{i}_{j}")
                submit(
                    k.rbf,
                    x.read(),
                    z.read(),
                    tile.write(),
                    args=plain,
                    place=at(i, j),
                    symbol="rbf",
                )
            tile = matrix[i, i] = self.empty(self.sizes[i], self.sizes[i], f"K{i}_{i}")
            submit(
                k.rbf_diagonal,
                x.read(),
                tile.write(),
                args=ridged,
                place=at(i, i),
                symbol="rbf_diagonal",
            )
        return matrix

    def factorise(self, matrix):
        """Right-looking: factorise a panel, then update everything to the right of it."""
        submit, k, at, count = self.context.submit, self.kernels, self.at, len(self.sizes)
        for p in range(count):
            pivot = matrix[p, p]
            submit(k.potrf, pivot.rw(), place=at(p, p), symbol="potrf")
            for i in range(p + 1, count):
                submit(k.trsm, pivot.read(), matrix[i, p].rw(), place=at(i, p), symbol="trsm")
            for j in range(p + 1, count):
                top = matrix[j, p]
                submit(k.syrk, top.read(), matrix[j, j].rw(), place=at(j, j), symbol="syrk")
                for i in range(j + 1, count):
                    left, tile = matrix[i, p], matrix[i, j]
                    submit(
                        k.gemm, left.read(), top.read(), tile.rw(), place=at(i, j), symbol="gemm"
                    )

    def solve(self, matrix, weights):
        """L y = targets from top to bottom, then L^T weights = y from bottom to top."""
        self.solve_forward(matrix, weights)
        self.solve_backward(matrix, weights)

    def solve_forward(self, matrix, rows):
        submit, k, at = self.context.submit, self.kernels, self.at
        for p, solved in enumerate(rows):
            pivot = matrix[p, p]
            submit(
                k.solve_forward, pivot.read(), solved.rw(), place=at(p, p), symbol="solve_forward"
            )
            for i in range(p + 1, len(rows)):
                tile, row = matrix[i, p], rows[i]
                submit(
                    k.update_forward, tile.read(), solved.read(), row.rw(), place=at(i, p),
                    symbol="update_forward",
                )  # fmt: skip

    def solve_backward(self, matrix, rows):
        submit, k, at = self.context.submit, self.kernels, self.at
        for p in reversed(range(len(rows))):
            pivot, solved = matrix[p, p], rows[p]
            submit(
                k.solve_backward, pivot.read(), solved.rw(), place=at(p, p), symbol="solve_backward"
            )
            for i in range(p):
                tile, row = matrix[p, i], rows[i]
                submit(
                    k.update_backward, tile.read(), solved.read(), row.rw(), place=at(p, i),
                    symbol="update_backward",
                )  # fmt: skip

    def predict(self, tests, images, weights):
        """Scores of the held-out images for each class, summed over the training tiles."""
        submit, k, at, args = self.context.submit, self.kernels, self.at, (self.gamma,)
        scores = []
        for t, x in enumerate(tests):
            score = self.empty(self.test_sizes[t], CLASSES, f"P{t}")
            for i, (z, w) in enumerate(zip(images, weights, strict=True)):
                function = k.predict_more if i else k.predict_first
                access = score.rw() if i else score.write()
                submit(
                    function, x.read(), z.read(), w.read(), access, args=args, place=at(t, 0),
                    symbol="predict",
                )  # fmt: skip
            scores.append(score)
        return scores

    # --- helpers ---------------------------------------------------------------------------------

    def at(self, row, column):
        return self.places[self.layout.owner(row, column)]

    def empty(self, rows, columns, name):
        return self.context.logical_data_empty((rows, columns), FLOAT, name=name)

    def register(self, rows, name):
        """One datum per tile of rows; a slice of whole rows is contiguous and is not copied."""
        return [
            self.context.logical_data(rows[part], name=f"{name}{i}")
            for i, part in enumerate(cut(len(rows), self.tile))
        ]

    def heights(self, rows):
        return [part.stop - part.start for part in cut(len(rows), self.tile)]

    def gather(self, data):
        return np.concatenate([self.context.wait(datum) for datum in data])


def count_tasks(train_rows, test_rows, tile):
    """How many tasks `RidgeFlow` submits, known beforehand for the progress bar."""
    n, m = len(cut(train_rows, tile)), len(cut(test_rows, tile))
    pairs = n * (n - 1) // 2
    kernel, factor = n + pairs, n + 2 * pairs + pairs * (n - 2) // 3
    return kernel + factor + 2 * (n + pairs) + n * m


def followed_by(done, kernels):
    """The functions of a module, each followed by a call to `done`."""

    def wrap(function):
        @functools.wraps(function)
        def run(*arguments):
            function(*arguments)
            done()

        return run

    return SimpleNamespace(
        **{n: wrap(f) for n, f in inspect.getmembers(kernels, inspect.isfunction)}
    )
