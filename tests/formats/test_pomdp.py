"""The `.pomdp` reader against a dense interpreter that writes every entry out, the classics, and the way back."""

from pathlib import Path

import numpy as np
import pytest

import veil
from tests.formats.classics import DATA, classic, hallway
from tests.seeds import looped
from veil.common.errors import InputError, ModelFileError
from veil.formats.imported import Imported
from veil.formats.pomdp.files import format_pomdp, from_pomdp, parse_pomdp

CLASSICS = {"tiger": (2, 3, 2), "shuttle": (8, 3, 5), "cheese": (11, 4, 7), "hallway": (60, 5, 21)}
HEAD = "discount: 0.9\nvalues: reward\nstates: 2\nactions: 2\nobservations: 2\nstart: uniform\n"


def same(one: Imported, two: Imported) -> bool:
    left, right = one.observer, two.observer
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        assert left.observations.all() == right.observations.all()
        assert np.array_equal(left.emissions, right.emissions)
    assert one.model.states.all() == two.model.states.all()
    assert one.model.actions.all() == two.model.actions.all()
    assert one.model.discount == two.model.discount
    return (
        np.array_equal(one.model.transitions, two.model.transitions)
        and np.array_equal(one.model.rewards, two.model.rewards)
        and np.array_equal(one.model.initial, two.model.initial)
    )


@looped("name", CLASSICS)
def test_classics_are_read_and_written_back(name: str, tmp_path: Path):
    read = parse_pomdp(classic(name))
    assert read.observer is not None
    sizes = (read.model.num_states, read.model.num_actions, read.observer.num_observations)
    assert sizes == CLASSICS[name]
    assert not read.observer.sees_first
    assert read.save(tmp_path / "again.pomdp") == ()
    again = from_pomdp(tmp_path / "again.pomdp")
    assert same(read, again)
    text = (tmp_path / "again.pomdp").read_text(encoding="utf-8")
    assert format_pomdp(again.model, again.observer)[0] == text
    summary = read.summary()
    assert len(summary.splitlines()) < 15
    assert all(word in summary for word in ("states", "actions", "transitions", "rewards", "observations"))


def test_tiger_by_hand():
    tiger = from_pomdp(DATA / "tiger.pomdp")
    assert np.array_equal(tiger.model.rewards, [[-1, -100, 10], [-1, 10, -100]])
    assert tiger.observer is not None
    assert np.array_equal(tiger.observer.emissions[0], [[0.85, 0.15], [0.15, 0.85]])
    assert np.array_equal(tiger.observer.emissions[2], np.full((2, 2), 0.5))
    assert tiger.states_where('state="tiger-left"') == (0,)
    problem = tiger.problem('state="tiger-left"', 3)
    policy = veil.MarkovPolicy.uniform(problem)
    assert 0 < veil.opacity(problem, policy).bits < 1


def test_shuttle_and_hallway_by_hand():
    shuttle = from_pomdp(DATA / "shuttle.pomdp").model
    find = shuttle.states.find
    assert shuttle.rewards[find("at-lrv-backward"), 2] == 0.7 * 10
    assert shuttle.rewards[find("at-mrv-facing"), 1] == -3  # for certain, so exactly
    halls = parse_pomdp(hallway())
    assert halls.observer is not None
    # The numbers of the collection's file, which has six digits: facing north in the corridor, walls ahead and behind.
    assert halls.observer.emissions[4, 10] == pytest.approx(0.731024, abs=2e-6)
    assert halls.model.transitions[9, 1, 13] == 0.8
    assert halls.model.transitions[8, 1, 8] == pytest.approx(0.85)


def test_every_form_of_start():
    def start(line: str, states: str = "a b c d") -> list[float]:
        text = f"states: {states}\nactions: 1\n{line}\nT: * identity\n"
        return parse_pomdp(text).model.initial.tolist()

    assert start("start: 0.1 0.2 0.3 0.4") == [0.1, 0.2, 0.3, 0.4]
    assert start("start: uniform") == [0.25] * 4
    assert start("start: c") == [0, 0, 1, 0]
    assert start("start: 2") == [0, 0, 1, 0]
    assert start("start include: a 2") == [0.5, 0, 0.5, 0]
    assert start("start exclude: a c d") == [0, 1, 0, 0]
    assert start("") == [0.25] * 4
    assert start("start: 1.0", "1") == start("start: 0", "1") == start("start: 1", "1") == [1]
    assert start("start:\n0.5\n0.5", "2") == [0.5, 0.5]


def test_the_file_of_a_decision_process_has_no_watcher():
    text = (
        "states: 2 actions: 2 start: 0 T: * uniform\nR: 0 : 0 : 1 4\nR: 1 : 1\n2 6\nR: 0 : 1 : 0 : * 3\nR: 1 : 0 : 0 1"
    )
    read = parse_pomdp(text)
    assert read.observer is None
    assert read.model.rewards.tolist() == [[2.0, 0.5], [1.5, 4.0]]
    again = parse_pomdp(format_pomdp(read.model)[0])
    assert same(read, again)
    assert parse_pomdp("states: 2 actions: 1 T: 0 identity R: 0\n1 2\n3 4").model.rewards.tolist() == [[1], [4]]


