# SPDX-License-Identifier: Apache-2.0
"""The table of GPU measurements, and that the measurements of Python calls run."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("bench_run", BENCH / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(values, by_hand=(), **budgets):
    return {"name": "x", "unit": "us", "values": list(values), "by_hand": list(by_hand), **budgets}


def test_row_without_a_twin_has_median_and_spread(runner):
    assert runner.table([row([3.0, 1.0, 2.0])])[2] == "| x | 2 | 1 - 3 |  |  |  |  |"


def test_ratio_is_the_median_of_the_ratios_of_each_run(runner):
    # By medians it would be 2 / 2.
    found = runner.table([row([1.0, 2.0, 6.0], [1.0, 4.0, 2.0], ratio_budget=1.0)])[2]
    assert found == "| x | 2 | 1 - 6 | 2 | 1.000 | 1 x |  |"


@pytest.mark.parametrize(
    ("measured", "kept"),
    [
        (row([1.0], budget=1.0), True),
        (row([1.1], budget=1.0), False),
        (row([2.2], [2.0], ratio_budget=1.05), False),
        (row([6.0], [4.0], over_budget=3.0), True),
        (row([8.0], [4.0], over_budget=3.0), False),
        (row([8.0]), True),
    ],
)
def test_what_is_over_its_budget_is_marked(runner, measured, kept):
    assert ("**over**" in runner.table([measured])[2]) is not kept


def run_program(folder, driver):
    rows = folder / "rows.json"
    done = subprocess.run(
        [sys.executable, BENCH / "python" / "gpu_cost.py", "--quick", "--json", rows],
        env={**os.environ, "MILLSTREAM_CUDA_DRIVER": driver},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, rows


def test_without_a_gpu_the_program_says_so_and_ends_with_77(tmp_path):
    pytest.importorskip("millstream._core")
    done, _ = run_program(tmp_path, "/nowhere/libcuda.so.1")
    assert done.returncode == 77, done.stderr
    assert "/nowhere/libcuda.so.1" in done.stderr


def test_every_row_runs(tmp_path):
    pytest.importorskip("millstream._core")
    driver = os.environ.get("MILLSTREAM_CUDA_DRIVER")
    if not driver:
        pytest.skip("needs a driver, see MILLSTREAM_CUDA_DRIVER")
    done, rows = run_program(tmp_path, driver)
    assert done.returncode == 0, done.stderr
    found = json.loads(rows.read_text())["rows"]
    assert len(found) == 23
    assert all(len(each["values"]) == 2 for each in found)
