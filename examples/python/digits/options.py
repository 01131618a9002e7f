# SPDX-License-Identifier: Apache-2.0
"""The command line. Whatever is wrong gets one line that says what is allowed, and exit code 2."""

import argparse
import importlib
import sys
from pathlib import Path

from data import IMAGES, SHIFTS

# The modules of tile functions of each machine; the first one that can be used is.
KERNELS = {"host": ["kernels_cpu"], "cuda": ["kernels_torch", "kernels_cupy"]}


class OneLineParser(argparse.ArgumentParser):
    def error(self, message):
        # Those of the types below say what is allowed; argparse's own do not.
        if "; " not in message:
            names = [name for action in self._actions for name in action.option_strings]
            message += "; the options are " + " ".join(n for n in names if n.startswith("--"))
        fail(message)


def fail(message):
    print(f"digits: {message}", file=sys.stderr)
    raise SystemExit(2)


def whole(low, high):
    """An argparse type: a whole number from `low` to `high`."""

    def parse(text):
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"'{text}' is not allowed; give a whole number from {low} to {high}"
            )
        return value

    return parse


def machine(text):
    if text not in KERNELS:
        allowed = ", ".join(f"'{name}'" for name in KERNELS)
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; give one of {allowed}")
    return text


def library(text):
    module, allowed = f"kernels_{text}", KERNELS["cuda"]
    if module not in allowed:
        names = ", ".join(f"'{name.removeprefix('kernels_')}'" for name in allowed)
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; give one of {names}")
    return module


def kernels(chosen):
    """The module of tile functions for the machine; where there is none, says what to install."""
    modules = KERNELS[chosen.machine]
    if chosen.library is not None:
        if chosen.library not in modules:
            fail(f"--library is for --machine cuda; leave it out on machine '{chosen.machine}'")
        modules = [chosen.library]
    reasons = []
    for name in modules:
        try:
            module = importlib.import_module(name)
            lack = module.missing()
        except ImportError as reason:
            lack = str(reason)
        if lack is None:
            return module
        reasons.append(lack)
    return fail(
        f"machine '{chosen.machine}' needs PyTorch or CuPy with a GPU ({'; '.join(reasons)}); "
        "run 'pip install torch' or 'pip install cupy-cuda13x', or leave --machine out"
    )


def folder(text):
    if not text:
        raise argparse.ArgumentTypeError("'' is not allowed; give the name of a folder")
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise argparse.ArgumentTypeError(
            f"'{text}' cannot be made ({reason.strerror}); give a folder that can be written to"
        ) from None
    return path


def parse(arguments=None):
    parser = OneLineParser(
        prog="digits",
        allow_abbrev=False,
        description="Handwritten digits by kernel ridge regression: a tiled Cholesky task flow.",
    )
    add = parser.add_argument
    add("--machine", type=machine, default="host", help="machine to run on (default: host)")
    add(
        "--library", type=library, help="'torch' or 'cupy' on machine cuda (default: what is there)"
    )
    add("--devices", type=whole(1, 64), help="number of devices (default: the machine's)")
    add("--tile", type=whole(8, 4096), help="rows of a tile (default: by the size of the job)")
    add("--samples", type=whole(40, IMAGES), default=IMAGES, help="images used (default: all)")
    add(
        "--augment",
        type=whole(0, len(SHIFTS)),
        default=0,
        metavar="K",
        help=f"add K shifted copies of each training image, up to {len(SHIFTS)} (default: none)",
    )
    add("--seed", type=whole(0, 2**32 - 1), default=1, help="of the split (default: %(default)s)")
    add("--out", type=folder, default="out/demo", help="folder for results (default: %(default)s)")
    add("--no-trace", dest="trace", action="store_false", help="no graph, no timeline")
    add("--no-sequential", dest="sequential", action="store_false", help="skip the comparison run")
    add("--no-reference", dest="reference", action="store_false", help="skip the SciPy solution")
    return parser.parse_args(arguments)
