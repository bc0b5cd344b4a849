"""Defects of what a user hands in: each is refused, and the message names the place, what was found and what was expected.

Nothing is renormalised, clipped or guessed on the way.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.seeds import looped

STATES = ["hall", "office", "vault"]
ACTIONS = ["walk", "wait"]
OBSERVATIONS = ["quiet", "alarm"]
NAN, INF = float("nan"), float("inf")


def transitions(changes: dict[tuple[int, int], Sequence[float]] | None = None) -> np.ndarray:
    table = np.array([[[0.5, 0.5, 0], [1, 0, 0]], [[0.2, 0.3, 0.5], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]]], dtype=float)
    for place, row in (changes or {}).items():
        table[place] = row
    return table


def model(**changes: Any) -> veil.Model:
    parts: dict[str, Any] = {
        "transitions": transitions(),
        "rewards": np.zeros((3, 2)),
        "initial": "hall",
        "state_names": STATES,
        "action_names": ACTIONS,
    }
    return veil.Model(**(parts | changes))


def observer(emissions: Any = ((1, 0), (0.5, 0.5), (0, 1)), **changes: Any) -> veil.Observer:
    parts: dict[str, Any] = {"observation_names": OBSERVATIONS}
    return veil.Observer(emissions, **(parts | changes))


def problem(**changes: Any) -> veil.Problem:
    parts: dict[str, Any] = {
        "model": model(),
        "observer": observer(),
        "secret": veil.LastState({"vault"}),
        "horizon": 4,
    }
    return veil.Problem(**(parts | changes))


def masked() -> veil.Model:
    return model(transitions=transitions({(2, 0): [0, 0, 0]}), available=[[True, True], [True, True], [False, True]])


def automaton(**changes: Any) -> veil.Automaton:
    parts: dict[str, Any] = {
        "transitions": {("out", "in vault"): "in", ("in", "in vault"): "in"},
        "initial": "out",
        "accepting": {"in"},
        "labels": {"vault": "in vault"},
        "default_label": "elsewhere",
        "otherwise": "stay",
    }
    return veil.Automaton(**(parts | changes))


def entries(*more: Any) -> list:
    return [("hall", "walk", "vault", 0.7), ("hall", "walk", "hall", 0.3), ("vault", "walk", "vault", 1.0), *more]


def with_secret(secret: Any) -> Callable[[], veil.Problem]:
    return lambda: problem(secret=secret)


def markov(*rows: Sequence[float]) -> veil.MarkovPolicy:
    return veil.MarkovPolicy(rows)


HALF = [0.5, 0.5]

HALF_A_CHARACTER = "\ud800"  # which no file can hold

# name: (what a user writes, what the message must contain)
ONE_DEFECT: dict[str, tuple[Callable[[], Any], list[str]]] = {
    # models: transitions
    "row sums to more than one": (
        lambda: model(transitions=transitions({(1, 0): [0.4, 0.3, 0.5]})),
        ["row", "'office'", "'walk'", "1.2", "expected 1"],
    ),
    "row misses one by a little": (
        lambda: model(transitions=transitions({(0, 0): [0.5, 0.4999999, 0]})),
        ["row", "'hall'", "'walk'", "0.9999999", "expected 1"],
    ),
    "row of zeros": (
        lambda: model(transitions=transitions({(2, 0): [0, 0, 0]})),
        ["row", "'vault'", "'walk'", "sums to 0", "expected 1", "not available"],
    ),
    "negative entry": (
        lambda: model(transitions=transitions({(1, 0): [-0.2, 0.7, 0.5]})),
        ["'office'", "'walk'", "'hall'", "-0.2", "expected a probability in [0, 1]"],
    ),
    "NaN entry": (
        lambda: model(transitions=transitions({(1, 0): [NAN, 0.5, 0.5]})),
        ["'office'", "'walk'", "'hall'", "nan", "expected a finite number"],
    ),
    "state whose name no file can hold": (
        lambda: model(state_names=["hall", HALF_A_CHARACTER, "vault"]),
        ["state name 1", r"'\ud800'", "expected"],
    ),
    "observation whose name no file can hold": (
        lambda: observer(observation_names=["quiet", HALF_A_CHARACTER]),
        ["observation name 1", r"'\ud800'"],
    ),
    "problem whose name no file can hold": (lambda: problem(name=HALF_A_CHARACTER), ["name is", "expected a text"]),
    "problem whose name is a number": (lambda: problem(name=5), ["name is 5", "expected a text"]),
    "pair whose name no file can hold": (
        lambda: veil.Pair(HALF_A_CHARACTER, secret=veil.LastState({"hall"})),
        ["name is", "expected a text"],
    ),
    "value of a secret whose name no file can hold": (
        lambda: problem(secret=veil.LastState(groups={HALF_A_CHARACTER: ["vault"], "out": ["hall", "office"]})),
        ["secret", r"'\ud800'", "expected a text"],
    ),
    "transitions with two axes": (lambda: model(transitions=np.eye(3)), ["transitions", "(3, 3)", "(S, A, S)"]),
    "transitions without states": (
        lambda: model(transitions=np.zeros((0, 2, 0))),
        ["(0, 2, 0)", "expected at least one state"],
    ),
    "transitions of words": (lambda: model(transitions=[["a"]]), ["transitions", "array of real numbers"]),
    "transitions of complex numbers": (lambda: model(transitions=transitions() * 1j), ["transitions", "complex"]),
    "one sparse matrix for all actions": (lambda: model(transitions=sp.eye_array(3)), ["one sparse matrix", "each action"]),
    "sparse matrices of different sizes": (
        lambda: model(transitions=[sp.eye_array(3), sp.eye_array(4)]),
        ["action 1", "(4, 4)", "(3, 3)"],
    ),
    # models: the other parts
    "state without an action": (
        lambda: model(
            transitions=transitions({(2, 0): [0, 0, 0], (2, 1): [0, 0, 0]}),
            available=[[True, True], [True, True], [False, False]],
        ),
        ["'vault'", "no available action", "expected at least one"],
    ),
    "row of an action that is not available": (
        lambda: model(available=[[True, True], [True, False], [True, True]]),
        ["row", "'office'", "'wait'", "not available"],
    ),
    "mask of the wrong shape": (lambda: model(available=np.ones((2, 3), dtype=bool)), ["available", "(2, 3)", "(3, 2)"]),
    "mask that is no mask": (lambda: model(available=np.full((3, 2), 0.5)), ["available", "True and False"]),
    "rewards of the wrong shape": (lambda: model(rewards=np.zeros((3, 5))), ["rewards", "(3, 5)", "(3, 2)"]),
    "reward that is NaN": (
        lambda: model(rewards=[[0, 0], [0, NAN], [0, 0]]),
        ["reward", "'office'", "'wait'", "nan", "finite"],
    ),
    "terminal reward of an unknown state": (
        lambda: model(terminal_rewards={"valt": 1.0}),
        ["terminal rewards", "'valt'", "did you mean 'vault'"],
    ),
    "initial state that does not exist": (lambda: model(initial=3), ["state 3", "0 to 2"]),
    "initial distribution that does not sum to one": (
        lambda: model(initial={"hall": 0.5, "office": 0.4}),
        ["initial distribution", "0.9", "expected 1"],
    ),
    "initial probability that is a word": (
        lambda: model(initial={"hall": "always"}),
        ["initial distribution", "'hall'", "'always'"],
    ),
    "discount above one": (lambda: model(discount=1.01), ["discount", "1.01", "[0, 1]"]),
    "discount that is a word": (lambda: model(discount="high"), ["discount", "'high'", "[0, 1]"]),
    "too few state names": (lambda: model(state_names=["hall", "office"], initial=0), ["2 state names", "expected 3"]),
    "state named twice": (lambda: model(state_names=["hall", "vault", "vault"]), ["state names", "twice", "'vault'"]),
    "state names in one string": (lambda: model(state_names="abc", initial=0), ["state names", "'abc'", "list of 3"]),
    "action without a name": (lambda: model(action_names=["walk", ""]), ["action name 1", "''", "non-empty"]),
    # models from entries
    "entry that is no entry": (
        lambda: veil.Model.from_entries(entries(("hall", "vault")), {}, "hall"),
        ["entry 3", "('hall', 'vault')", "(state, action, next state, probability)"],
    ),
    "entry given twice": (
        lambda: veil.Model.from_entries(entries(("hall", "walk", "hall", 0.3)), {}, "hall"),
        ["entry 3", "given before", "'hall'", "'walk'"],
    ),
    "reward of an unknown action": (
        lambda: veil.Model.from_entries(entries(), {("hall", "wlak"): 1.0}, "hall"),
        ["reward", "'wlak'", "did you mean 'walk'"],
    ),
    "no entries": (lambda: veil.Model.from_entries([], {}, "hall"), ["no entries", "expected at least one"]),
    # observers
    "emissions for another number of states": (
        lambda: problem(observer=observer([[1, 0], [0, 1]])),
        ["emissions", "(2, 2)", "(3, O)"],
    ),
    "emissions with one axis": (lambda: observer([1, 0]), ["emissions", "(2,)", "(S, O)"]),
    "emission row that does not sum to one": (
        lambda: problem(observer=observer([[1, 0], [0.5, 0.4], [0, 1]])),
        ["emission", "'office'", "0.9", "expected 1"],
    ),
    "unknown silent observation": (lambda: observer(silent="silence"), ["silent", "'silence'", "'quiet'"]),
    "sensor with an unknown observation": (
        lambda: observer(sensors={"bell": {"alrm": "quiet"}}),
        ["sensor 'bell'", "'alrm'", "did you mean 'alarm'"],
    ),
    "channel of the wrong shape": (lambda: observer().garbled(np.eye(3)), ["channel", "(3, 3)", "(2, O')"]),
    "muting without a silent observation": (lambda: observer().without(["alarm"]), ["silent", "silent="]),
    # secrets
    "empty secret": (with_secret(veil.LastState(set())), ["LastState", "no states", "expected at least one"]),
    "unknown secret state": (with_secret(veil.LastState({"valt"})), ["LastState", "'valt'", "did you mean 'vault'"]),
    "secret state that is no name": (
        with_secret(veil.LastState({1.5})),  # type: ignore[arg-type]
        ["LastState", "1.5", "a name or an index"],
    ),
    "secret states that are no set": (with_secret(veil.LastState(1.5)), ["LastState", "1.5", "expected a set"]),  # type: ignore[arg-type]
    "secret without states": (with_secret(veil.LastState(None)), ["LastState", "neither states nor groups"]),
    "secret time after the horizon": (
        with_secret(veil.StateAt(5, {"vault"})),
        ["StateAt", "time is 5", "0 to the horizon 4"],
    ),
    "start in two groups": (
        with_secret(veil.InitialState({"left": ["hall"], "right": ["office", "hall"]})),
        ["InitialState", "'hall'", "'left'", "'right'", "expected each state in one group"],
    ),
    "start in no group": (
        with_secret(veil.InitialState({"right": ["office"]})),
        ["InitialState", "'hall'", "in no group"],
    ),
    "groups that are no mapping": (
        with_secret(veil.InitialState(["hall"])),  # type: ignore[arg-type]
        ["InitialState", "groups", "list", "mapping"],
    ),
    "automaton that accepts in an unknown state": (
        with_secret(automaton(accepting={"inside"})),
        ["Automaton", "'inside'", "'out'", "'in'"],
    ),
    "automaton without a transition": (
        with_secret(automaton(otherwise=None, transitions={("out", "in vault"): "out", ("out", "elsewhere"): "out"},
                              accepting={"out"}, default_label=None, labels={"vault": "in vault", "hall": "elsewhere"})),
        ["Automaton", "'office'", "no label"],
    ),
    "automaton that reads an unknown label": (
        with_secret(automaton(transitions={("out", "in valt"): "in"})),
        ["Automaton", "'in valt'", "no state of the model has it"],
    ),
    "automaton that does not say where to go": (
        with_secret(automaton(otherwise=None, default_label="in vault", transitions={("out", "in vault"): "in"})),
        ["Automaton", "from 'in'", "'in vault'", "otherwise='stay'"],
    ),
    "automaton with a key that is no pair": (
        with_secret(automaton(transitions={"out": "in"})),
        ["Automaton", "'out'", "(automaton state, label)"],
    ),
    "which model of one": (with_secret(veil.WhichModel()), ["WhichModel", "1 model", "at least two"]),
    "weights that do not sum to one": (
        lambda: problem(model=[model(), model()], secret=veil.WhichModel([0.2, 0.3])),
        ["WhichModel", "weights", "0.5", "expected 1"],
    ),
    "several models for another secret": (lambda: problem(model=[model(), model()]), ["2 models", "WhichModel"]),
    "secret of another kind": (with_secret("vault"), ["secret", "str", "LastState"]),
    # problems
    "models with different states": (
        lambda: problem(model=[model(), model(state_names=["hall", "office", "safe"])], secret=veil.WhichModel()),
        ["model 1", "names", "model 0"],
    ),
    "models with different actions": (
        lambda: problem(model=[model(), masked()], secret=veil.WhichModel()),
        ["model 1", "available", "model 0"],
    ),
    "models with different discounts": (
        lambda: problem(model=[model(), model(discount=0.5)], secret=veil.WhichModel()),
        ["model 1", "discount 0.5", "expected 1"],
    ),
    "horizon below zero": (lambda: problem(horizon=-1), ["horizon is -1", "0 or more"]),
    "horizon that is a truth": (lambda: problem(horizon=True), ["horizon is True", "whole number"]),
    "threshold that is NaN": (lambda: problem(min_return=NAN), ["min_return is nan", "finite"]),
    "unknown return": (lambda: problem(return_over="ever"), ["return_over is 'ever'", "'horizon' or 'infinite'"]),
    "infinite return without discount": (
        lambda: problem(return_over="infinite"),
        ["return_over='infinite'", "discount below 1", "found 1"],
    ),
    "infinite return with terminal rewards": (
        lambda: problem(model=model(discount=0.5, terminal_rewards=[0, 0, 1]), return_over="infinite"),
        ["return_over='infinite'", "terminal_rewards"],
    ),
    "model that is none": (lambda: problem(model="grid"), ["model", "str", "veil.Model"]),
    "unknown part to replace": (lambda: problem().replace(horizn=3), ["'horizn'", "'horizon'"]),  # pyright: ignore[reportCallIssue]
    # policies
    "policy row that does not sum to one": (
        lambda: markov(HALF, [0.5, 0.4], HALF),
        ["row", "state 1", "0.9", "expected 1"],
    ),
    "policy entry that is NaN": (lambda: markov(HALF, HALF, [NAN, 1]), ["entry", "state 2", "action 0", "nan"]),
    "Markov policy with three axes": (lambda: veil.MarkovPolicy([[HALF]]), ["(1, 1, 2)", "(state, action)"]),
    "policy for another number of states": (
        lambda: veil.opacity(problem(), markov(HALF, HALF)),
        ["policy", "(1, 2, 2)", "3, 2"],
    ),
    "timed policy for another horizon": (
        lambda: veil.opacity(problem(), veil.TimedPolicy([[HALF] * 3] * 3)),
        ["policy", "3 steps", "4 decisions"],
    ),
    "policy that takes an action not available": (
        lambda: veil.opacity(problem(model=masked()), markov(HALF, HALF, [0.25, 0.75])),
        ["policy", "'vault'", "'walk'", "0.25", "not available"],
    ),
    "parameters that are NaN": (
        lambda: veil.opacity_gradient(problem(), [[0, 0], [0, NAN], [0, 0]]),
        ["theta", "state 1", "action 1", "nan", "expected a number"],
    ),
    "parameters without a choice": (
        lambda: veil.MarkovPolicy.softmax([[0, 0], [-INF, -INF], [0, 0]], problem()),
        ["theta row", "state 1", "-inf", "one finite"],
    ),
    "parameters that leave only what is masked": (
        lambda: veil.MarkovPolicy.softmax([[0, 0], [0, 0], [0, -INF]], problem(model=masked())),
        ["theta row", "state 2", "every available action"],
    ),
    "parameters of the wrong shape": (
        lambda: veil.measures.return_gradient(problem(), np.zeros((3, 3))),
        ["theta", "(3, 3)", "(3, 2)"],
    ),
    "unknown action of a deterministic policy": (
        lambda: veil.MarkovPolicy.deterministic(problem(), ["walk", "wiat", "wait"]),
        ["'office'", "'wiat'", "did you mean 'wait'"],
    ),
    "deterministic policy that takes an action not available": (
        lambda: veil.MarkovPolicy.deterministic(problem(model=masked()), ["walk", "walk", "walk"]),
        ["'vault'", "'walk'", "not available"],
    ),
    "unknown method": (
        lambda: veil.opacity(problem(), veil.MarkovPolicy.uniform(problem()), method="magic"),  # type: ignore[arg-type]
        ["method is 'magic'", "'exact'"],
    ),
    # what the observer is shown
    "unknown observation": (
        lambda: veil.ObserverFilter(problem(), markov(HALF, HALF, HALF)).update("alrm"),
        ["time 0", "'alrm'", "did you mean 'alarm'"],
    ),
    "observation without its action": (
        lambda: seen_acting("quiet", "quiet"),
        ["'quiet'", "time 1", "(action, observation)"],
    ),
}  # fmt: skip


def seen_acting(*events: Any) -> None:
    watcher = veil.ObserverFilter(problem(observer=observer(sees_actions=True)), markov(HALF, HALF, HALF))
    for event in events:
        watcher.update(event)


@looped("name", ONE_DEFECT)
def test_defect_is_refused_with_its_place(name: str):
    build, wanted = ONE_DEFECT[name]
    with pytest.raises(veil.InputError) as caught:
        build()
    message = str(caught.value)
    assert [part for part in wanted if part not in message] == [], message
    assert len(caught.value.defects) == 1, message  # one fault is one defect, and brings no others with it
    assert isinstance(caught.value, veil.VeilError)


def test_all_defects_are_listed_at_once():
    with pytest.raises(veil.InputError) as caught:
        model(
            transitions=transitions({(0, 0): [0.5, 0.6, 0], (1, 1): [0, -1, 2]}),
            rewards=[[0, INF], [0, 0], [0, 0]],
            initial={"cellar": 1.0},
            discount=2,
        )
    text = str(caught.value)
    for place in ("'hall'", "1.1", "-1", "inf", "'cellar'", "discount is 2"):
        assert place in text
    assert len(caught.value.defects) >= 6


def test_defects_of_all_parts_of_a_problem_are_listed_at_once():
    with pytest.raises(veil.InputError) as caught:
        problem(
            observer=observer([[1, 0], [0.5, 0.4], [0, 1]]),
            secret=veil.LastState({"valt"}),
            horizon=-1,
            min_return=NAN,
            return_over="ever",
        )
    assert len(caught.value.defects) == 5
    for part in ("emission", "'valt'", "horizon", "min_return", "return_over"):
        assert part in str(caught.value)


def test_a_long_list_is_cut_and_counted():
    with pytest.raises(veil.InputError) as caught:
        veil.Model(np.full((30, 1, 30), 0.5), np.zeros((30, 1)), 0)
    assert 20 <= len(caught.value.defects) <= 22
    assert "more" in caught.value.defects[-1]


def test_nothing_is_renormalised():
    """A row that misses one by less than rounding allows is kept as it was given."""
    row = [0.1] * 10
    row[0] += 2e-16
    table = np.array([[row]] * 10)
    kept = veil.Model(table, np.zeros((10, 1)), 0).transitions
    np.testing.assert_array_equal(kept, table)


def test_what_was_handed_in_cannot_be_changed_afterwards():
    table, emissions = transitions(), np.eye(3)
    world, watcher = model(transitions=table), veil.Observer(emissions)
    table[0, 0] = [0, 0, 1]
    emissions[0] = [0, 0, 1]
    np.testing.assert_array_equal(world.transitions, transitions())
    np.testing.assert_array_equal(watcher.emissions, np.eye(3))
    for array in (watcher.emissions, world.rewards, world.initial, veil.MarkovPolicy.uniform(problem()).probabilities):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_bare_name_is_a_set_of_one():
    """As `LastState("vault")` is, and not the set of its letters."""
    assert problem(secret=veil.LastState("vault")).secret_table.label.sum() == 1
    assert problem(secret=veil.InitialState({"left": "hall"})).secret_values == ("left",)
    bare, in_a_set = (problem(secret=automaton(accepting=names)).secret_table for names in ("in", {"in"}))
    np.testing.assert_array_equal(bare.label, in_a_set.label)
    watcher = observer(silent="quiet")
    np.testing.assert_array_equal(watcher.without("alarm").emissions, watcher.without(["alarm"]).emissions)


def test_numbers_of_numpy_are_indices():
    """Indices that come out of an array are as good as any; alone, too."""
    expected = problem(secret=veil.LastState({2})).secret_table.label
    for states in (np.int64(2), {np.int64(2)}, np.array([2]), 2, "vault", ["vault"]):
        found = problem(secret=veil.LastState(states)).secret_table.label  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, expected)
    assert problem(horizon=np.int64(4)).horizon == 4
    assert model(initial=np.int64(0)).initial[0] == 1
