# SPDX-License-Identifier: Apache-2.0
"""The constructor of `logical_data`, borrowed contexts, and objects that have no context."""

import gc

import millstream as stf
import numpy as np
import pytest


class BoomError(Exception):
    pass


def fail(*_):
    raise BoomError


# --- the constructor


def test_constructor_registers_an_array(ctx):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    data = stf.logical_data(ctx, values, stf.data_place.host(), (9,), int, "x")
    assert (data.shape, data.dtype, data.symbol) == ((2, 3), np.float32, "x")
    assert ctx.wait(data).tolist() == values.tolist()


def test_constructor_takes_names(ctx):
    data = stf.logical_data(
        name="y", buf=bytearray(4), ctx=ctx, shape=None, dtype=None, dplace=None
    )
    assert (data.shape, data.symbol, data.readonly) == ((4,), "y", False)
    borrowed = data.borrow_ctx_handle()
    assert stf.logical_data(borrowed, np.zeros(2)).shape == (2,)


@pytest.mark.parametrize("wrong", [3, "ctx", object()])
def test_constructor_wants_a_context(wrong):
    with pytest.raises(TypeError, match="'ctx'"):
        stf.logical_data(wrong, np.zeros(2))


def test_constructor_refuses_what_the_context_refuses(ctx, host):
    with pytest.raises(TypeError):
        stf.logical_data(ctx, object())
    with pytest.raises(ValueError, match="C-contiguous"):
        stf.logical_data(ctx, np.zeros((4, 4))[:, ::2])
    over = stf.context(machine=host)
    over.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        stf.logical_data(over, np.zeros(2))


@pytest.mark.parametrize("with_context", [True, False])
def test_data_without_a_context_or_an_array(ctx, with_context):
    empty = stf.logical_data(ctx) if with_context else stf.logical_data(buf=np.zeros(2))
    assert (empty.shape, empty.dtype, empty.symbol) == (None, None, None)
    assert (empty.readonly, empty._is_token) == (False, False)
    assert repr(empty) == "logical_data(empty)"
    deps = [empty.read(), empty.write(), empty.rw()]
    for use in (
        lambda: ctx.task(deps[0]),
        lambda: ctx.submit(print, deps[1]),
        lambda: ctx.host_launch(deps[2], fn=print),
        lambda: ctx.wait(empty),
    ):
        with pytest.raises(ValueError, match=r"without a context.* belongs to a different context"):
            use()
    for use in (
        empty.empty_like,
        empty.get,
        empty.borrow_ctx_handle,
        lambda: empty.set_symbol("x"),
    ):
        with pytest.raises(RuntimeError):
            use()


def test_static_factories(ctx):
    token = stf.logical_data.token(ctx)
    assert (token.shape, token.dtype, token._is_token) == (None, None, True)
    data = stf.logical_data.init_by_shape(ctx, (2, 3), np.int16, "z")
    assert (data.shape, data.dtype, data.symbol) == ((2, 3), np.int16, "z")
    ctx.submit(lambda x: None, data.write(), token.rw())
    for wrong in (None, 3):
        with pytest.raises(TypeError):
            stf.logical_data.token(wrong)
    with pytest.raises(ValueError, match="positive"):
        stf.logical_data.init_by_shape(ctx, (0,), int)


# --- contexts of others


def test_empty_shell_of_a_context():
    shell = stf.context(borrowed=True)
    assert repr(shell) == "context(empty, borrowed)"
    with shell as same:
        assert same is shell
    with pytest.raises(RuntimeError, match="cannot finalize borrowed context"):
        shell.finalize()
    with pytest.raises(RuntimeError, match="context handle is NULL"):
        shell.fence()
    with pytest.raises(RuntimeError, match="context handle is NULL"):
        shell.wait(None)
    for call in (
        shell.task,
        shell.token,
        shell.done,
        lambda: shell.logical_data(np.zeros(2)),
        lambda: shell.logical_data_empty((2,)),
        lambda: shell.submit(print),
        lambda: shell.host_launch(fn=print),
    ):
        with pytest.raises(RuntimeError, match="has no context"):
            call()
    assert shell.check_errors() is None


def test_empty_shell_has_nothing_to_finalize():
    stf.context(borrowed=True)
    gc.collect()  # without a warning


def test_borrowed_context_lists_its_own_errors_only(ctx):
    first, second = (ctx.token().borrow_ctx_handle() for _ in range(2))
    ctx.host_launch(fn=fail, symbol="of the context")
    first.host_launch(fn=fail, symbol="of the first")
    first.submit(fail, place=stf.exec_place.host(), symbol="of the first, too")
    stf.synchronize(ctx.fence())
    assert second.check_errors() is None
    for name in ("of the first", "of the first, too"):
        with pytest.raises(BoomError) as caught:
            first.check_errors()
        assert f"'{name}'" in caught.value.__notes__[0]
    assert first.check_errors() is None
    with pytest.raises(BoomError) as caught:
        ctx.check_errors()
    assert "'of the context'" in caught.value.__notes__[0]
    assert ctx.check_errors() is None


def test_errors_of_a_borrowed_context_are_not_lost_with_it(host):
    ctx = stf.context(machine=host)
    ctx.token().borrow_ctx_handle().host_launch(fn=fail)
    with pytest.raises(BoomError):
        ctx.finalize()
