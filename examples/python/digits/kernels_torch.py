# SPDX-License-Identifier: Apache-2.0
"""The tile functions with PyTorch, on GPUs; see kernels_cpu.py for what each does.

They queue work on PyTorch's current stream, which in a task is the task's, and wait for nothing:
an error that only the GPU knows (a tile that is not positive definite) makes the result NaN.
Without a GPU they work on the CPU, which the tests use.
"""

import torch


def _tensor(array):
    """A tensor over the same memory, wherever that is."""
    if isinstance(array, torch.Tensor):
        return array
    on_gpu = hasattr(array, "__cuda_array_interface__")
    return torch.as_tensor(array, device="cuda" if on_gpu else "cpu")


def _device():
    return "cuda" if torch.cuda.is_available() else "cpu"


# --- the kernel matrix ---------------------------------------------------------------------------


def rbf(x, z, out, gamma):
    _rbf(_tensor(x), _tensor(z), _tensor(out), gamma)


def _rbf(x, z, out, gamma):
    torch.mm(x * (2.0 * gamma), z.mT, out=out)
    out.sub_(gamma * (x * x).sum(1, keepdim=True))
    out.sub_(gamma * (z * z).sum(1))
    out.clamp_(max=0.0).exp_()


def rbf_diagonal(x, out, gamma, ridge):
    rbf(x, x, out, gamma)
    _tensor(out).fill_diagonal_(1.0 + ridge)


# --- Cholesky factorisation ----------------------------------------------------------------------


def potrf(a):
    a = _tensor(a)
    factor, fault = torch.linalg.cholesky_ex(a)
    a.copy_(torch.where(fault == 0, factor, torch.nan))


def trsm(l, a):  # noqa: E741
    l, a = _tensor(l), _tensor(a)  # noqa: E741
    a.copy_(torch.linalg.solve_triangular(l.mT, a, upper=True, left=False))


def syrk(a, c):
    gemm(a, a, c)


def gemm(a, b, c):
    _tensor(c).addmm_(_tensor(a), _tensor(b).mT, alpha=-1.0)


# --- triangular solves ---------------------------------------------------------------------------


def solve_forward(l, y):  # noqa: E741
    y = _tensor(y)
    y.copy_(torch.linalg.solve_triangular(_tensor(l), y, upper=False))


def update_forward(l, x, y):  # noqa: E741
    _tensor(y).addmm_(_tensor(l), _tensor(x), alpha=-1.0)


def solve_backward(l, y):  # noqa: E741
    y = _tensor(y)
    y.copy_(torch.linalg.solve_triangular(_tensor(l).mT, y, upper=True))


def update_backward(l, x, y):  # noqa: E741
    _tensor(y).addmm_(_tensor(l).mT, _tensor(x), alpha=-1.0)


# --- prediction ----------------------------------------------------------------------------------


def predict_first(x, z, weights, out, gamma):
    out = _tensor(out)
    out.zero_()
    predict_more(x, z, weights, out, gamma)


def predict_more(x, z, weights, out, gamma):
    x, z = _tensor(x), _tensor(z)
    block = x.new_empty(len(x), len(z))
    _rbf(x, z, block, gamma)
    _tensor(out).addmm_(block, _tensor(weights))


# --- what tiles are made of ----------------------------------------------------------------------

NAME = f"PyTorch {torch.__version__}"
LARGEST_TILE = 1024
WARM_UP_TILE = 1024  # the libraries load their kernels by the size of a tile


def missing():
    return None if torch.cuda.is_available() else f"{NAME} finds no GPU"


def free_bytes(devices):
    return sum(torch.cuda.mem_get_info(device)[0] for device in range(devices))


def empty(shape):
    return torch.empty(shape, dtype=torch.float64, device=_device())


def from_host(array):
    return torch.as_tensor(array, device=_device())


def to_host(tile):
    return tile.numpy(force=True)
