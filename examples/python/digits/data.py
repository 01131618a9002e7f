# SPDX-License-Identifier: Apache-2.0
"""The 1,797 handwritten digits that ship inside scikit-learn, split, augmented, encoded."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

IMAGES = 1797
CLASSES = 10
_HELD_OUT = 0.25  # part of the images that is never trained on

# (rows, columns) by which a copy is moved: to the 8 neighbours, then 2 pixels to the sides and
# corners, then the knight's moves that fit.
SHIFTS = [
    *[(0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)],
    *[(0, 2), (2, 0), (0, -2), (-2, 0), (2, 2), (-2, -2), (2, -2), (-2, 2)],
    *[(1, 2), (-1, -2), (2, 1), (-2, -1)],
]


class Digits(NamedTuple):
    """Rows are images of 64 pixels in 0..1; targets are +1 for the right class, -1 elsewhere."""

    train: np.ndarray
    train_labels: np.ndarray
    targets: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def load(samples, augment, seed):
    """`samples` images in random order, a quarter held out, the others with `augment` copies."""
    everything = load_digits()
    chosen = np.random.default_rng(seed).permutation(IMAGES)[:samples]
    images = everything.data[chosen] / 16.0
    labels = everything.target[chosen]
    held_out = round(samples * _HELD_OUT)
    train = augmented(images[held_out:], augment)
    train_labels = np.tile(labels[held_out:], augment + 1)
    return Digits(
        train, train_labels, one_vs_all(train_labels), images[:held_out], labels[:held_out]
    )


def augmented(images, copies):
    """The images, followed by `copies` shifted versions of all of them."""
    return np.concatenate([images, *(shifted(images, *SHIFTS[i]) for i in range(copies))])


def shifted(images, rows, columns):
    """Moves each 8x8 image; what moves in is empty, what moves out is lost."""
    moved = np.zeros((len(images), 8, 8))
    source = images.reshape(-1, 8, 8)
    moved[:, _to(rows), _to(columns)] = source[:, _to(-rows), _to(-columns)]
    return moved.reshape(-1, 64)


def _to(step):
    return slice(max(step, 0), 8 + min(step, 0))


def one_vs_all(labels):
    return np.where(labels[:, np.newaxis] == np.arange(CLASSES), 1.0, -1.0)
