# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from data import SHIFTS, augmented, load, one_vs_all, shifted
from tiles import BlockCyclic, cut


def test_a_quarter_of_the_images_is_held_out():
    digits = load(samples=1797, augment=0, seed=1)
    assert (digits.train.shape, digits.test.shape) == ((1348, 64), (449, 64))
    assert 0.0 <= digits.train.min() < digits.train.max() == 1.0


def test_split_depends_on_the_seed_only():
    one, again, other = (load(100, 0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.train, again.train)
    assert not np.array_equal(one.train, other.train)


def test_copies_are_made_of_training_images_only():
    plain, more = load(100, 0, 5), load(100, 3, 5)
    assert len(more.train) == 4 * len(plain.train)
    np.testing.assert_array_equal(more.train[: len(plain.train)], plain.train)
    np.testing.assert_array_equal(more.test, plain.test)
    np.testing.assert_array_equal(more.train_labels, np.tile(plain.train_labels, 4))


def test_shift_moves_pixels_and_leaves_emptiness():
    image = np.arange(64.0).reshape(1, 64)
    moved = shifted(image, 1, -2).reshape(8, 8)
    np.testing.assert_array_equal(moved[1:, :6], image.reshape(8, 8)[:7, 2:])
    assert moved[0].sum() == moved[:, 6:].sum() == 0


def test_all_twenty_shifts_differ_and_the_nearest_come_first():
    assert len(set(SHIFTS)) == len(SHIFTS) == 20
    assert set(SHIFTS[:8]) == {(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)} - {(0, 0)}
    assert len(augmented(np.ones((3, 64)), 20)) == 63


def test_targets_are_plus_one_for_the_right_class():
    np.testing.assert_array_equal(one_vs_all(np.array([2]))[0], [-1, -1, 1] + [-1] * 7)


def test_cut_covers_all_rows_and_the_last_part_may_be_short():
    assert cut(10, 4) == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert cut(8, 4) == [slice(0, 4), slice(4, 8)]
    assert cut(3, 4) == [slice(0, 3)]


@pytest.mark.parametrize(
    ("devices", "grid"),
    [(1, "1 x 1"), (2, "2 x 1"), (3, "3 x 1"), (4, "2 x 2"), (6, "3 x 2"), (8, "4 x 2")],
)
def test_device_grid_is_as_square_as_possible(devices, grid):
    assert str(BlockCyclic(devices)) == grid


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 6])
def test_every_device_owns_the_same_number_of_tiles_of_a_period(devices):
    layout = BlockCyclic(devices)
    owners = [layout.owner(i, j) for i in range(12) for j in range(12)]
    assert sorted(set(owners)) == list(range(devices))
    assert {owners.count(d) for d in range(devices)} == {144 // devices}
