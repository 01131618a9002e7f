# SPDX-License-Identifier: Apache-2.0
"""The flow without Millstream: in program order, and in any order its accesses allow."""

import importlib

import kernels_cpu
import numpy as np
import pytest
import reference
from flow import RidgeFlow, count_tasks
from sequential import SequentialContext
from tiles import BlockCyclic

GAMMA, RIDGE = 0.2, 0.02


def flow_in(context, devices=2, tile=32, done=None, kernels=kernels_cpu):
    layout = BlockCyclic(devices)
    return RidgeFlow(context, kernels, layout, int, tile, GAMMA, RIDGE, done)


def test_weights_are_those_of_scipy(digits):
    weights, _ = flow_in(SequentialContext(kernels_cpu)).run(digits)
    np.testing.assert_allclose(weights, reference.solve(digits, GAMMA, RIDGE), rtol=0, atol=1e-10)


def test_torch_gives_the_weights_and_scores_of_scipy(digits):
    pytest.importorskip("torch")
    kernels = importlib.import_module("kernels_torch")
    found = flow_in(SequentialContext(kernels), kernels=kernels).run(digits)
    expected = flow_in(SequentialContext(kernels_cpu)).run(digits)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)


def test_scores_are_kernel_times_weights(digits):
    weights, scores = flow_in(SequentialContext(kernels_cpu)).run(digits)
    block = np.empty((len(digits.test), len(digits.train)))
    kernels_cpu.rbf(digits.test, digits.train, block, GAMMA)
    np.testing.assert_allclose(scores, block @ weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("tile", [7, 50, 150, 4096])
def test_any_tile_size_gives_the_same_weights(digits, tile):
    weights, _ = flow_in(SequentialContext(kernels_cpu), tile=tile).run(digits)
    np.testing.assert_allclose(weights, reference.solve(digits, GAMMA, RIDGE), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_every_order_that_the_accesses_allow_gives_the_same_result(digits, shuffled, seed):
    weights, scores = flow_in(SequentialContext(kernels_cpu)).run(digits)
    other_weights, other_scores = flow_in(shuffled(seed)).run(digits)
    np.testing.assert_allclose(other_weights, weights, rtol=0, atol=1e-10)
    np.testing.assert_allclose(other_scores, scores, rtol=0, atol=1e-10)


@pytest.mark.parametrize("tile", [16, 32, 150])
def test_number_of_tasks_is_known_beforehand(digits, tile):
    marks = []
    flow = flow_in(SequentialContext(kernels_cpu), tile=tile, done=lambda: marks.append(None))
    flow.run(digits)
    assert len(marks) == count_tasks(len(digits.train), len(digits.test), tile)


def test_targets_of_the_caller_stay_as_they_are(digits):
    before = digits.targets.copy()
    flow_in(SequentialContext(kernels_cpu)).run(digits)
    np.testing.assert_array_equal(digits.targets, before)


def test_work_is_spread_over_all_devices(digits, shuffled):
    context = shuffled(0)
    flow_in(context, devices=3, tile=24).run(digits)
    shares = [context.places.count(d) / len(context.places) for d in range(3)]
    assert min(shares) > 0.2


def test_residual_of_the_weights_is_tiny(digits):
    weights, _ = flow_in(SequentialContext(kernels_cpu)).run(digits)
    assert reference.residual(digits, weights, GAMMA, RIDGE) < 1e-12
    assert reference.residual(digits, weights + 1.0, GAMMA, RIDGE) > 1.0
