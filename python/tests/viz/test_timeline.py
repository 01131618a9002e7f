# SPDX-License-Identifier: Apache-2.0
import json
import re

import pytest
from millstream.viz import Trace


def events(trace, phase):
    return [event for event in trace.to_dict()["traceEvents"] if event["ph"] == phase]


def test_records_count_from_the_first_begin(diamond):
    first, left, right, last = Trace(diamond).tasks
    assert (first.begin, first.duration, first.waited) == (0.0, 1e-05, 6e-06)
    assert (left.begin, left.duration) == (1e-05, 3e-05)
    assert (right.place, right.queue) == ("device 1", 2)
    assert (last.outcome, last.site) == ("failed", "flow.py:10")


def test_records_of_copies_have_bytes(diamond):
    (copy,) = Trace(diamond).copies
    assert (copy.name, copy.kind, copy.bytes, copy.duration) == ("copy x", "copy", 2048, 3e-06)


def test_tasks_that_did_not_run_have_no_begin(recorder):
    recorder.task("late", how="skipped")
    trace = Trace(recorder.snapshot())
    assert trace.tasks[0].begin is None
    assert trace.span == 0.0
    assert events(trace, "X") == []


def test_summary_adds_up_names_queues_and_routes(diamond):
    total = Trace(diamond).summary()
    assert total["span"] == 5e-05
    assert list(total["names"]) == ["left", "right", "first", "last"]
    assert total["names"]["left"] == {"count": 1, "total": 3e-05, "mean": 3e-05, "longest": 3e-05}
    assert total["queues"]["device 0, queue 1"] == {"count": 3, "busy": 5e-05, "share": 1.0}
    assert total["queues"]["device 1, queue 2"]["share"] == 0.4
    assert total["copies"] == {"device 0 to device 1": {"count": 1, "bytes": 2048}}


def test_text_shows_the_sums(diamond):
    text = str(Trace(diamond))
    assert text.startswith("millstream trace: 4 tasks and 1 copies (2.0 KiB) in 50 us\n")
    assert re.search(r"left +1 +30 us +30 us +30 us", text)
    assert re.search(r"device 0 to device 1 +1 +2.0 KiB copied", text)


def test_perfetto_names_places_and_queues(diamond):
    names = [e["args"]["name"] for e in events(Trace(diamond), "M") if "name" in e["args"]]
    assert names == ["device 0", "device 1", "queue 1", "queue 2", "queue 9"]


def test_perfetto_slices_have_times_in_microseconds(diamond):
    slices = {e["name"]: e for e in events(Trace(diamond), "X")}
    assert list(slices) == ["first", "left", "right", "last", "copy x"]
    assert (slices["right"]["ts"], slices["right"]["dur"]) == (15.0, 20.0)
    assert slices["right"]["pid"] == slices["copy x"]["pid"] != slices["left"]["pid"]
    assert slices["right"]["tid"] != slices["copy x"]["tid"]
    assert slices["left"]["args"] == {
        "id": 2, "outcome": "done", "kind": "submit", "site": "flow.py:11",
        "data": "read x, write a", "waited_us": 20.0,
    }  # fmt: skip
    assert slices["copy x"]["args"]["bytes"] == 2048


def test_perfetto_flows_pair_up_and_hang_on_their_slices(diamond):
    trace = Trace(diamond)
    starts, ends = events(trace, "s"), events(trace, "f")
    assert [e["id"] for e in starts] == [e["id"] for e in ends] == [1, 2, 3, 4, 5]
    assert [e["name"] for e in starts] == ["x", "x", "a", "b", "x"]
    assert [e["cat"] for e in starts] == ["dependency"] * 4 + ["copy"]
    assert all(e["bp"] == "e" for e in ends)
    slices = events(trace, "X")
    for event in starts + ends:
        home = [s for s in slices if (s["pid"], s["tid"]) == (event["pid"], event["tid"])]
        assert any(s["ts"] <= event["ts"] < s["ts"] + s["dur"] for s in home)


