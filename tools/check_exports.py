#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where a shared object exports a name that is not on its list.

usage: check_exports.py <shared object> <name> [<name> ...]
"""

import subprocess
import sys


def exported(path: str) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", path],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return {line.split()[0].split("@")[0] for line in listing.splitlines() if line.strip()}


def main(path: str, *allowed: str) -> int:
    names = exported(path)
    extra, missing = sorted(names - set(allowed)), sorted(set(allowed) - names)
    for name in extra:
        print(f"{path}: exports '{name}', which is not on the list")
    for name in missing:
        print(f"{path}: does not export '{name}'")
    print(f"exports: {len(names)} names, {len(extra) + len(missing)} faults")
    return 1 if extra or missing else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
