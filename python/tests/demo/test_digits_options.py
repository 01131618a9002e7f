# SPDX-License-Identifier: Apache-2.0
import io
import sys
from types import SimpleNamespace

import memory
import options
import progress
import pytest
from tiles import BlockCyclic

OPTIONS = (
    "the options are --help --machine --library --devices --tile --samples --augment --seed --out "
    "--no-trace --no-sequential --no-reference"
)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--tile", "7"],
            "argument --tile: '7' is not allowed; give a whole number from 8 to 4096",
        ),
        (["--tile", "big"], "'big' is not allowed; give a whole number from 8 to 4096"),
        (["--devices", "0"], "argument --devices: '0' is not allowed; give a whole number from 1"),
        (["--samples", "1798"], "'1798' is not allowed; give a whole number from 40 to 1797"),
        (["--augment", "21"], "'21' is not allowed; give a whole number from 0 to 20"),
        (["--seed", "-1"], "'-1' is not allowed; give a whole number from 0 to 4294967295"),
        (["--machine", "toaster"], "'toaster' is not allowed; give one of 'host', 'cuda'"),
        (["--library", "jax"], "'jax' is not allowed; give one of 'torch', 'cupy'"),
        (["--colour"], f"unrecognized arguments: --colour; {OPTIONS}"),
        (["extra"], f"unrecognized arguments: extra; {OPTIONS}"),
        (["--tile"], f"argument --tile: expected one argument; {OPTIONS}"),
        (["--out", ""], "argument --out: '' is not allowed; give the name of a folder"),
        (["--out", "/proc/none"], "give a folder that can be written to"),
    ],
)
def test_bad_options_get_one_line_and_exit_code_2(arguments, text, capsys):
    with pytest.raises(SystemExit) as stopped:
        options.parse(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("digits: ")
    assert text in said


def test_defaults_run_everything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chosen = options.parse([])
    assert (chosen.machine, chosen.devices, chosen.samples, chosen.augment) == (
        "host",
        None,
        1797,
        0,
    )
    assert chosen.trace
    assert chosen.sequential
    assert chosen.reference
    assert chosen.out.is_dir()


def test_memory_is_that_of_the_lower_tiles_on_their_holders():
    assert memory.tiles_bytes(1000, 100, BlockCyclic(1)) == 8 * 1000 * 1100 // 2
    assert memory.tiles_bytes(1000, 100, BlockCyclic(4)) == 3 * 8 * 1000 * 1100 // 2


def test_progress_is_plain_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    with progress.Progress("work", 4, stream) as shown:
        for _ in range(4):
            shown.done()
    assert stream.getvalue() == "work: 100 %\n"


def test_progress_of_a_run_that_fails_ends_with_it():
    shown = progress.Progress("work", 4, io.StringIO())
    with pytest.raises(KeyError), shown:
        raise KeyError
    assert not shown._thread.is_alive()


def one_line_of(action, capsys):
    with pytest.raises(SystemExit) as stopped:
        action()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_gpu_machine_without_a_library_says_what_to_install(tmp_path, monkeypatch, capsys):
    for name in ("torch", "cupy", "kernels_torch", "kernels_cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    chosen = options.parse(["--machine", "cuda", "--out", str(tmp_path)])
    said = one_line_of(lambda: options.kernels(chosen), capsys)
    assert "machine 'cuda' needs PyTorch or CuPy with a GPU" in said
    assert "pip install torch" in said


def test_library_of_a_gpu_is_none_of_the_host_machine(tmp_path, capsys):
    chosen = options.parse(["--library", "torch", "--out", str(tmp_path)])
    said = one_line_of(lambda: options.kernels(chosen), capsys)
    assert "--library is for --machine cuda" in said


def test_first_library_that_can_be_used_is(tmp_path, monkeypatch):
    blind = SimpleNamespace(missing=lambda: "PyTorch finds no GPU")
    sees = SimpleNamespace(missing=lambda: None)
    monkeypatch.setitem(sys.modules, "kernels_torch", blind)
    monkeypatch.setitem(sys.modules, "kernels_cupy", sees)
    assert options.kernels(options.parse(["--machine", "cuda", "--out", str(tmp_path)])) is sees


def test_machine_that_cannot_be_opened_is_one_line(capsys):
    stf = pytest.importorskip("millstream")
    pytest.importorskip("millstream._core")
    import main

    chosen = SimpleNamespace(machine="null", devices=10_000)
    said = one_line_of(lambda: main.open_machine(stf, chosen), capsys)
    assert said.startswith("digits: ")


def test_missing_package_is_one_line(monkeypatch, capsys):
    import main

    monkeypatch.setitem(sys.modules, "millstream", None)
    with pytest.raises(SystemExit) as stopped:
        main.import_millstream()
    assert stopped.value.code == 2
    assert "run 'pip install .'" in capsys.readouterr().err