def test_reset_and_identity_and_overriding():
    text = (
        "states: 3 actions: 1 start: 0.5 0.5 0.0 T: 0 uniform T: 0 identity T: 0 : 2 reset"
        " T: 0 : 1 0.0 0.25 0.75 T: 0 : 1 : 1 0.0 T: 0 : 1 : 0 0.25"
    )
    assert parse_pomdp(text).model.transitions[:, 0].tolist() == [[1, 0, 0], [0.25, 0, 0.75], [0.5, 0.5, 0]]
    text = "states: 2 actions: 1 T: 0 : 0 : 1 1.0 T: * : * : * 0.5"
    assert parse_pomdp(text).model.transitions[:, 0].tolist() == [[0.5, 0.5]] * 2


def test_rows_of_six_digits_are_mended_and_a_note_says_so():
    text = (
        "states: 3 actions: 1 observations: 2\nstart: 0.333333 0.333333 0.333333\n"
        "T: 0\n0.333333 0.333333 0.333333\n1 0 0\n0 0 1\nO: 0 uniform"
    )
    read = parse_pomdp(text)
    assert read.model.initial.sum() == pytest.approx(1, abs=1e-15)
    assert sum("divided by" in note for note in read.notes) == 2
    assert same(read, parse_pomdp(format_pomdp(read.model, read.observer)[0]))
    with pytest.raises(ModelFileError, match=r"line 2: the start distribution sums to 0\.999999"):
        parse_pomdp(text, rescale=0)
    with pytest.raises(ModelFileError, match=r"line 3: transition row \(action 0, state 0\) sums to 0.999999"):
        parse_pomdp(text.replace("start: 0.333333 0.333333 0.333333", ""), rescale=0)


def test_later_rules_for_rewards_win_whatever_their_wildcards():
    rules = (
        "R: * : * : * : * 1\nR: 0 : * : 1 : * 2\nR: * : 0 : * : 1 3\nR: 0 : 0 : 1\n4 5\nR: * : 1\n6 7\n8 9\n"
        "R: 1 : 1 : * : 0 10\n"
    )
    table = np.ones((2, 2, 2, 2))
    table[0, :, 1] = 2
    table[:, 0, :, 1] = 3
    table[0, 0, 1] = [4, 5]
    table[:, 1] = [[6, 7], [8, 9]]
    table[1, 1, :, 0] = 10
    transitions = np.array([[[0.3, 0.7], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]]])
    emissions = np.array([[[0.1, 0.9], [0.4, 0.6]], [[0.25, 0.75], [1.0, 0.0]]])
    lines = [f"T: {a}\n" + "\n".join(" ".join(map(str, row)) for row in transitions[a]) for a in range(2)]
    lines += [f"O: {a}\n" + "\n".join(" ".join(map(str, row)) for row in emissions[a]) for a in range(2)]
    read = parse_pomdp(HEAD + "\n".join(lines) + "\n" + rules)
    expected = np.einsum("asn,ano,asno->sa", transitions, emissions, table)
    assert np.allclose(read.model.rewards, expected, rtol=1e-14, atol=0)
    assert any("averaged" in note for note in read.notes)


