#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start a backend: copy the null machine and its join file under a new name, and enter it.

    tools/new_backend.py NAME

makes src/backend/NAME and tests/conformance/NAME.cpp, and adds NAME to src/assembly.cpp, the build
files and the options (MILLSTREAM_BACKEND_NAME). The result builds and passes the conformance suite
as a machine that counts calls; from there, set capability bits one by one and keep their promises.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

# What in the sources of the null machine is its name. `null` alone is also a pointer, so every
# place that means the machine is listed.
NAMES = [
    (r"backend/null\b", "backend/{name}"),
    (r"backend::null\b", "backend::{name}"),
    (r"\bbackend_null\b", "backend_{name}"),
    (r"\bnull_options\b", "{name}_options"),
    (r"\bnull machine\b", "{name} machine"),
    (r"\bmachine 'null'", "machine '{name}'"),
    (r'"null( host|:)?"', '"{name}\\1"'),
    (r"\bjoined null\(", "joined {name}("),
]

# File, the line to find, the line to put after it. Each is found exactly once.
ENTRIES = [
    (
        "CMakeLists.txt",
        'option(MILLSTREAM_BACKEND_NULL "Build the machine that counts calls and runs nothing" ON)',
        'option(MILLSTREAM_BACKEND_{NAME} "Build the {name} machine" ON)',
    ),
    (
        "CMakeLists.txt",
        "  MILLSTREAM_BACKEND_NULL=$<BOOL:${MILLSTREAM_BACKEND_NULL}>",
        "  MILLSTREAM_BACKEND_{NAME}=$<BOOL:${MILLSTREAM_BACKEND_{NAME}}>",
    ),
    (
        "src/assembly.cpp",
        '#include "backend/host/machine.hpp"',
        '#if MILLSTREAM_BACKEND_{NAME}\n#include "backend/{name}/machine.hpp"\n#endif',
    ),
    (
        "src/assembly.cpp",
        '        backend_entry{.name = "host", .open = &host::open, .may_be_default = true},',
        "#if MILLSTREAM_BACKEND_{NAME}\n"
        '        backend_entry{.name = "{name}", .open = &{name}::open, .may_be_default = false},\n'
        "#endif",
    ),
    (
        "tests/conformance/CMakeLists.txt",
        "set(joins host.cpp)",
        "if(MILLSTREAM_BACKEND_{NAME})\n  list(APPEND joins {name}.cpp)\nendif()",
    ),
    (
        "tests/conformance/CMakeLists.txt",
        "                    ARGS --backend=host --seeds=64)",
        "if(MILLSTREAM_BACKEND_{NAME})\n"
        "  millstream_test_run(conformance_{name} EXECUTABLE conformance LABELS conformance\n"
        "                      ARGS --backend={name})\n"
        "endif()",
    ),
]

# File, text to find once, text to put in its place: lists on one line.
LISTS = [
    ("src/CMakeLists.txt", "foreach(backend CUDA", "foreach(backend CUDA {NAME}"),
    ("src/CMakeLists.txt", "backend backend/cuda", "backend backend/cuda backend/{name}"),
    ("src/CMakeLists.txt", "backend backend_cuda", "backend backend_cuda backend_{name}"),
    ("tests/conformance/CMakeLists.txt", "USES backend_cuda", "USES backend_cuda backend_{name}"),
]


def renamed(text: str, name: str) -> str:
    for pattern, replacement in NAMES:
        text = re.sub(pattern, replacement.replace("{name}", name), text)
    return text


def filled(text: str, name: str) -> str:
    return text.replace("{NAME}", name.upper()).replace("{name}", name)


def replace_once(text: str, old: str, new: str, file: str) -> str:
    if text.count(old) != 1:
        sys.exit(f"{file} does not hold {old.strip()!r} exactly once; bring this tool up to date")
    return text.replace(old, new)


def plan(root: Path, name: str) -> dict[Path, str]:
    """Every file to write, worked out in full before the first one is touched."""
    files: dict[Path, str] = {}
    for source in sorted((root / "src/backend/null").iterdir()):
        files[root / "src/backend" / name / source.name] = renamed(source.read_text(), name)
    join = root / "tests/conformance/null.cpp"
    files[join.with_name(f"{name}.cpp")] = renamed(join.read_text(), name)
    changes = [(file, old + "\n", f"{old}\n{new}\n") for file, old, new in ENTRIES] + LISTS
    for file, old, new in changes:
        path = root / file
        text = files.get(path) or path.read_text()
        files[path] = replace_once(text, old, filled(new, name), file)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="lower case letters and digits, a letter first")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(__file__).resolve().parent.parent,
        help="the source tree (default: the one this tool is in)",
    )
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9]*", given.name):
        parser.error(f"'{given.name}' is no name for a backend; use lower case letters and digits")
    if (given.root / "src/backend" / given.name).exists():
        parser.error(f"the backend '{given.name}' exists; choose another name")
    for path, text in plan(given.root, given.name).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(given.root))


if __name__ == "__main__":
    main()
