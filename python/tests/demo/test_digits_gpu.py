# SPDX-License-Identifier: Apache-2.0
"""The whole job on a GPU, with each library that is installed."""

import json

import main
import pytest

pytest.importorskip("millstream._core")
pytestmark = pytest.mark.gpu


@pytest.fixture(params=["torch", "cupy"])
def library(request):
    pytest.importorskip(request.param)
    kernels = pytest.importorskip(f"kernels_{request.param}")
    if kernels.missing():
        pytest.skip(kernels.missing())
    return request.param


@pytest.mark.parametrize("tile", ["64", "448"])
def test_job_finds_the_digits_with_the_weights_of_scipy(library, tile, tmp_path):
    arguments = ["--machine", "cuda", "--library", library, "--tile", tile]
    assert main.main([*arguments, "--out", str(tmp_path)]) == 0
    facts = json.loads((tmp_path / "report.json").read_text())
    assert facts["accuracy"] >= 0.98
    assert facts["difference"] <= 1e-8
    assert facts["edges"] > 0
    assert facts["copies"] > 0
