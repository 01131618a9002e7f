# SPDX-License-Identifier: Apache-2.0
import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from millstream.viz import Graph, dot

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg_text, kind):
    """How many elements of a class the picture has."""
    root = ElementTree.fromstring(svg_text)
    return sum(kind in each.get("class", "").split() for each in root.iter())


def test_nodes_are_the_tasks_in_order_of_submission(diamond):
    graph = Graph(diamond)
    assert [node.name for node in graph.nodes] == ["first", "left", "right", "last"]
    assert [node.kind for node in graph.nodes] == ["submit"] * 4


def test_nodes_know_the_users_line(diamond):
    left = Graph(diamond).node("left")
    assert (left.file, left.line, left.site) == ("/home/user/flow.py", 11, "flow.py:11")


def test_edges_name_their_ends_and_the_datum(diamond):
    assert Graph(diamond).edges == [
        (1, 2, 1, "x"),
        (1, 4, 1, "x"),
        (2, 5, 2, "a"),
        (4, 5, 3, "b"),
    ]


def test_copies_are_kept_apart_from_tasks(diamond):
    (copy,) = Graph(diamond).copies
    assert (copy.label, copy.source, copy.place, copy.bytes, copy.task) == ("copy x", 0, 1, 2048, 4)


def test_unnamed_tasks_and_data_are_called_by_number(recorder):
    recorder.task("", writes=[""], kind="host_launch", place=-1)
    recorder.task("", reads=[""])
    graph = Graph(recorder.snapshot())
    assert [node.label for node in graph.nodes] == ["host_launch 1", "submit 2"]
    assert graph.edges[0].name == "data 1"
    assert graph.nodes[0].place_name == "host"


def test_dict_and_json_carry_everything(diamond):
    graph = Graph(diamond)
    content = json.loads(graph.to_json())
    assert content == graph.to_dict()
    assert [node["label"] for node in content["nodes"]] == ["first", "left", "right", "last"]
    assert content["edges"][0] == {"from": 1, "to": 2, "data": 1, "name": "x"}
    assert content["copies"][0]["from"] == 0
    assert content["data"][0] == {"id": 1, "name": "x", "bytes": 8}
    assert content["machine"] == {"name": "host", "device_count": 2}


def test_dot_text_is_exact(recorder):
    recorder.task("a", writes=["x"])
    recorder.task('say "b"', reads=["x"], place=1, line=12, how="skipped")
    assert Graph(recorder.snapshot()).to_dot().splitlines()[4:] == [
        r'  n1 [label="a\ndevice 0  flow.py:10", '
        r'tooltip="a (id 1, submit)\ndevice 0\n/home/user/flow.py:10\nwrite x", '
        r'fillcolor="#a6cee3", color="#333333"];',
        r'  n2 [label="say \"b\"\ndevice 1  flow.py:12", '
        r'tooltip="say \"b\" (id 2, submit)\ndevice 1\n/home/user/flow.py:12\nread x\nskipped", '
        r'fillcolor="#ffffff", color="#333333"];',
        r'  n1 -> n2 [label="x"];',
        r"}",
    ]


def test_why_gives_the_shortest_chain_of_edges(diamond):
    graph = Graph(diamond)
    assert [edge.name for edge in graph.why("first", "last")] == ["x", "a"]
    assert graph.why(1, 2) == [(1, 2, 1, "x")]


def test_why_is_empty_for_tasks_that_may_overlap(diamond):
    graph = Graph(diamond)
    assert graph.why("left", "right") == []
    assert graph.why("last", "first") == []
    assert graph.why("left", "left") == []


def test_unknown_and_ambiguous_tasks_are_refused(recorder):
    recorder.task("twin")
    recorder.task("twin")
    graph = Graph(recorder.snapshot())
    with pytest.raises(LookupError, match="2 tasks are called 'twin'; give an id: 1, 2"):
        graph.node("twin")
    with pytest.raises(LookupError, match="no task 'nobody'"):
        graph.why("nobody", 1)


@pytest.mark.parametrize("engine", ["builtin", "dot"])
def test_svg_is_well_formed_and_draws_every_node_and_edge(diamond, engine):
    if engine == "dot" and not dot.is_installed():
        pytest.skip("graphviz is not installed")
    picture = Graph(diamond).to_svg(engine=engine)
    assert drawn(picture, "node") == 4
    assert drawn(picture, "edge") == 4


