# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python check themselves; here they are run, on the host machine."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
if not FOLDER.is_dir():
    pytest.skip("the examples are not part of this installation", allow_module_level=True)

# What each says in the end, and what it writes where Pillow is installed.
SAYS = {
    "adapters": "PyTorch:",
    "axpy_chain": "X = 2, Y = 5, Z = 15",
    "fdtd_3d": "40 steps as in NumPy, largest divergence",
    "heat": "200 steps of 4 strips as on one array",
    "legacy_tokens": "10 rounds, three ways, one result",
    "mandelbrot": "4 tiles",
    "recorded_cholesky": "6 factorisations, 1 graph made ready and 5 times updated",
}
WRITES = {"heat": "out/heat/heat.png", "mandelbrot": "out/mandelbrot/mandelbrot.png"}


def run(name, folder, *options, **environment):
    return subprocess.run(
        [sys.executable, *options, str(FOLDER / f"{name}.py")],
        capture_output=True, text=True, timeout=100, cwd=folder, check=False,
        env={**os.environ, "MILLSTREAM_MACHINE": "host", **environment},
    )  # fmt: skip


def test_each_program_is_listed_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name, tmp_path):
    done = run(name, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(SAYS[name])
    if name in WRITES and importlib.util.find_spec("PIL") is not None:
        assert (tmp_path / WRITES[name]).read_bytes()[:4] == b"\x89PNG"


def test_missing_frameworks_are_left_out_with_a_word(tmp_path):
    for name in ("numba", "torch"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('there is no {name} here')")
    done = run("adapters", tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Numba: left out (there is no numba here)",
        "PyTorch: left out (there is no torch here)",
    ]