@looped("seed", range(60))
def test_agrees_with_a_dense_interpreter(seed: int):
    """Random statements with wildcards and overrides; then whole rows, so that all sums are right."""
    random = np.random.default_rng(seed)
    actions, states, observations = (int(n) for n in random.integers(1, 5, size=3))
    sizes = (actions, states, states, observations)
    lines = [f"states: {states}", f"actions: {actions}", f"observations: {observations}", "discount: 0.75"]
    lines.append(f"values: {'cost' if seed % 2 else 'reward'}")
    tables = {"T": np.zeros((actions, states, states)), "O": np.zeros((actions, states, observations))}
    rewards = np.zeros(sizes)

    def pick(size: int) -> tuple[str, slice | int]:
        index = int(random.integers(size + 1))
        return ("*", slice(None)) if index == size else (str(index), index)

    def row(width: int) -> np.ndarray:
        found = random.integers(0, 4, size=width) * 1.0
        found[random.integers(width)] += 1
        return found / found.sum()

    for _ in range(25):
        word = "TOR"[random.integers(3)]
        if word == "R":
            depth = int(random.integers(2, 5))
            chosen = [pick(size) for size in sizes[:depth]]
            values = random.integers(-9, 9, size=sizes[depth:]) * 1.0
            rewards[tuple(index for _, index in chosen)] = values
            lines.append("R: " + " : ".join(name for name, _ in chosen) + " " + " ".join(map(str, values.ravel())))
            continue
        table = tables[word]
        depth = int(random.integers(1, 4))
        chosen = [pick(size) for size in table.shape[:depth]]
        place = tuple(index for _, index in chosen)
        start = f"{word}: " + " : ".join(name for name, _ in chosen)
        kind = random.integers(3)
        if depth < 3 and kind == 0:
            table[place] = 1 / table.shape[2]
            lines.append(f"{start} uniform")
        elif depth == 1 and kind == 1 and states == table.shape[2]:
            table[place] = np.eye(states)
            lines.append(f"{start} identity")
        else:
            values = random.integers(0, 2, size=table.shape[depth:]) * 0.5
            table[place] = values
            lines.append(f"{start} " + " ".join(map(str, np.ravel(values))))
    for word, table in tables.items():
        for a, s in np.ndindex(table.shape[:2]):
            if table[a, s].sum() != 1:
                table[a, s] = row(table.shape[2])
                lines.append(f"{word}: {a} : {s} " + " ".join(map(repr, table[a, s].tolist())))
    read = parse_pomdp("\n".join(lines))
    assert np.array_equal(read.model.transitions, np.moveaxis(tables["T"], 0, 1))
    assert read.observer is not None
    assert np.array_equal(np.broadcast_to(read.observer.emissions, tables["O"].shape), tables["O"])
    expected = np.einsum("asn,ano,asno->sa", tables["T"], tables["O"], rewards) * (-1 if seed % 2 else 1)
    assert np.allclose(read.model.rewards, expected, rtol=1e-13, atol=1e-13)
    assert same(read, parse_pomdp(format_pomdp(read.model, read.observer)[0]))


def test_numbers_come_back_to_the_last_bit():
    random = np.random.default_rng(5)
    matrix = random.random((2, 3, 4, 4)) ** 40
    transitions = (matrix / matrix.sum(axis=-1, keepdims=True))[0].transpose(1, 0, 2)
    emissions = random.random((3, 4, 2)) + 1e-300
    model = veil.Model(transitions, random.normal(size=(4, 3)) * 1e-200, random.dirichlet([1] * 4), 1 / 3)
    observer = veil.Observer(emissions / emissions.sum(axis=-1, keepdims=True), sees_initial=False)
    read = parse_pomdp(format_pomdp(model, observer)[0])
    assert same(Imported(model, observer, "", ""), read)


def test_what_the_format_cannot_say_is_told(tmp_path: Path):
    model = veil.Model(np.ones((1, 1, 1)), [[0.0]], [1.0], state_names=["(0, 1)"], action_names=["T"])
    text, notes = format_pomdp(model, veil.Observer([[1.0]], sees_actions=True))
    assert len(notes) == 4
    assert "states: 1" in text
    assert "actions: 1" in text
    with pytest.raises(InputError, match="terminal rewards"):
        format_pomdp(veil.Model(np.ones((1, 1, 1)), [[0.0]], [1.0], 1.0, [1.0]))
    part = veil.Model.from_entries([("a", "x", "a", 1.0), ("a", "y", "a", 1.0), ("b", "x", "a", 1.0)], {}, "a")
    with pytest.raises(InputError, match="not available in state 'b'"):
        format_pomdp(part)
    with pytest.raises(InputError, match="emissions"):
        format_pomdp(model, veil.Observer([[0.5, 0.5], [0.5, 0.5]]))
    with pytest.raises(ModelFileError, match="cannot be written"):
        Imported(model).save(tmp_path / "no" / "such.pomdp")


def test_states_and_actions_may_be_named_like_statements():
    text = "states: T O\nactions: R start\nT: R identity\nT: start : T : O 1\nT: start : O : T 1\nR: start : T : O 2"
    read = parse_pomdp(text)
    assert read.model.states.all() == ("T", "O")
    assert read.model.rewards.tolist() == [[0, 2], [0, 0]]


@looped("transitions", ["T: a : 0 : 0 {0}\nT: a : 1 : 1 1", "T: a : 0\n{0} 0\nT: a : 1\n0 1", "T: a\n{0} 0\n0 1"])
def test_probabilities_may_pass_one_by_what_is_rescaled(transitions: str):
    """By at most `rescale`, and by no less than the tolerance of all sums where `rescale` is smaller."""
    head = "discount: 1\nvalues: reward\nstates: 2\nactions: a\nstart: 0\n"
    read = parse_pomdp(head + transitions.format(1 + 9e-6))
    assert read.model.transitions[0, 0].tolist() == [1, 0]
    assert "missed 1 by up to 9e-06" in read.notes[-1]
    assert parse_pomdp(head + transitions.format(1 + 9e-10), rescale=0).model.transitions[0, 0, 0] == 1 + 9e-10
    for value, rescale in ((1 + 2e-5, 1e-5), (1 + 2e-9, 0.0)):
        with pytest.raises(ModelFileError, match=r"expected a? ?probabilit(y|ies) in \[0, 1\]"):
            parse_pomdp(head + transitions.format(value), rescale=rescale)
