# SPDX-License-Identifier: Apache-2.0
"""What errors tell, and that a context outlives them."""

import copy
import pickle
import resource
import traceback
import types

import millstream as stf
import numpy as np
import pytest


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(4.0), name="x")


def interface(**changes):
    array = np.zeros(4)
    return types.SimpleNamespace(
        __array_interface__={**array.__array_interface__, **changes}, keep=array
    )


BAD_CALLS = {
    "wrong dtype": (
        lambda ctx, x: ctx.logical_data(np.array([{}])),
        TypeError,
        r"dtype object are Python objects.*; convert",
    ),
    "wrong layout": (
        lambda ctx, x: ctx.logical_data(np.zeros((4, 4)).T[1:]),
        ValueError,
        r"shape \(3, 4\) and strides .* is not C-contiguous; pass copy=.*or register",
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
    "args that are no tuple": (
        lambda ctx, x: ctx.submit(print, args=3),
        TypeError,
        r"^submit\(\) got 'args' of type int; pass a tuple",
    ),
    "args of host_launch that are no tuple": (
        lambda ctx, x: ctx.host_launch(fn=print, args=3),
        TypeError,
        r"^host_launch\(\) got 'args' of type int; pass a tuple",
    ),
    "unknown dtype": (
        lambda ctx, x: ctx.logical_data_empty((2,), "nonsense"),
        TypeError,
        r"^dtype 'nonsense' is none that NumPy knows; pass",
    ),
    "extent beyond all sizes": (
        lambda ctx, x: ctx.logical_data_empty((2**70,)),
        OverflowError,
        r"^an extent of a shape has more than 63 bits; split",
    ),
    "number beyond all sizes": (
        lambda ctx, x: stf.machine("host", devices=10**30),
        OverflowError,
        r"^'devices' has more than 64 bits; pass",
    ),
    "negative index": (
        lambda ctx, x: ctx.task(x.read()).get_arg(-1),
        OverflowError,
        r"^'index' is negative .*; pass an integer from 0",
    ),
    "fill value of several elements": (
        lambda ctx, x: ctx.logical_data_full((2,), [1, 2]),
        ValueError,
        r"^logical_data_full\(\) cannot make one element of dtype int64 out of \[1, 2\]; pass",
    ),
    "fill value that does not fit": (
        lambda ctx, x: ctx.logical_data_full((2,), 300, np.uint8),
        OverflowError,
        r"^logical_data_full\(\) cannot make one element of dtype uint8 out of 300; pass",
    ),
    "array interface without a dict": (
        lambda ctx, x: ctx.logical_data(types.SimpleNamespace(__array_interface__=3)),
        TypeError,
        r"^__array_interface__ of type SimpleNamespace is of type int; it must be a dict",
    ),
    "array interface of nothing": (
        lambda ctx, x: ctx.logical_data(interface(data=(0, False))),
        ValueError,
        r"^__array_interface__ of type SimpleNamespace has a null address; give",
    ),
    "array interface without a shape": (
        lambda ctx, x: ctx.logical_data(interface(shape=None)),
        (TypeError, ValueError),
        r"^__array_interface__ of type SimpleNamespace is not as NumPy describes it; pass",
    ),
    "name with a NUL": (
        lambda ctx, x: ctx.logical_data(np.zeros(2), name="a\0b"),
        ValueError,
        r"^'name' has a NUL character.*; leave it out",
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
        assert (error.task, error.data, error.file) == (task, "'d'", __file__)
        assert error.line == caught.tb.tb_lineno


def spoil(ctx, data):
    with pytest.raises(KeyError), ctx.task(data.rw()):
        raise KeyError


NAMED_DATA = {
    "nothing written": lambda ctx, x: ctx.submit(print, x.empty_like().read()),
    "poisoned": lambda ctx, x: (spoil(ctx, x), ctx.task(x.read()).start()),
    "wait for poisoned": lambda ctx, x: (spoil(ctx, x), ctx.wait(x)),
    "open in this thread": lambda ctx, x: [ctx.task(x.rw()).start() for _ in range(2)],
    "no room": lambda ctx, x: ctx.submit(print, ctx.logical_data_empty((2**50,)).write()),
    "two places": lambda ctx, x: ctx.task(
        x.read(stf.data_place.device(0)), x.read(stf.data_place.host())
    ).start(),
}


@pytest.mark.parametrize("call", NAMED_DATA.values(), ids=NAMED_DATA.keys())
def test_errors_about_one_datum_name_it(host, call):
    with stf.context(machine=host) as ctx:
        x = ctx.logical_data(np.zeros(2), name="x")
        with pytest.raises(stf.Error) as caught:
            call(ctx, x)
        assert caught.value.data in ("'x'", "data 2", "data 2 (16 bytes)", "data 2 (8 PiB)")
        assert caught.value.data in str(caught.value)


LOCATED_CALLS = {
    "layout": lambda ctx, x: ctx.logical_data(np.zeros((2, 2)).T),
    "no data": lambda ctx, x: ctx.logical_data(None),
    "wait for no data": lambda ctx, x: ctx.wait(None),
    "wait for nothing": lambda ctx, x: ctx.wait(ctx.logical_data_empty((1,))),
    "argument of a wrong type": lambda ctx, x: ctx.submit(print, 3),
    "place of a wrong type": lambda ctx, x: ctx.submit(print, place=3),
    "device that does not exist": lambda ctx, x: stf.exec_place.device(-1),
    "use after finalize": lambda ctx, x: x.empty_like() if ctx.finalize() is None else None,
}


@pytest.mark.parametrize("call", LOCATED_CALLS.values(), ids=LOCATED_CALLS.keys())
def test_every_error_knows_the_line(ctx, x, call):
    with pytest.raises(stf.Error) as caught:
        call(ctx, x)
    last = traceback.extract_tb(caught.tb)[-1]
    assert (caught.value.file, caught.value.line) == (__file__, last.lineno)


SUBMISSIONS = {
    "submit": lambda ctx, *parts: ctx.submit(print, parts[0], place=parts[1], symbol="t"),
    "task": lambda ctx, *parts: ctx.task(*parts, symbol="t").start(),
    "add_dep": lambda ctx, *parts: ctx.task(parts[1], symbol="t").add_dep(parts[0]),
}


def check_located(caught):
    assert caught.value.task == "t"
    last = traceback.extract_tb(caught.tb)[-1]
    assert (caught.value.file, caught.value.line) == (__file__, last.lineno)


@pytest.mark.parametrize("form", ["submit", "task"])
def test_missing_device_names_task_and_line(ctx, x, form):
    text = r"^task 't' \(.*test_errors\.py:\d+\) .*device 7"
    with pytest.raises(ValueError, match=text) as caught:
        SUBMISSIONS[form](ctx, x.read(), stf.exec_place.device(7))
    check_located(caught)


@pytest.mark.parametrize("form", SUBMISSIONS)
def test_data_of_another_context_names_task_data_and_line(host, ctx, x, form):
    text = r"^task 't' \(.*test_errors\.py:\d+\) uses 'x', which belongs to a different context;"
    with stf.context(machine=host) as other, pytest.raises(ValueError, match=text) as caught:
        SUBMISSIONS[form](other, x.read(), stf.exec_place.host())
    check_located(caught)
    assert caught.value.data == "'x'"


@pytest.mark.fault("A32")
def test_wait_for_what_nothing_has_written_names_the_datum(ctx):
    data = ctx.logical_data_empty((2**45,), name="fresh")
    with pytest.raises(stf.NotWrittenError, match=r"^wait reads 'fresh', which nothing") as caught:
        ctx.wait(data)
    assert caught.value.data == "'fresh'"


@pytest.fixture
def no_more_memory():
    """Mappings of the process fail until the end of the test."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_wait_that_has_no_memory_for_its_copy_names_the_datum(null_ctx, request):
    data = null_ctx.logical_data_empty((2**36,), name="huge")
    with null_ctx.task(data.write()):
        pass
    request.getfixturevalue("no_more_memory")
    text = rf"^wait\(\) has no memory for a copy of 'huge' with {8 * 2**36} bytes; free"
    with pytest.raises(stf.OutOfMemoryError, match=text) as caught:
        null_ctx.wait(data)
    assert caught.value.data == "'huge'"
    small = null_ctx.logical_data(np.arange(3.0))
    assert null_ctx.wait(small).shape == (3,)


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