def test_perfetto_counts_bytes_copied_to_a_place(recorder):
    recorder.copy("x", began=10, ended=20, place=1, bytes=100)
    recorder.copy("y", began=20, ended=40, place=1, bytes=50)
    found = events(Trace(recorder.snapshot()), "C")
    assert [(e["ts"], e["args"]["bytes"]) for e in found] == [(0.01, 100), (0.03, 150)]


def test_overlapping_slices_of_one_queue_get_lanes_of_their_own(recorder):
    recorder.task("long", began=10, ended=50)
    recorder.task("inside", began=20, ended=30)
    recorder.task("after", began=30, ended=40)
    threads = {e["name"]: e["tid"] for e in events(Trace(recorder.snapshot()), "X")}
    assert threads == {"long": 1, "inside": 2, "after": 2}


def test_copies_lie_in_the_row_of_the_queue_they_ran_in(recorder):
    recorder.task("make", began=10, ended=20, place=1, queue=5)
    recorder.copy("x", began=20, ended=30, place=-1, queue=5, **{"from": 1})
    trace = Trace(recorder.snapshot())
    assert list(trace.summary()["queues"]) == ["device 1, queue 5"]
    assert len({(e["pid"], e["tid"]) for e in events(trace, "X")}) == 1


def test_json_is_compact_and_loads(diamond):
    trace = Trace(diamond)
    assert json.loads(trace.to_json()) == trace.to_dict()
    assert trace.to_dict()["displayTimeUnit"] == "ms"
    assert trace.to_dict()["otherData"] == {
        "name": "host", "device_count": 2, "arrows_left_out": 0,
    }  # fmt: skip


def page_data(text):
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    return json.loads(found)


def test_html_page_stands_alone_and_holds_the_slices(diamond):
    text = Trace(diamond).to_html()
    assert re.findall(r"(?:src|href)\s*=|https?://|import\s*\(|fetch\s*\(", text) == []
    data = page_data(text)
    assert data["tracks"] == ["device 0, queue 1", "device 1, queue 2", "device 1, queue 9"]
    assert data["slices"][0] == [0, 0, 10000, 1, "first", "flow.py:10  write x", "done"]
    assert data["slices"][4][4:6] == ["copy", "copy x: 2.0 KiB, device 0 to device 1 (coherence)"]
    assert data["arrows"] == [[0, 1, "x"], [0, 2, "x"], [1, 3, "a"], [2, 3, "b"], [4, 2, "x"]]
    assert data["span"] == 50000


def test_names_cannot_break_out_of_the_page(recorder):
    recorder.task("</script><script>alert(1)</script>", began=1, ended=2)
    text = Trace(recorder.snapshot()).to_html()
    assert page_data(text)["slices"][0][4] == "</script><script>alert(1)</script>"
    assert text.count("</script>") == 2


@pytest.mark.parametrize(
    ("suffix", "start"),
    [(".json", '{"traceEvents"'), (".html", "<!DOCTYPE html>"), (".txt", "millstream trace")],
)
def test_save_writes_what_the_suffix_says(diamond, tmp_path, suffix, start):
    path = tmp_path / f"run{suffix}"
    assert Trace(diamond).save(path) == str(path)
    assert path.read_text().startswith(start)


def test_save_refuses_other_suffixes(diamond, tmp_path):
    with pytest.raises(ValueError, match=r"cannot be saved as .*'\.json', '\.html', '\.txt'"):
        Trace(diamond).save(tmp_path / "run.pdf")


def test_notebooks_get_the_page_in_a_frame(diamond):
    bundle = Trace(diamond)._repr_mimebundle_()
    assert bundle["text/html"].startswith("<iframe srcdoc=")
    assert bundle["text/html"].count("<") == 2  # the page itself is quoted
    assert bundle["text/plain"] == str(Trace(diamond))


def test_an_empty_trace_is_no_error(recorder):
    trace = Trace(recorder.snapshot())
    assert trace.summary()["names"] == {}
    assert page_data(trace.to_html())["slices"] == []
    assert repr(trace) == "<millstream trace: 0 tasks and 0 copies (0 B) in 0 ns>"
