# SPDX-License-Identifier: Apache-2.0
"""What errors tell, and that a context outlives them."""

import copy
import pickle

import millstream as stf
import numpy as np
import pytest


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(4.0), name="x")


BAD_CALLS = {
    "wrong dtype": (
        lambda ctx, x: ctx.logical_data(np.array([{}])),
        TypeError,
        r"dtype object are Python objects.*; convert",
    ),
    "wrong layout": (
        lambda ctx, x: ctx.logical_data(np.zeros((4, 4)).T[1:]),
        ValueError,
        r"shape \(3, 4\) and strides .* is not C-contiguous; register",
    ),
    "wrong shape": (
        lambda ctx, x: ctx.logical_data_empty((3, 0)),
        ValueError,
        r"extent 0 of a shape is not positive; use",
    ),
    "wrong place": (
        lambda ctx, x: ctx.submit(print, x.read(), place=stf.data_place.device(0)),
        TypeError,
        r"'place' is of type data_place; pass an exec_place",
    ),
    "wrong mode": (
        lambda ctx, x: stf.dep(x, 4),
        ValueError,
        r"mode 4 is no access mode; use AccessMode.READ",
    ),
    "device that does not exist": (
        lambda ctx, x: ctx.submit(print, x.read(), place=stf.exec_place.device(99)),
        ValueError,
        r"device 99.*;",
    ),
    "read of nothing": (
        lambda ctx, x: ctx.submit(print, ctx.logical_data_empty((1,), name="new").read()),
        RuntimeError,
        r"'new'.*nothing has written.*;",
    ),
    "too large": (
        lambda ctx, x: ctx.submit(print, ctx.logical_data_empty((2**40,)).write(), symbol="big"),
        MemoryError,
        r"'big'.*;",
    ),
    "open twice": (
        lambda ctx, x: [ctx.task(x.rw(), symbol=name).start() for name in ("one", "two")],
        RuntimeError,
        r"'two'.*'one'.*;",
    ),
    "overlap": (
        lambda ctx, x: [ctx.logical_data(part) for part in (ctx.memory[:6], ctx.memory[4:])],
        ValueError,
        r"overlap.*;",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_error_says_who_how_and_the_way_out(host, call, error, text):
    class Context(stf.context):
        memory = np.zeros(10)

    source = np.arange(4.0)
    with Context(machine=host) as ctx:
        x = ctx.logical_data(source, name="x")
        with pytest.raises(error, match=text) as caught:
            call(ctx, x)
        assert isinstance(caught.value, stf.Error)
        del caught
        # Whatever is still open counts as failed; a write heals.
        ctx.submit(lambda a: a.fill(2), x.write())
        assert ctx.wait(x).tolist() == [2] * 4
    assert source.tolist() == [2] * 4


def test_attributes_name_task_and_line(ctx):
    data = ctx.logical_data_empty((2,), name="d")
    with pytest.raises(stf.NotWrittenError) as submitted:
        ctx.submit(print, data.read(), symbol="printer")
    with pytest.raises(stf.NotWrittenError) as started:
        ctx.task(data.read(), symbol="starter").start()
    for caught, task in ((submitted, "printer"), (started, "starter")):
        error = caught.value
        assert (error.task, error.file) == (task, __file__)
        assert error.line == caught.tb.tb_lineno


def test_attributes_are_none_where_nothing_is_known():
    error = stf.UsageError("text")
    assert (error.task, error.data, error.file, error.line) == (None, None, None, None)


def test_view_error_names_the_datum(ctx, x):
    with ctx.task(x.read(), symbol="viewer") as t:
        view = t.args_cai()
    with pytest.raises(stf.UsageError) as caught:
        _ = view.ptr
    assert (caught.value.task, caught.value.data, caught.value.file) == ("viewer", "'x'", __file__)


def test_errors_can_be_pickled_and_copied():
    error = stf.PoisonedError("text")
    error.task, error.line = "t", 3
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is stf.PoisonedError
        assert (str(twin), twin.task, twin.line, twin.data) == ("text", "t", 3, None)


def test_missing_data_error_reads_like_text():
    assert str(stf.MissingDataError("'x' is no dependency")) == "'x' is no dependency"


def test_exceptions_with_a_broken_text_are_kept(ctx, x):
    class OddError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    odd = OddError()

    def body(array):
        raise odd

    ctx.submit(body, x.rw())
    with pytest.raises(OddError) as caught:
        ctx.finalize()
    assert caught.value is odd


def test_text_that_is_no_utf8_does_not_hide_the_error(ctx, x):
    def body(array):
        raise ValueError("half a character: \ud800")

    ctx.submit(body, x.rw())
    with pytest.raises(ValueError, match="half a character"):
        ctx.finalize()
