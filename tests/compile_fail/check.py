#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a program of mistakes and compares what the compiler says with what the lines expect.

A line with `// expect: <text>` is one mistake: the compiler must point at that line, and there must
be one error with that text, and no error that nobody expects. With -DCORRECT the file must compile.
"""

import argparse
import pathlib
import re
import subprocess
import sys


def compile_it(options: argparse.Namespace, *more: str) -> tuple[bool, str]:
    command = [options.compiler, "-std=c++20", f"-I{options.include}", "-fsyntax-only"]
    done = subprocess.run([*command, *more, options.source], capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("source")
    options = parser.parse_args()
    lines = pathlib.Path(options.source).read_text().splitlines()
    expected = {
        number: match.group(1).strip()
        for number, line in enumerate(lines, 1)
        if (match := re.search(r"// expect: (.*)$", line))
    }

    complaints = []
    compiles, text = compile_it(options, "-DCORRECT")
    if not compiles:
        complaints.append(f"the corrected program does not compile:\n{text}")
    compiles, text = compile_it(options)
    errors = [line for line in text.splitlines() if re.search(r"\berror:", line)]
    if compiles:
        complaints.append("the program compiles")
    for number, message in expected.items():
        match = next((line for line in errors if message in line), None)
        if match is None:
            complaints.append(f"line {number}: no error says '{message}'")
        else:
            errors.remove(match)
        if f"{pathlib.Path(options.source).name}:{number}:" not in text:
            complaints.append(f"line {number}: the compiler does not point at it")
    complaints += [f"nobody expects: {line}" for line in errors]

    print("\n".join(complaints) or f"{len(expected)} mistakes, each with its message")
    if complaints and not compiles:
        print(text)
    return 1 if complaints or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
