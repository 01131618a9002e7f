#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the committed type stub with one made from the installed extension module.

usage: check_stub.py [--write]      --write replaces the committed file instead
"""

import difflib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

STUB = pathlib.Path(__file__).resolve().parent.parent / "python" / "millstream" / "_core.pyi"


def made_from_extension() -> str:
    package = importlib.util.find_spec("millstream")
    if package is None or not package.submodule_search_locations:
        sys.exit("check_stub: millstream is not installed for this interpreter; run tools/package")
    installed = pathlib.Path(package.submodule_search_locations[0])
    extension = next(installed.glob("_core*.so"))
    with tempfile.TemporaryDirectory() as folder:
        # An empty package around the extension: the stub must not depend on the Python sources.
        stage = pathlib.Path(folder) / "millstream"
        stage.mkdir()
        (stage / "__init__.py").write_text("")
        (stage / extension.name).symlink_to(extension)
        output = pathlib.Path(folder) / "_core.pyi"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "nanobind.stubgen",
                "-q",
                "-m",
                "millstream._core",
                "-o",
                output,
            ],
            check=True,
            env=os.environ | {"PYTHONPATH": folder},
        )
        # The generator imports the package of a name, which does not import its modules.
        return output.read_text(encoding="utf-8").replace(
            "\nimport millstream\n", "\nimport millstream\nimport millstream.viz\n", 1
        )


def main() -> int:
    fresh = made_from_extension()
    if "--write" in sys.argv[1:]:
        STUB.write_text(fresh, encoding="utf-8")
        return 0
    committed = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    difference = list(
        difflib.unified_diff(
            committed.splitlines(),
            fresh.splitlines(),
            "committed",
            "from the extension",
            lineterm="",
        )
    )
    print("\n".join(difference[:80]))
    print("stub: differs; write it anew with `make stub`" if difference else "stub: as committed")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