def test_svg_needs_no_graphviz(diamond, monkeypatch):
    monkeypatch.setattr(dot.shutil, "which", lambda name: None)
    graph = Graph(diamond)
    assert graph.to_svg() == graph.to_svg(engine="builtin")
    with pytest.raises(RuntimeError, match="install graphviz or give engine='builtin'"):
        graph.to_svg(engine="dot")


def test_unknown_engine_is_refused(diamond):
    with pytest.raises(ValueError, match="'neato' draws no graph"):
        Graph(diamond).to_svg(engine="neato")


def test_markup_in_names_is_shown_as_text(recorder):
    recorder.task("<b>&\"'", writes=["</svg>"])
    recorder.task("next", reads=["</svg>"])
    root = ElementTree.fromstring(Graph(recorder.snapshot()).to_svg(engine="builtin"))
    assert "<b>&\"'" in [text.text for text in root.iter(f"{SVG}text")]


def test_empty_graph_is_a_picture_too(recorder):
    graph = Graph(recorder.snapshot())
    assert drawn(graph.to_svg(engine="builtin"), "node") == 0
    assert graph.to_dot().endswith("}\n")
    assert repr(graph) == "<millstream graph: 0 tasks, 0 edges>"


def test_above_the_limit_equal_tasks_of_one_depth_share_a_box(recorder):
    for column in range(6):
        recorder.task("load", writes=[f"x{column}"])
        recorder.task("use", reads=[f"x{column}"], writes=[f"y{column}"])
    graph = Graph(recorder.snapshot())
    picture = graph.to_svg(engine="builtin", limit=11)
    assert drawn(picture, "node") == 2
    assert drawn(picture, "edge") == 1
    assert "load x 6" in picture
    assert "12 tasks and 6 edges: tasks of the same name and depth are drawn as one box" in picture
    assert drawn(graph.to_svg(engine="builtin", limit=12), "node") == 12


def test_far_above_the_limit_all_tasks_of_one_name_share_a_box(recorder):
    for step in range(30):
        recorder.task("odd" if step % 2 else "even", reads=["x"], writes=["x"])
    text = Graph(recorder.snapshot()).to_dot(limit=10)
    assert "all tasks of the same name are drawn as one box" in text
    assert text.count(" -> ") == 2  # a cycle of two, as the program has it
    assert "even x 15" in text


def test_a_summary_with_a_cycle_is_drawn_by_the_built_in_layout(recorder):
    for step in range(30):
        recorder.task("odd" if step % 2 else "even", reads=["x"], writes=["x"])
    picture = Graph(recorder.snapshot()).to_svg(engine="builtin", limit=10)
    assert (drawn(picture, "node"), drawn(picture, "edge")) == (2, 2)


class Links(HTMLParser):
    """What a page would fetch."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [v for k, v in attrs if k in ("src", "href", "xlink:href") and v]


@pytest.mark.parametrize("installed", [True, False])
def test_html_page_stands_alone(diamond, monkeypatch, installed):
    if not installed:
        monkeypatch.setattr(dot.shutil, "which", lambda name: None)
    text = Graph(diamond).to_html()
    links = Links()
    links.feed(text)
    assert links.found == []
    assert "{{" not in text
    assert text.count("<svg") == 1
    assert "4 tasks, 4 edges" in text


@pytest.mark.parametrize(
    ("suffix", "start"),
    [
        (".svg", "<"),
        (".html", "<!DOCTYPE html>"),
        (".dot", "digraph"),
        (".gv", "digraph"),
        (".json", "{"),
    ],
)
def test_save_writes_what_the_suffix_says(diamond, tmp_path, suffix, start):
    path = tmp_path / f"flow{suffix}"
    assert Graph(diamond).save(path) == str(path)
    assert path.read_text().startswith(start)


def test_save_refuses_other_suffixes(diamond, tmp_path):
    with pytest.raises(ValueError, match=r"give a name that ends in '\.svg', '\.html', '\.dot'"):
        Graph(diamond).save(tmp_path / "flow.bmp")
    assert list(tmp_path.iterdir()) == []


def test_notebooks_get_a_picture(diamond):
    graph = Graph(diamond)
    assert graph._repr_svg_() == graph.to_svg()
    assert set(graph._repr_mimebundle_()) == {"image/svg+xml", "text/plain"}
