# SPDX-License-Identifier: Apache-2.0
"""The whole job on the host machine, small."""

import json
import xml.etree.ElementTree as ElementTree

import main
import pytest
from flow import count_tasks
from PIL import Image

pytest.importorskip("millstream._core")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    arguments = ["--samples", "300", "--devices", "2", "--tile", "64", "--seed", "3"]
    assert main.main([*arguments, "--out", str(folder)]) == 0
    return folder, json.loads((folder / "report.json").read_text())


def test_predictions_are_good_and_weights_are_those_of_scipy(run):
    _, facts = run
    assert facts["held_out"] == 75
    assert facts["accuracy"] >= 0.9
    assert facts["difference"] <= 1e-8


def test_counts_are_those_of_the_flow(run):
    _, facts = run
    assert facts["tasks"] == count_tasks(225, 75, 64)
    assert facts["edges"] > facts["tasks"]
    assert facts["copies"] > 0
    assert facts["copied_bytes"] > 0


def test_graph_is_well_formed_and_complete(run):
    folder, facts = run
    root = ElementTree.parse(folder / "dag.svg").getroot()
    nodes = [each for each in root.iter() if "node" in each.get("class", "").split()]
    assert len(nodes) == facts["tasks"]


def test_timeline_has_every_task_on_both_devices(run):
    folder, facts = run
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    tasks = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]
    assert len(tasks) == facts["tasks"]
    assert len({e["pid"] for e in tasks}) == 2
    assert (folder / "timeline.html").read_text().startswith("<!DOCTYPE html>")


def test_sheet_of_digits_is_a_picture(run):
    folder, _ = run
    with Image.open(folder / "digits.png") as sheet:
        assert sheet.size == (816, 408)


def test_job_without_extras_leaves_them_out(tmp_path, capsys):
    arguments = ["--samples", "60", "--augment", "1"]
    arguments += ["--no-trace", "--no-sequential", "--no-reference"]
    assert main.main([*arguments, "--out", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"report.json", "digits.png"}
    said = capsys.readouterr().out
    assert "not traced" in said
    assert "not compared" in said
    assert "not computed, as asked; residual" in said
