# SPDX-License-Identifier: Apache-2.0
"""That the measurements of Python calls without a GPU run."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "bench" / "python" / "call_cost.py"
if not PROGRAM.is_file():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)
pytest.importorskip("millstream._core")


def test_every_row_is_printed():
    done = subprocess.run(
        [sys.executable, PROGRAM, "--runs", "1", "--calls", "100"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 14
