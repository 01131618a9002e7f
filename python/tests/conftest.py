# SPDX-License-Identifier: Apache-2.0
"""Contexts and helpers for all tests: two simulated devices unless a test says otherwise.

With MILLSTREAM_MACHINE=cuda the fixtures `machine` and `ctx` are those of the CUDA machine, and
tests with the marker `host_devices`, whose bodies touch device arrays as NumPy arrays or look at
simulated devices, are to be left out:

    MILLSTREAM_MACHINE=cuda MILLSTREAM_CUDA_DRIVER=<driver> pytest -m "not host_devices and not gpu"
"""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import millstream as stf
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))  # helpers of this folder

# Numba warns of kernels that are too small for the GPU. Read at its first import.
os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"

# Bodies that a test holds back give up after this time, so that a fault is a failure and no hang.
LIMIT_S = 60


def pytest_configure(config):
    # A shell ignores Ctrl-C for what it runs in the background, and programs inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "slow: takes more than a second, or gigabytes of memory")
    config.addinivalue_line("markers", "host_devices: device arrays are NumPy arrays")
    config.addinivalue_line("markers", "fault(*ids): shows these rows of the known faults")


@pytest.fixture
def host():
    return stf.machine("host", devices=2)


@pytest.fixture
def machine(host):
    return stf.machine("cuda") if os.environ.get("MILLSTREAM_MACHINE") == "cuda" else host


@pytest.fixture
def two_devices(machine):
    if machine.device_count < 2:
        pytest.skip("needs two devices")
    return machine


@pytest.fixture
def ctx(machine):
    context = stf.context(machine=machine)
    yield context
    context.finalize()


@pytest.fixture
def null_ctx():
    context = stf.context(machine=stf.machine("null"))
    yield context
    context.finalize()


class Gate:
    """Holds bodies back until the test opens it."""

    def __init__(self):
        self._event = threading.Event()
        self.reached = threading.Event()

    def open(self):
        self._event.set()

    def is_open(self):
        return self._event.is_set()

    def hold(self, *_):
        self.reached.set()
        assert self._event.wait(LIMIT_S), "the test never opened the gate"


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def run_python(tmp_path):
    """Runs a program in an interpreter of its own."""

    def run(program, *options, **environment):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(program))
        return subprocess.run(
            [sys.executable, *options, str(script)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env={**os.environ, **environment},
        )

    return run


@pytest.fixture
def run_clean(run_python):
    """Like `run_python`, and the program must end well without a word on stderr."""

    def run(program, *options, **environment):
        done = run_python(program, *options, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.fixture
def calls_of():
    """Names of the functions of a module that a call ends up in: what an adapter costs."""

    def calls_of(module, call):
        found = []

        def note(frame, event, _):
            name = frame.f_code.co_name
            if event == "call" and frame.f_code.co_filename == module.__file__ and name[0] != "<":
                found.append(name)

        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
        return found

    return calls_of
