"""Policies as text: every kind comes back bit for bit, by hand too, and what is wrong is refused with its place."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.formats.policies import policies, watched
from tests.seeds import looped
from veil.common.errors import InputError, PolicyFileError, VeilError
from veil.engine.compile import build
from veil.formats.policies.text import policy_document, policy_to_csv, policy_to_json
from veil.game.pairs import make_pairs
from veil.game.public_graph import FullHistory
from veil.game.solve import solve_game

WRITERS = {"json": policy_to_json, "csv": policy_to_csv}


def history(horizon: int = 3, told_at: int | None = None) -> tuple[veil.Problem, veil.HistoryPolicy]:
    problem = watched(horizon=horizon)
    pairs = None if told_at is None else make_pairs(build(problem), FullHistory(), told_at=told_at)
    return problem, solve_game(problem, gap=0.2, pairs=pairs).policy()


def comes_back(problem: veil.Problem, policy: Any, folder: Path) -> None:
    """The policy read from both formats, with the problem and without it, has the same content."""
    for suffix, write in WRITERS.items():
        path = folder / f"policy.{suffix}"
        write(path, problem, policy)
        for found in (veil.load_policy(path), veil.load_policy(path, problem)):
            assert type(found) is type(policy)
            assert found.digest() == policy.digest()
            again = folder / f"again.{suffix}"
            write(again, problem, found)
            assert again.read_bytes() == path.read_bytes()


@looped(("horizon", "told_at"), [(1, None), (3, None), (3, 1)])
def test_history_policies_come_back(horizon: int, told_at: int | None, tmp_path: Path):
    problem, policy = history(horizon, told_at)
    assert (policy.told is None) == (told_at is None)
    comes_back(problem, policy, tmp_path)


def test_a_history_policy_that_sees_actions_comes_back(tmp_path: Path):
    first = watched(horizon=2)
    shown = veil.Observer(first.observer.emissions, ["seen", "not"], sees_actions=True, sees_initial=False)
    problem = veil.Problem(first.models, shown, first.secret, 2, agent_sees="state+observations")
    comes_back(problem, solve_game(problem, gap=0.2).policy(), tmp_path)


def test_a_policy_without_decisions_comes_back(tmp_path: Path):
    problem = watched(horizon=0)
    comes_back(problem, veil.TimedPolicy.uniform(problem), tmp_path)


def test_numbers_at_the_ends_of_the_range(tmp_path: Path):
    problem = watched()
    tiny = [5e-324, 1e-300, np.nextafter(1, 0) - 1e-300, 0.1 + 0.2]
    for value in tiny:
        comes_back(problem, veil.MarkovPolicy([[value, 1 - value]] * problem.num_cells), tmp_path)


@looped("kind", ["markov", "timed", "memory"])
def test_every_number_is_in_both_files(kind: str, tmp_path: Path):
    problem = watched()
    policy = policies(problem)[kind]
    policy_to_json(tmp_path / "p.json", problem, policy)
    document = json.loads((tmp_path / "p.json").read_text("utf-8"))
    assert document == policy_document(problem, policy)
    assert (document["kind"], document["horizon"]) == (kind, 3)
    found = [
        [[row["probabilities"].get(action, 0.0) for action in document["actions"]] for row in table["rows"]]
        for table in document["tables"]
    ]
    assert np.array_equal(np.array(found), policy.table)
    times = [table["time"] for table in document["tables"]]
    assert times == ([0, 1, 2] if policy.timed else [None])
    policy_to_csv(tmp_path / "p.csv", problem, policy)
    comment, *lines = (tmp_path / "p.csv").read_text("utf-8").splitlines()
    assert json.loads(comment.removeprefix("#")) == {
        key: document[key] for key in document if key not in ("tables", "player")
    }
    entries = {(r["time"], r["row"], r["action"]): float(r["probability"]) for r in csv.DictReader(lines)}
    for time, table in zip(times, document["tables"], strict=True):
        for row in table["rows"]:
            for action, probability in row["probabilities"].items():
                assert entries.pop(("" if time is None else str(time), row["row"], action)) == probability
    assert not entries


def test_a_history_policy_can_be_followed_by_its_document(tmp_path: Path):
    problem, policy = history(2)
    policy_to_json(tmp_path / "p.json", problem, policy)
    document = json.loads((tmp_path / "p.json").read_text("utf-8"))
    steps = {(step["time"], step["from"], step["event"]): step["to"] for step in document["graph"]}
    rows = [{row["row"]: row["probabilities"] for row in table["rows"]} for table in document["tables"]]
    model, shown = problem.model, problem.observer
    start = model.states[int(np.argmax(model.initial))]
    seen = shown.observations[int(np.argmax(shown.emissions[int(np.argmax(model.initial))]))]
    node = steps[0, None, seen]
    told = rows[0][f"node {node}: {start}"]
    assert sum(told.values()) == pytest.approx(1)
    draws = [policy.start(problem, seed).act(start, seen) for seed in range(400)]
    for action, probability in told.items():
        share = np.mean(np.array(draws) == model.actions.find(action))
        assert share == pytest.approx(probability, abs=0.1)
    policy_to_csv(tmp_path / "p.csv", problem, policy)
    assert len((tmp_path / "p.csv").read_text("utf-8").splitlines()) == 2 + sum(
        len(p) for r in rows for p in r.values()
    )


def test_a_policy_of_another_problem_is_refused(tmp_path: Path):
    problem = watched()
    with pytest.raises(InputError, match="its table"):
        policy_to_json(tmp_path / "p.json", problem, veil.MarkovPolicy(np.ones((9, 1))))
    assert not list(tmp_path.iterdir())
    with pytest.raises(PolicyFileError, match="cannot be written"):
        policy_to_csv(tmp_path / "missing" / "p.csv", problem, policies(problem)["markov"])
    with pytest.raises(InputError, match="decisions"):
        policy_document(watched(horizon=1), history(2)[1])


def rooms() -> veil.Problem:
    """Two rooms with names, in which one stays or goes."""
    stay, go = np.eye(2), np.eye(2)[::-1]
    model = veil.Model(
        np.stack([stay, go], axis=1), [0, 1], [1, 0], state_names=["hall", "vault"], action_names=["stay", "go"]
    )
    return veil.Problem(model, veil.Observer(np.full((2, 2), 0.5)), veil.LastState([1]), 2)


def test_a_policy_written_by_hand(tmp_path: Path):
    path = tmp_path / "mine.csv"
    path.write_text("action,row,time,probability\ngo,vault,,1\nstay,hall,,0.25\n\ngo,hall,,.75\n", encoding="utf-8")
    found = veil.load_policy(path, rooms())
    assert isinstance(found, veil.MarkovPolicy)
    assert found.probabilities.tolist() == [[0.25, 0.75], [0.0, 1.0]]
    lines = ["time,row,action,probability", *(f"{t},{s},stay,1" for t in (1, 0) for s in ("vault", "hall"))]
    path.write_text("\n".join(lines), encoding="utf-8")
    found = veil.load_policy(path, rooms())
    assert isinstance(found, veil.TimedPolicy)
    assert found.probabilities.tolist() == [[[1, 0], [1, 0]]] * 2
    with pytest.raises(PolicyFileError, match=r"no header.*give the problem"):
        veil.load_policy(path)


def test_rows_and_actions_are_found_by_name(tmp_path: Path):
    problem, policy = rooms(), veil.MarkovPolicy([[0.25, 0.75], [0.5, 0.5]])
    turned = veil.Model(
        problem.model.transitions[::-1, ::-1, ::-1],
        [1, 0],
        [0, 1],
        state_names=["vault", "hall"],
        action_names=["go", "stay"],
    )
    for suffix, write in WRITERS.items():
        write(tmp_path / f"p.{suffix}", problem, policy)
        found = veil.load_policy(tmp_path / f"p.{suffix}", problem.replace(model=turned))
        assert isinstance(found, veil.MarkovPolicy)
        assert found.probabilities.tolist() == [[0.5, 0.5], [0.75, 0.25]]


HEAD = '# {"format": "veil-policy-table-2", "problem": "p", "kind": "markov", "horizon": 2, "actions": ["stay", "go"], "rows": ["hall", "vault"]}\n'  # noqa: E501
COLUMNS = "time,row,action,probability\n"
GOOD = ",hall,stay,1\n,vault,go,1\n"
WRONG_CSV = {
    "other columns": ("time,row,action,chance\n" + GOOD, "line 1: columns 'time, row, action, chance' found"),
    "no number": (HEAD + COLUMNS + ",hall,stay,much\n", "line 3: 'much' found, expected a probability"),
    "too few cells": (HEAD + COLUMNS + GOOD + ",hall,1\n", "line 5: 3 cells found, expected 4"),
    "a time in a Markov policy": (HEAD + COLUMNS + "0,hall,stay,1\n", "line 3: time 0 found, expected none"),
    "an entry twice": (HEAD + COLUMNS + ",hall,stay,1\n,hall,stay,1\n", "line 4: action 'stay' of row 'hall' is given"),
    "unknown row": (HEAD + COLUMNS + GOOD + ",valut,go,1\n", "line 5: unknown row 'valut': did you mean 'vault'?"),
    "a row is missing": (HEAD + COLUMNS + ",hall,stay,1\n", "row 'vault' is missing"),
    "a row that does not sum": (HEAD + COLUMNS + GOOD.replace("y,1", "y,0.9"), "line 3: row 'hall' sums to 0.9"),
    "a quote that is not closed": (
        HEAD + COLUMNS + ',"hall,stay,1\n',
        "line 3: not a CSV file: unexpected end of data",
    ),
    "another format": (HEAD.replace("-2", "-1") + COLUMNS + GOOD, "its format is 'veil-policy-table-1', expected"),
    "a horizon beyond memory": (
        HEAD.replace('"horizon": 2', '"horizon": 99999999').replace("markov", "timed") + COLUMNS,
        "more than 67,108,864 probabilities",
    ),
    "memory in a Markov policy": (HEAD.replace('"horizon"', '"memory": {}, "horizon"') + COLUMNS, "memory is {}"),
    "no text": (b"\xff\xfe", "byte 0xff is not UTF-8"),
}


def refused(path: Path, content: Any, words: str) -> None:
    text = content if isinstance(content, (str, bytes)) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(VeilError) as caught:
        veil.load_policy(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@looped("case", WRONG_CSV)
def test_wrong_lines_are_refused_with_their_place(case: str, tmp_path: Path):
    refused(tmp_path / "p.csv", *WRONG_CSV[case])


def changed(*path: Any, value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        if value is None:
            del document[path[-1]]
        else:
            document[path[-1]] = value

    return change


WRONG_JSON: dict[str, tuple[Callable[[Any], None], str]] = {
    "no tables": (changed("tables", value=None), "tables.the document"),
    "a probability that is text": (
        changed("tables", 0, "rows", 1, "probabilities", "stay", value="much"),
        "tables.0.rows.1.probabilities.stay: Input should be a valid number, found 'much'",
    ),
    "a row twice": (
        lambda document: document["tables"][0]["rows"].append(document["tables"][0]["rows"][0]),
        "tables[0].rows[2]: row 'hall' is given again, expected once: it is in tables[0].rows[0]",
    ),
}


@looped("case", WRONG_JSON)
def test_wrong_documents_are_refused_with_their_place(case: str, tmp_path: Path):
    change, words = WRONG_JSON[case]
    document = policy_document(rooms(), veil.MarkovPolicy.uniform(rooms()))
    change(document)
    refused(tmp_path / "p.json", document, words)


@looped(
    ("text", "words"),
    [
        ('{"format":\n "x",}', "line 2, column 6: this is not JSON"),
        ("[1]", "a list found, expected a JSON object"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ("[" * 100_000, "nested 100,000 levels deep, expected at most 100"),
    ],
)
def test_what_is_no_document_is_refused_with_its_line(text: str, words: str, tmp_path: Path):
    refused(tmp_path / "p.json", text, words)


WRONG_HISTORY: dict[str, tuple[Callable[[Any], None], str]] = {
    "an event that is not listed": (changed("graph", 0, "event", value="thunder"), "graph[0]: event 'thunder'"),
    "a step from nowhere": (changed("graph", -1, "from", value=99), "node 99 found, expected one below"),
    "a graph beyond memory": (changed("nodes", value=[1, 2, 10**9]), "more than 67,108,864 entries"),
    "rows out of order": (changed("rows", 1, 0, "node", value=7), "history policy"),
    "a change outside": (
        changed("told", "changes", 0, "situation", value=10**6),
        "told.changes[0] is outside the shape",
    ),
}


@looped("case", WRONG_HISTORY)
def test_wrong_history_policies_are_refused(case: str, tmp_path: Path):
    change, words = WRONG_HISTORY[case]
    document = policy_document(*history(3, told_at=1))
    change(document)
    refused(tmp_path / "p.json", document, words)


def test_actions_of_another_problem_are_refused(tmp_path: Path):
    problem, policy = history()
    policy_to_json(tmp_path / "p.json", problem, policy)
    other = veil.gallery.load("office-patrol")
    with pytest.raises(InputError, match=r"its actions are .*, expected those of the problem: 'north', "):
        veil.load_policy(tmp_path / "p.json", other)


def test_other_extensions_are_read_as_safetensors(tmp_path: Path):
    policy = veil.MarkovPolicy.uniform(rooms())
    policy.save(tmp_path / "policy")
    assert veil.load_policy(tmp_path / "policy").digest() == policy.digest()
    (tmp_path / "policy.txt").write_text("hello")
    with pytest.raises(PolicyFileError, match=r"expected one of the extensions \.safetensors, \.json, \.csv"):
        veil.load_policy(tmp_path / "policy.txt")
    with pytest.raises(PolicyFileError, match="does not exist"):
        veil.load_policy(tmp_path / "missing.csv")
