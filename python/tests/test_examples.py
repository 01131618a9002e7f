# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python check themselves; here they are run, on the host machine."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import millstream as stf
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
if not FOLDER.is_dir():
    pytest.skip("the examples are not part of this installation", allow_module_level=True)

HAS_TORCH = importlib.util.find_spec("torch") is not None

# What each says in the end, and what it writes where Pillow is installed.
SAYS = {
    "adapters": "PyTorch:",
    "axpy_chain": "X = 2, Y = 5, Z = 15",
    "described_kernel": "Y = 444 after 4 steps, 2 of them updates of a graph",
    "fdtd_3d": "40 steps as in NumPy, largest divergence",
    "heat": "200 steps of 4 strips as on one array",
    "legacy_tokens": "10 rounds, three ways, one result",
    "mandelbrot": "4 tiles",
    "recorded_cholesky": "6 factorisations, 1 graph made ready and 5 times updated",
    "recorded_training": "30 steps as in a plain loop" if HAS_TORCH else "left out: this needs",
}
WRITES = {"heat": "out/heat/heat.png", "mandelbrot": "out/mandelbrot/mandelbrot.png"}


def run(name, folder, *options, **environment):
    return run_file(FOLDER / f"{name}.py", folder, *options, **environment)


def run_file(path, folder, *options, **environment):
    return subprocess.run(
        [sys.executable, *options, str(path)],
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


# What each needs on a GPU besides it; all of these then say what they say elsewhere.
GPU_NEEDS = {
    "adapters": ("torch",),
    "described_kernel": ("cuda.core",),
    "recorded_cholesky": ("torch",),
    "recorded_training": ("torch",),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", GPU_NEEDS)
def test_example_on_a_gpu(name, tmp_path):
    if stf.machine().name != "cuda" or "fake" in os.environ.get("MILLSTREAM_CUDA_DRIVER", ""):
        pytest.skip("needs a GPU")
    for module in GPU_NEEDS[name]:
        pytest.importorskip(module)
    tests = pathlib.Path(__file__).resolve().parent
    (tmp_path / "sitecustomize.py").write_text("import numba_names\n\nnumba_names.add()\n")
    path = os.pathsep.join([str(tmp_path), str(tests), os.environ.get("PYTHONPATH", "")])
    done = run(name, tmp_path, MILLSTREAM_MACHINE="cuda", PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    assert last.startswith(SAYS[name])
    if name == "recorded_training":
        assert last.endswith("28 updates of 2 graphs")


def hide(folder, *names):
    """Programs that run with this folder on their path do not find these modules."""
    for name in names:
        (folder / f"{name}.py").write_text(f"raise ImportError('there is no {name} here')")


def test_missing_frameworks_are_left_out_with_a_word(tmp_path):
    hide(tmp_path, "numba", "torch")
    done = run("adapters", tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Numba: left out (there is no numba here)",
        "PyTorch: left out (there is no torch here)",
    ]


def test_training_without_pytorch_says_so(tmp_path):
    hide(tmp_path, "torch")
    done = run("recorded_training", tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "left out: this needs PyTorch (there is no torch here)\n"


# --- programs of the guide

GUIDE = FOLDER.parents[1] / "docs" / "guide" / "recording.md"


def blocks_of(page):
    """Its Python blocks, by the name in their first line, which may say where they are from."""
    return re.findall(r"```python\n(?:# examples/python/(\w+)\.py\n)?(.*?)```", page, re.DOTALL)


def test_blocks_of_the_guide_are_parts_of_the_examples():
    found = blocks_of(GUIDE.read_text(encoding="utf-8"))
    named = [name for name, _ in found if name]
    assert named == ["described_kernel", "recorded_cholesky", "recorded_training"]
    for name, block in found:
        if name:
            program = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
            for part in block.split("...\n"):
                assert_is_part(part, program)


def assert_is_part(part, of):
    """Line by line, with whatever indentation."""
    wanted, there = ([line.strip() for line in each.splitlines()] for each in (part, of))
    starts = range(len(there) - len(wanted) + 1)
    assert any(there[at : at + len(wanted)] == wanted for at in starts), "\n".join(wanted)


def test_the_other_blocks_of_the_guide_run(tmp_path):
    for name, block in blocks_of(GUIDE.read_text(encoding="utf-8")):
        if name:
            continue
        (tmp_path / "block.py").write_text(block)
        done = run_file(tmp_path / "block.py", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        expected = re.findall(r"print\(.*\)  # (.*)", block)
        assert done.stdout.splitlines() == expected
