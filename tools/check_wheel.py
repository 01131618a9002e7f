#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a wheel is what its name says.

usage: check_wheel.py <wheel>

The extension's file name, the tag in WHEEL and the wheel's own name must agree on abi3 or on one
Python version; the size has a limit; the files users rely on are in.
"""

import pathlib
import re
import sys
import zipfile

MAX_BYTES = 2_000_000
NEEDED = (
    "millstream/__init__.py",
    "millstream/_core.pyi",
    "millstream/py.typed",
    "millstream/include/millstream/millstream.hpp",
    "millstream/lib/libmillstream.so",
)
NOT_WANTED = re.compile(
    r"(?<!/include/millstream)/[^/]*\.hpp$|\.(cpp|a|cmake|map)$|(^|/)tests/|CMakeLists"
)


def extension_faults(members: list[str], python_tag: str, abi_tag: str) -> list[str]:
    extensions = [m for m in members if re.fullmatch(r"millstream/_core\.[\w.-]*so", m)]
    if len(extensions) != 1:
        return [f"holds {len(extensions)} extension modules, not one: {extensions}"]
    is_abi3 = extensions[0].endswith(".abi3.so")
    if is_abi3 != (abi_tag == "abi3"):
        return [f"is tagged '{abi_tag}', but its extension is '{extensions[0]}'"]
    version = python_tag.removeprefix("cp")
    if is_abi3 and version != "312":
        return [f"is a stable-ABI wheel for '{python_tag}', not for cp312"]
    if not is_abi3 and f"cpython-{version}" not in extensions[0]:
        return [f"is tagged '{python_tag}', but its extension is '{extensions[0]}'"]
    return []


def check(path: pathlib.Path) -> list[str]:
    python_tag, abi_tag, platform_tag = path.stem.split("-")[-3:]
    with zipfile.ZipFile(path) as wheel:
        members = wheel.namelist()
        record = next(m for m in members if m.endswith(".dist-info/WHEEL"))
        tags = re.findall(r"^Tag: (.*)$", wheel.read(record).decode(), re.MULTILINE)
    faults = extension_faults(members, python_tag, abi_tag)
    if tags != [f"{python_tag}-{abi_tag}-{platform_tag}"]:
        faults.append(f"its WHEEL file says {tags}")
    if path.stat().st_size > MAX_BYTES:
        faults.append(f"has {path.stat().st_size} bytes, more than {MAX_BYTES}")
    faults += [f"lacks '{name}'" for name in NEEDED if name not in members]
    faults += [f"holds '{name}'" for name in members if NOT_WANTED.search(name)]
    return faults


def main(name: str) -> int:
    path = pathlib.Path(name)
    faults = check(path)
    for fault in faults:
        print(f"{path.name}: {fault}")
    print(f"wheel: {path.name}, {path.stat().st_size} bytes, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
