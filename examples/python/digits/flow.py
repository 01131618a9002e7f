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
        self.layout = layout
        self.place_of = [place_of(d) for d in range(layout.rows * layout.columns)]
        self.tile = tile
        self.gamma = gamma
        self.ridge = ridge
        self.done = done
        self.kernels = kernels
        self.tasks = 0
        self._counted = {}

    def run(self, digits):
        """Returns (weights, scores) as arrays; waits for them."""
        self.sizes = self.heights(digits.train)
        self.test_sizes = self.heights(digits.test)
        images = self.register(digits.train, "X")
        matrix = self.kernel_matrix(images)
        # The targets are overwritten by the weights; the caller's array stays as it is.
        weights = self.register(digits.targets.copy(), "Y")
        self.factorise(matrix)
        self.solve(matrix, weights)
        scores = self.predict(self.register(digits.test, "T"), images, weights)
        del matrix  # frees each tile once the last task that uses it has ended
        return self.gather(weights), self.gather(scores)

    # --- the stages ----------------------------------------------------------------------------

    def kernel_matrix(self, images):
        """Lower tiles of K(X, X) + ridge I; the rest is never stored."""
        k = self.kernels
        matrix = {}
        for i, x in enumerate(images):
            for j, z in enumerate(images[: i + 1]):
                shape = (self.sizes[i], self.sizes[j])
                tile = matrix[i, j] = self.context.logical_data_empty(
                    shape, FLOAT, name=f"K{i}_{j}"
                )
                if i == j:
                    args = (self.gamma, self.ridge)
                    self.submit(k.rbf_diagonal, x.read(), tile.write(), args=args, at=(i, i))
                else:
                    args = (self.gamma,)
                    self.submit(k.rbf, x.read(), z.read(), tile.write(), args=args, at=(i, j))
        return matrix

    def factorise(self, matrix):
        """Right-looking: factorise a panel, then update everything to the right of it."""
        k, count = self.kernels, len(self.sizes)
        for p in range(count):
            pivot = matrix[p, p]
            self.submit(k.potrf, pivot.rw(), at=(p, p))
            for i in range(p + 1, count):
                self.submit(k.trsm, pivot.read(), matrix[i, p].rw(), at=(i, p))
            for j in range(p + 1, count):
                below = matrix[j, p]
                self.submit(k.syrk, below.read(), matrix[j, j].rw(), at=(j, j))
                for i in range(j + 1, count):
                    target = matrix[i, j]
                    self.submit(k.gemm, matrix[i, p].read(), below.read(), target.rw(), at=(i, j))

    def solve(self, matrix, weights):
        """L y = targets from top to bottom, then L^T weights = y from bottom to top."""
        k, count = self.kernels, len(self.sizes)
        for p in range(count):
            solved = weights[p]
            self.submit(k.solve_forward, matrix[p, p].read(), solved.rw(), at=(p, p))
            for i in range(p + 1, count):
                below = matrix[i, p].read()
                self.submit(k.update_forward, below, solved.read(), weights[i].rw(), at=(i, p))
        for p in reversed(range(count)):
            solved = weights[p]
            self.submit(k.solve_backward, matrix[p, p].read(), solved.rw(), at=(p, p))
            for i in range(p):
                left = matrix[p, i].read()
                self.submit(k.update_backward, left, solved.read(), weights[i].rw(), at=(p, i))

    def predict(self, tests, images, weights):
        """Scores of the held-out images for each class, summed over the training tiles."""
        k, args = self.kernels, (self.gamma,)
        scores = []
        for t, test in enumerate(tests):
            rows = self.test_sizes[t]
            score = self.context.logical_data_empty((rows, CLASSES), FLOAT, name=f"P{t}")
            for i, (z, w) in enumerate(zip(images, weights, strict=True)):
                function = k.predict_more if i else k.predict_first
                access = score.rw() if i else score.write()
                self.submit(function, test.read(), z.read(), w.read(), access, args=args, at=(t, 0))
            scores.append(score)
        return scores

    # --- helpers -------------------------------------------------------------------------------

    def register(self, rows, name):
        """One datum per tile of rows; a slice of whole rows is contiguous and is not copied."""
        return [
            self.context.logical_data(rows[part], name=f"{name}{i}")
            for i, part in enumerate(cut(len(rows), self.tile))
        ]

    def heights(self, rows):
        return [part.stop - part.start for part in cut(len(rows), self.tile)]

    def submit(self, function, *accesses, at, args=()):
        self.tasks += 1
        self.context.submit(
            self.counted(function),
            *accesses,
            args=args,
            place=self.place_of[self.layout.owner(*at)],
            symbol=function.__name__,
        )

    def counted(self, function):
        """`function` followed by `done()`, one wrapper per function."""
        if self.done is None:
            return function
        if function not in self._counted:
            self._counted[function] = _followed_by(function, self.done)
        return self._counted[function]

    def gather(self, data):
        return np.concatenate([self.context.wait(datum) for datum in data])


def count_tasks(train_rows, test_rows, tile):
    """How many tasks `RidgeFlow` submits, known beforehand for the progress bar."""
    n, m = len(cut(train_rows, tile)), len(cut(test_rows, tile))
    pairs = n * (n - 1) // 2
    kernel, factor = n + pairs, n + 2 * pairs + pairs * (n - 2) // 3
    return kernel + factor + 2 * (n + pairs) + n * m


def _followed_by(function, done):
    def run(*arguments):
        function(*arguments)
        done()

    return run
