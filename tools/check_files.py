#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules of source files: licence line, length, line ends, no stray white space."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "python", "tests", "bench", "examples", "tools", "cmake")
SUFFIXES = {".cpp", ".hpp", ".h", ".inc", ".py", ".sh", ".cmake"}
LICENCE = "SPDX-License-Identifier: Apache-2.0"
MAX_LINES = 800
MAX_COLUMNS = 100
LONG_LINES = ("tests/compile_fail/",)  # a mistake and its expected message share a line


def is_source(path: pathlib.Path) -> bool:
    return path.suffix in SUFFIXES or path.name == "CMakeLists.txt"


def check(path: pathlib.Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    faults = []
    head = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    if LICENCE not in head:
        faults.append(f"{name}:1: the first line is not the licence line '{LICENCE}'")
    if len(lines) - 1 > MAX_LINES:
        faults.append(f"{name}: has {len(lines) - 1} lines, more than {MAX_LINES}; split it")
    if not text.endswith("\n") or text.endswith("\n\n"):
        faults.append(f"{name}: does not end with exactly one line end")
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            faults.append(f"{name}:{number}: white space at the end of the line")
        if "\t" in line:
            faults.append(f"{name}:{number}: a tab")
        if len(line) > MAX_COLUMNS and not name.startswith(LONG_LINES):
            faults.append(f"{name}:{number}: {len(line)} columns, more than {MAX_COLUMNS}")
    return faults


def main() -> int:
    paths = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")) if is_source(p)]
    faults = [fault for path in paths for fault in check(path)]
    for fault in faults:
        print(fault)
    print(f"files: {len(paths)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
