#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports the processor time of compiling the umbrella header alone; fails above a limit."""

import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile


def cpu_seconds(command: list[str]) -> float:
    """User plus system time of one command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--header", default="millstream/millstream.hpp")
    parser.add_argument("--limit", type=float, required=True, help="seconds of processor time")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "umbrella.cpp"
        source.write_text(f"#include <{options.header}>\n")
        command = [options.compiler, "-std=c++20", f"-I{options.include}", "-c", str(source)]
        command += ["-o", str(source.with_suffix(".o"))]
        # The best of several runs: other programs on the machine can only add to a run.
        best = min(cpu_seconds(command) for _ in range(options.runs))

    print(f"#include <{options.header}>: {best:.2f} s of processor time, limit {options.limit} s")
    return 0 if best <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
