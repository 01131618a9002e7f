# SPDX-License-Identifier: Apache-2.0
"""context(check=True)."""

import copy
import pickle

import millstream as stf
import numpy as np
import pytest


@pytest.fixture
def ctx(host):
    with stf.context(machine=host, check=True) as context:
        yield context


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(6.0).reshape(2, 3), name="x")


def stale(ctx, data):
    with ctx.task(data.rw(), symbol="owner") as (array,):
        derived = array[1:].T
    return array, derived


USES = {
    "index": lambda a: a[0],
    "assign": lambda a: a.__setitem__(0, 1),
    "add": lambda a: a + 1,
    "in place": lambda a: a.__iadd__(1),
    "out": lambda a: np.add(1, 2, out=a),
    "sum": lambda a: a.sum(),
    "function": lambda a: np.concatenate([a, a]),
    "dot": lambda a: np.dot(a, a.T),
    "matmul": lambda a: a @ np.zeros(a.shape).T,
    "print": repr,
    "copy": lambda a: a.copy(),
    "iterate": list,
    "transpose": lambda a: a.T,
    "real part": lambda a: a.real,
    "flat": lambda a: a.flat[0],
    "assign flat": lambda a: setattr(a, "flat", 1),
    "memory": lambda a: a.data,
    "address": lambda a: a.ctypes,
    "array interface": lambda a: a.__array_interface__,
    "array method": lambda a: a.__array__(),
    "pickle": pickle.dumps,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "format": lambda a: f"{a}",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_array_used_after_its_task_raises(ctx, x, use):
    for array in stale(ctx, x):
        with pytest.raises(
            stf.UsageError, match=r"after its task 'owner' \(.*test_checker\.py:\d+\) had ended; "
        ):
            use(array)


def test_array_works_inside_its_task(ctx, x):
    with ctx.task(x.rw()) as (a,):
        a += 1
        a[0] *= 2
        np.multiply(a, 2, out=a)
        assert isinstance(a, np.ndarray)
        assert type(a + 1) is np.ndarray
        assert np.linalg.norm(a) > 0
        kept = a.copy()
    assert kept.sum() == ctx.wait(x).sum() == 54


def test_copies_are_plain_and_stay_valid(ctx, x):
    with ctx.task(x.read()) as (a,):
        copies = [
            np.array(a),
            a.copy(),
            copy.copy(a),
            copy.deepcopy(a),
            pickle.loads(pickle.dumps(a)),
        ]
        total = a.sum()
    assert [each.sum() for each in copies] == [total] * 5 == [15] * 5


def test_shape_and_dtype_stay_readable(ctx, x):
    for array in stale(ctx, x):
        assert (array.dtype, array.ndim) == (np.float64, 2)


def test_function_that_was_submitted_without_a_name_is_told_by_its_line(ctx, x):
    kept = []

    def run():
        ctx.submit(kept.append, x.read())
        ctx.finalize()

    with pytest.warns(stf.ContractWarning, match=r"the body of task of line \d+ keeps its array"):
        run()
    with pytest.raises(stf.UsageError, match=r"after its task of line \d+ \(.*\) had ended"):
        kept[0][0]


def test_function_that_keeps_its_array_gets_a_warning(ctx, x):
    kept = []

    def run():
        ctx.submit(kept.append, x.read(), symbol="keeper")
        ctx.finalize()

    with pytest.warns(stf.ContractWarning, match=r"'keeper' keeps its array of 'x'") as seen:
        run()
    assert seen[0].filename == __file__
    with pytest.raises(stf.UsageError, match="keeper"):
        kept[0] + 1


def test_warning_turned_into_an_error_fails_the_task(host):
    ctx, kept = stf.context(machine=host, check=True), []
    ctx.submit(kept.append, ctx.logical_data(np.zeros(2), name="x").read())
    with pytest.raises(stf.ContractWarning, match="'x'"):
        ctx.finalize()


def test_function_that_keeps_nothing_gets_none(ctx, x):
    ctx.submit(lambda a: a.sum(), x.read())
    ctx.host_launch(x.rw(), fn=lambda a: np.add(a, 1, out=a))
    assert ctx.wait(x).sum() == 21


def test_changed_input_is_reported(host):
    source = np.zeros(64)
    ctx = stf.context(machine=host, check=True)
    data = ctx.logical_data(source, name="input")

    def cheat(array):
        np.asarray(array).ctypes.data_as(np.ctypeslib.ctypes.POINTER(np.ctypeslib.ctypes.c_double))[
            3
        ] = 1.0

    ctx.submit(cheat, data.read(), symbol="cheater")
    with pytest.raises(stf.Error, match=r"(?s)'cheater'.*'input'"):
        ctx.finalize()


def test_output_left_unwritten_is_easy_to_see(ctx):
    data = ctx.logical_data_empty((8,), np.uint8)
    ctx.submit(lambda array: array[:4].fill(1), data.write())
    assert ctx.wait(data).tolist() == [1] * 4 + [0xCB] * 4
