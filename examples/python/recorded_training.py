# SPDX-License-Identifier: Apache-2.0
"""A small network trained with PyTorch: forward, backward and update of each step are tasks.

The steps are recorded, each into the graph of the one before. The numbers are those of a plain
PyTorch loop with autograd. Without PyTorch there is nothing to do, and the program says so.

    python examples/python/recorded_training.py
"""

import millstream as stf
import numpy as np

SAMPLES, INPUTS, HIDDEN, STEPS, RATE = 256, 8, 32, 30, 0.1
ON_GPU = stf.machine().name == "cuda"


def make_problem():
    """Samples, targets, and the parameters to begin with."""
    draw = np.random.default_rng(0).standard_normal
    x = draw((SAMPLES, INPUTS))
    y = np.sin(x @ draw((INPUTS, 1)))
    first, second = 0.3 * draw((INPUTS, HIDDEN)), 0.3 * draw((HIDDEN, 1))
    parameters = {"w1": first, "b1": np.zeros(HIDDEN), "w2": second, "b2": np.zeros(1)}
    return x, y, parameters


# --- the tasks, on tensors: what is read comes first


def forward(x, w1, b1, w2, b2, hidden, output):
    hidden.copy_((x @ w1 + b1).tanh())
    output.copy_(hidden @ w2 + b2)


def measure(y, output, loss):
    loss.copy_((output - y).square().mean())


def backward(x, y, w2, hidden, output, g1, h1, g2, h2):
    outer = 2 * (output - y) / SAMPLES
    inner = (outer @ w2.mT) * (1 - hidden.square())
    g1.copy_(x.mT @ inner)
    h1.copy_(inner.sum(0))
    g2.copy_(hidden.mT @ outer)
    h2.copy_(outer.sum(0))


def update(gradient, parameter):
    parameter.sub_(gradient, alpha=RATE)


def on_tensors(function):
    from millstream.interop.pytorch import tensor_arguments

    return lambda *_: function(*tensor_arguments(stf.current_task()))


def train(x, y, parameters):
    """The loss of each step; the parameters are changed in place."""
    run, tell, back, change = map(on_tensors, (forward, measure, backward, update))
    losses = []
    with stf.context(use_graph=True) as ctx:
        lx, ly = ctx.logical_data(x, name="x"), ctx.logical_data(y, name="y")
        w = {name: ctx.logical_data(values, name=name) for name, values in parameters.items()}
        g = {name: ctx.logical_data_empty(values.shape, values.dtype, name=f"gradient of {name}")
             for name, values in parameters.items()}  # fmt: skip
        hidden = ctx.logical_data_empty((SAMPLES, HIDDEN), x.dtype, name="hidden")
        output = ctx.logical_data_empty((SAMPLES, 1), x.dtype, name="output")
        loss = ctx.logical_data_empty((1,), x.dtype, name="loss")
        for _ in range(STEPS):
            ctx.submit(run, lx.read(), *(each.read() for each in w.values()), hidden.write(),
                       output.write(), symbol="forward")  # fmt: skip
            ctx.submit(tell, ly.read(), output.read(), loss.write(), symbol="loss")
            ctx.submit(back, lx.read(), ly.read(), w["w2"].read(), hidden.read(), output.read(),
                       *(each.write() for each in g.values()), symbol="backward")  # fmt: skip
            for name, each in w.items():
                ctx.submit(change, g[name].read(), each.rw(), symbol=f"update {name}")
            losses.append(float(ctx.wait(loss)[0]))  # launches the step
        stats = ctx.stats()
    # The first step brings the data to the device, so its graph is another one.
    assert (stats["instantiations"], stats["updates"]) == (2, STEPS - 2), stats
    return losses, stats


def train_plainly(torch, x, y, parameters):
    """The same by autograd, on the CPU."""
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    w = {name: torch.tensor(values, requires_grad=True) for name, values in parameters.items()}
    losses = []
    for _ in range(STEPS):
        hidden = (x @ w["w1"] + w["b1"]).tanh()
        loss = (hidden @ w["w2"] + w["b2"] - y).square().mean()
        losses.append(loss.item())
        for each, gradient in zip(w.values(), torch.autograd.grad(loss, w.values()), strict=True):
            each.data.sub_(gradient, alpha=RATE)
    return losses, {name: each.detach().numpy() for name, each in w.items()}


def warm_up(torch):
    """Libraries set themselves up at their first call, and not all of that can be captured."""
    one = torch.ones((2, 2), dtype=torch.float64, device="cuda")
    (one @ one + one[0]).tanh().square().mean()
    torch.cuda.synchronize()


def main():
    try:
        import torch

        if ON_GPU and not torch.cuda.is_available():
            raise ImportError("this PyTorch has no GPU")
    except ImportError as missing:
        print(f"left out: this needs PyTorch ({missing})")
        return
    if ON_GPU:
        warm_up(torch)
    x, y, parameters = make_problem()
    expected, expected_parameters = train_plainly(torch, x, y, parameters)
    losses, stats = train(x, y, parameters)
    assert np.allclose(losses, expected, rtol=1e-9, atol=0)
    for name, values in parameters.items():
        assert np.allclose(values, expected_parameters[name], rtol=1e-9, atol=1e-12), name
    assert losses[-1] < losses[0] / 2, losses
    print(f"{STEPS} steps as in a plain loop, loss {losses[0]:.3f} to {losses[-1]:.3f}; "
          f"{stats['updates']} updates of {stats['instantiations']} graphs")  # fmt: skip


if __name__ == "__main__":
    main()
