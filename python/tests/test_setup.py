# SPDX-License-Identifier: Apache-2.0
"""tools/setup with an interpreter of the user's own."""

import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "tools" / "setup"
if not SETUP.is_file():
    pytest.skip("the tools are not part of this installation", allow_module_level=True)


@pytest.mark.parametrize(
    ("profile", "wanted"),
    [("demo", "scipy scikit-learn pillow"), ("test", "pytest pytest-timeout"), ("lint", "mypy")],
)
def test_bare_interpreter_gets_the_list_of_all_that_its_profile_lacks(tmp_path, profile, wanted):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = subprocess.run(
        [str(SETUP), profile],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "MILLSTREAM_PYTHON": str(bare / "bin" / "python")},
    )
    assert done.returncode == 1
    text = f"lacks for '{profile}': pip nanobind scikit-build-core numpy {wanted}"
    assert text in done.stderr
