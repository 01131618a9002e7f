# SPDX-License-Identifier: Apache-2.0
"""Fault A16: the first call of a library in its process is made in a recorded task.

Either the result is right, or the error says what to do, and a second context has the right one.
"""

_FIRST_CALL = """
    import millstream as stf, numpy as np
    {import_it}

    def body(*_):
        a, b, c = {arguments}
        {call}

    def run():
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((2, 64, 64))
        a = a @ a.T + 64 * np.eye(64)
        c = np.zeros((64, 64))
        ctx = stf.context(use_graph=True)
        la, lb, lc = map(ctx.logical_data, (a, b, c))
        ctx.submit(body, la.read(), lb.read(), lc.write(), symbol="first call")
        other = ctx.logical_data(np.ones(8))
        said = ""
        try:
            ctx.wait(lc)
        except (stf.Error, RuntimeError) as told:
            said = f"{{told}} {{told.__cause__}} {{getattr(told, '__notes__', '')}}"
            assert "first call" in said, said
        else:
            ctx.finalize()
            expected = {expected}
            assert np.allclose(c, expected), np.abs(c - expected).max()
        assert ctx.wait(other).tolist() == [1] * 8 if said else True
        return said

    said = run()
    assert bool(said) or not {always}
    if said:
        assert "before the recording" in said, said
        assert bool(run()) == {always}, "the second call"
    print("told" if said else "right")
"""

# Calls of PyTorch and what they give, by NumPy.
TORCH_CALLS = {
    "product": ("torch.matmul(a, b, out=c)", "a @ b"),
    "product with temporaries": ("c.copy_((a @ b) @ (a @ b))", "(a @ b) @ (a @ b)"),
    "factorisation": ("c.copy_(torch.linalg.cholesky_ex(a).L)", "np.linalg.cholesky(a)"),
    "solution": ("c.copy_(torch.linalg.solve_ex(a, b).result)", "np.linalg.solve(a, b)"),
}

# What a program may print that ended well.
OUTCOMES = ("right", "told")


def of_pytorch(name):
    """The program of one of TORCH_CALLS."""
    call, expected = TORCH_CALLS[name]
    return _FIRST_CALL.format(
        import_it="import torch; from millstream.interop.pytorch import tensor_arguments",
        arguments="tensor_arguments(stf.current_task())",
        call=call,
        expected=expected,
        always=False,
    )


def of_cupy(call, expected, refused):
    """The program of a call of CuPy, which may be one that it refuses each time."""
    return _FIRST_CALL.format(
        import_it="import cupy",
        arguments="map(cupy.asarray, stf.current_task().args_cai())",
        call=call,
        expected=expected,
        always=refused,
    )
