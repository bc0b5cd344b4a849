"""Graphs of networkx as models: edges as actions or probabilities, what attributes mean, files, and every refusal."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.cli.commands import veil as command
from tests.seeds import looped
from veil.common.errors import InputError, ModelFileError
from veil.formats.registry import read_model

networkx = pytest.importorskip("networkx")


def rows(model: veil.Model) -> dict[tuple[str, str], dict[str, float]]:
    """The next states of each available pair of a state and an action."""
    found = {}
    for s, a in np.argwhere(model.available).tolist():
        row = model.matrices[a].toarray()[s]
        found[model.states[s], model.actions[a]] = {model.states[t]: float(row[t]) for t in np.flatnonzero(row)}
    return found


def campus() -> Any:
    """Three places: two ways lead from the gate, one of them with chance; the vault is where it ends."""
    graph = networkx.DiGraph(false_alarm=0.1)
    graph.add_node("gate", start=True, sensor="north", detection=0.9, floor=1)
    graph.add_node("yard", reward=0.5, sensor="north+south", detection=0.8, floor=1)
    graph.add_node("vault", secret=True, terminal_reward=2.0, floor=2)
    graph.add_edge("gate", "yard", action="walk", probability=0.75, reward=1.0)
    graph.add_edge("gate", "gate", action="walk", probability=0.25)
    graph.add_edge("gate", "vault")
    graph.add_edge("yard", "gate", action="walk", weight=3)
    graph.add_edge("yard", "vault", action="walk", weight=1)
    return graph


def check_campus(found: veil.Imported) -> None:
    assert rows(found.model) == {
        ("gate", "walk"): {"gate": 0.25, "yard": 0.75},
        ("gate", "to vault"): {"vault": 1.0},
        ("yard", "walk"): {"gate": 0.75, "vault": 0.25},
        ("vault", "stay"): {"vault": 1.0},
    }
    model = found.model
    paid = {pair: model.rewards[model.states.find(pair[0]), model.actions.find(pair[1])] for pair in rows(model)}
    assert paid == {("gate", "walk"): 0.75, ("gate", "to vault"): 0, ("yard", "walk"): 0.5, ("vault", "stay"): 0}
    assert model.terminal_rewards.tolist() == [0, 0, 2]
    assert model.initial.tolist() == [1, 0, 0]
    assert found.secret == veil.LastState(["vault"])
    assert found.states_where("floor=2") == (2,)
    observer = found.observer
    assert observer is not None
    north = [o for o, name in enumerate(observer.observations) if "north" in name]
    south = [o for o, name in enumerate(observer.observations) if "south" in name]
    assert observer.emissions[:, north].sum(axis=1) == pytest.approx([0.9, 0.8, 0.1])
    assert observer.emissions[:, south].sum(axis=1) == pytest.approx([0.1, 0.8, 0.1])


def test_attributes_of_a_graph_mean_actions_rewards_sensors_and_a_secret():
    found = veil.from_graph(campus())
    check_campus(found)
    assert veil.opacity(found.problem(horizon=2), veil.MarkovPolicy.uniform(found.problem(horizon=2))).bits > 0


def test_files_of_networkx_mean_the_same(tmp_path: Path):
    networkx.write_graphml(campus(), tmp_path / "campus.graphml")
    check_campus(read_model(tmp_path / "campus.graphml"))
    for key in ("edges", "links"):
        (tmp_path / "campus.json").write_text(json.dumps(networkx.node_link_data(campus(), edges=key)))
        check_campus(read_model(tmp_path / "campus.json"))


def test_convert_makes_a_scenario_of_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("campus.json").write_text(json.dumps(networkx.node_link_data(campus(), edges="links")))
    done = command("convert", "campus.json", "campus.toml", "--set", "secret=floor=2", "--set", "horizon=4")
    assert done.code == 0, done.err
    assert veil.load("campus.toml") == veil.from_graph(campus()).problem("floor=2", 4, name="campus")
    assert command("convert", "campus.toml", "policy.csv").code == 2
    assert command("inspect", "campus.json").code == 0


def test_edges_are_actions_or_probabilities():
    graph = networkx.DiGraph([("a", "b"), ("a", "c"), ("b", "a")])
    chosen = veil.from_graph(graph).model
    assert rows(chosen) == {
        ("a", "to b"): {"b": 1.0},
        ("a", "to c"): {"c": 1.0},
        ("b", "to a"): {"a": 1.0},
        ("c", "stay"): {"c": 1.0},
    }
    drawn = veil.from_graph(graph, edges="probabilities")
    assert rows(drawn.model)["a", "step"] == {"b": 0.5, "c": 0.5}
    both = veil.from_graph(networkx.Graph([("a", "b"), ("b", "b")])).model
    assert rows(both) == {("a", "to b"): {"b": 1.0}, ("b", "to a"): {"a": 1.0}, ("b", "to b"): {"b": 1.0}}
    doors = networkx.MultiDiGraph()
    doors.add_edge(1, 2, action="run", weight=2)
    doors.add_edge(1, 2, action="walk")
    doors.add_edge(1, 1, action="run", weight=2)
    assert rows(veil.from_graph(doors).model)["1", "run"] == {"2": 0.5, "1": 0.5}


def test_a_large_graph_has_as_many_actions_as_edges_leave_a_node():
    graph = networkx.random_regular_graph(4, 1000, seed=1)
    found = veil.from_graph(graph)
    assert found.model.num_actions == 4
    reached = {(s, t) for matrix in found.model.matrices for s, t in zip(*matrix.nonzero(), strict=True)}
    names = [int(name) for name in found.model.states]
    assert {(names[s], names[t]) for s, t in reached} == set(graph.to_directed().edges)


def test_what_is_observed_can_be_named_instead_of_sensed():
    graph = networkx.DiGraph([("a", "b"), ("b", "a")])
    networkx.set_node_attributes(graph, {"a": "low", "b": "high"}, "observation")
    networkx.set_node_attributes(graph, {"a": "left", "b": "right"}, "secret")
    found = veil.from_graph(graph)
    assert found.observer is not None
    assert found.observer.emissions.tolist() == [[1, 0], [0, 1]]
    assert found.problem(horizon=1).secret_values == ("left", "right")


def with_edge(**data: Any) -> Any:
    graph = networkx.DiGraph([("a", "b"), ("b", "a")])
    graph.edges["a", "b"].update(data)
    return graph


def with_node(**data: Any) -> Any:
    graph = networkx.DiGraph([("a", "b"), ("b", "a")])
    graph.nodes["a"].update(data)
    return graph


WRONG = [
    (with_edge(probability=0.5), "action 'to b' of node 'a': the probabilities sum to 0.5, expected 1"),
    (with_edge(weight=-1), "an edge has the weight -1"),
    (with_edge(weight=0), "the weights sum to 0"),
    (with_edge(reward="much"), "has the reward 'much', no number"),
    (with_node(reward=float("nan")), "node 'a' has the reward nan"),
    (with_node(start="here"), "node 'a' has the start 'here'"),
    (with_node(sensor="n", detection=2), "node 'a' has the detection 2"),
    (with_node(sensor="0"), "a sensor has the name '0'"),
    (networkx.DiGraph([(1, 2), ("1", 2)]), "two nodes are written '1'"),
    (networkx.DiGraph(), "it has no nodes"),
    ([(1, 2)], "it is a list, expected a graph of networkx"),
]


@looped(("graph", "words"), WRONG)
def test_a_graph_that_makes_no_sense_is_refused(graph: Any, words: str):
    with pytest.raises(InputError, match=words):
        veil.from_graph(graph)


BAD_FILES = [
    ("g.graphml", "<graphml"),
    ("g.graphml", "<a/>"),
    ("g.json", '{"nodes": 3, "links": []}'),
    ("g.json", '{"nodes": [{"id": 1}], "links": [{"source": 5}]}'),
    ("g.json", '{"nodes": [{"id": {}}], "links": []}'),
    (
        "g.graphml",
        '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
        + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12)).replace("&a0;", "&a;")
        + "]><graphml>&a11;</graphml>",
    ),
]


@looped(("name", "text"), BAD_FILES)
def test_a_damaged_file_is_refused(name: str, text: str, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("graph") / name
    path.write_text(text)
    with pytest.raises((ModelFileError, InputError), match=r"g\.|graph"):
        read_model(path)
