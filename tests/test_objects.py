"""Public objects behave as Python users expect: one line of repr, equality, hashing, copies, pickles, arrays, iteration."""

import copy
import inspect
import pickle
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.formats.imported import Imported
from veil.game.solve import solve_game
from veil.learning.audited import Estimate
from veil.measure import attack_result
from veil.measure.measures import JointTable, Quantities
from veil.planning.solution import History
from veil.tradeoffs.compare import ComparedClass
from veil.tradeoffs.frontier import Frontier, FrontierPoint
from veil.training.agent import Shape


@dataclass(frozen=True)
class Sample:
    """How to make an object of a class, twice the same, and one that differs in a detail."""

    make: Callable[[], object]
    other: Callable[[], object]


def problem(**changes) -> veil.Problem:
    return veil.gallery.load("two-rooms").replace(**changes)


def uniform(**changes) -> veil.MarkovPolicy:
    return veil.MarkovPolicy.uniform(problem(**changes))


def skewed() -> veil.MarkovPolicy:
    table = uniform().probabilities * [0.5, 1.5]
    return veil.MarkovPolicy(table / table.sum(axis=1, keepdims=True))


def history(share: float = 0.5) -> veil.HistoryPolicy:
    found = solve_game(problem(min_return=None), gap=0.5, iterations=3).policy()
    rows = [replace(one, probabilities=np.tile([share, 1 - share], (len(one), 1))) for one in found.decisions]
    return veil.HistoryPolicy(found.first, found.following, rows)


def model(**changes) -> veil.Model:
    parts: dict[str, Any] = {"rewards": [[0.0, 1.0], [1.0, 0.0]], "initial": [0.5, 0.5], "discount": 0.5}
    return veil.Model(np.full((2, 2, 2), 0.5), **(parts | changes))


def grid(**changes) -> veil.GridWorld:
    parts: dict[str, Any] = {"walls": [(0, 1)], "starts": {(0, 0): 1.0}, "goals": {(1, 1): 2.0}, "secrets": [(1, 0)]}
    parts["sensors"] = [veil.Sensor("g", [(1, 1)])]
    return veil.GridWorld(2, 2, **(parts | changes))


def solution(seed: int = 0) -> veil.Solution:
    found = veil.solve(problem(), seed=seed, iterations=2, starts=2, certificate=False)
    return veil.Solution(
        **{one.name: getattr(found, one.name) for one in fields(found)} | {"seconds": 1.0, "history": past()}
    )


def past(step: float = 0.5) -> History:
    return History.of([(0, 0.1, 0.2, 0.3, step, 0.5), (1, 0.1, 0.2, np.nan, step, 0.5)])


def imported(kind: str = "arrays") -> Imported:
    return Imported(
        model(), None, "here", kind, valuations={"x": np.arange(2)}, labels={"end": np.array([False, True])}
    )


def attack(seed: int = 1) -> attack_result.Attack:
    return veil.attack(problem(), uniform(), 50, seed=seed, traces=1)


def frontier(bits: float = 0.5) -> Frontier:
    point = FrontierPoint(0.1, 0.2, opacity(bits), np.inf, uniform(), 0.2)
    return Frontier((point,), "Markov policies", veil.Status.CONVERGED, 1.0)


def opacity(bits: float = 0.5) -> veil.Opacity:
    return veil.Opacity(bits, bits, bits, 1.0, "exact", 7)


def comparison(seconds: float = 1.0) -> veil.Comparison:
    row = ComparedClass("stationary", uniform(), opacity(), 0.5, True, veil.Status.CONVERGED, seconds)
    return veil.Comparison((row,), 1.0, (("history", "too large"),), 0.25, seconds)


def fitted(prior: float = 0.5) -> veil.Fitted:
    return veil.fit([{"states": ["a", "b"], "observations": ["x", "y"]}], draws=1, prior=prior)


def trained(value: float = 0.5) -> veil.Trained:
    loss, shape = Estimate(value, 0.0, 1.0), Shape(2, 0, 1, 2, continuous=False)
    arrays = {"policy/out": np.eye(2)}
    return veil.Trained(loss, 1.0, loss, None, None, None, (), 64, 100, 0.95, 0, (), shape, arrays)


def audited(confidence: float = 0.95) -> veil.Audit:
    return veil.audit(["a", "b"] * 20, [["x"], ["y"]] * 20, confidence, predictors="counts", curve=False)


def certificate(gap: float = 0.5) -> veil.Certificate:
    return veil.certify(problem(), uniform(), gap=gap, time_limit=5)


SECRETS = {
    veil.LastState: Sample(lambda: veil.LastState(["a", "b"]), lambda: veil.LastState(["a"])),
    veil.StateAt: Sample(lambda: veil.StateAt(1, {0}), lambda: veil.StateAt(2, {0})),
    veil.InitialState: Sample(lambda: veil.InitialState({"g": [0]}), lambda: veil.InitialState()),
    veil.Formula: Sample(lambda: veil.Formula("F a"), lambda: veil.Formula("G a")),
    veil.Return: Sample(lambda: veil.Return(max=3, reward="energy"), lambda: veil.Return(max=3)),
    veil.Probability: Sample(
        lambda: veil.Probability("F a", "80%", labels={"a": [0]}), lambda: veil.Probability("F a", 0.8)
    ),
    veil.ConstraintValue: Sample(
        lambda: veil.ConstraintValue("return", "≥", 1.0, 2.0), lambda: veil.ConstraintValue("return", "≥", 1.0, 0.5)
    ),
    veil.Pair: Sample(
        lambda: veil.Pair("foe", secret=veil.InitialState(), min=0.5), lambda: veil.Pair("foe", veil.Observer([[1.0]]))
    ),
    veil.Belief: Sample(lambda: veil.Belief(uniform(), doubt=0.1), lambda: veil.Belief(skewed(), doubt=0.1)),
    veil.PairValue: Sample(
        lambda: veil.PairValue("foe", opacity(), 0.5), lambda: veil.PairValue("foe", opacity(0.25), 0.5)
    ),
    veil.Study: Sample(lambda: veil.Study(["gallery:two-rooms"]), lambda: veil.Study(["gallery:badge-doors"])),
    veil.Holds: Sample(lambda: veil.Holds("F a", {"a": [0]}), lambda: veil.Holds("F a", {"a": [1]})),
    veil.Visited: Sample(lambda: veil.Visited({"a": [0]}), lambda: veil.Visited({"a": [1]})),
    veil.FirstReached: Sample(lambda: veil.FirstReached({"a": [0]}), lambda: veil.FirstReached({"b": [0]})),
    veil.Masks: Sample(lambda: veil.Masks(["a"], {"a": 1.0}), lambda: veil.Masks(["a"], 2.0)),
    veil.StateNow: Sample(
        lambda: veil.StateNow(["a"], ahead=1, weights=[1, 2]), lambda: veil.StateNow(["a"], ahead=2, weights=[1, 2])
    ),
    veil.Querying: Sample(
        lambda: veil.Querying({"left": veil.Observer(np.eye(2))}, 0.5, walker=uniform()),
        lambda: veil.Querying(["a"], walker=uniform()),
    ),
    veil.Trajectory: Sample(lambda: veil.Trajectory(), lambda: veil.Trajectory({"a": [0]})),
    veil.Automaton: Sample(
        lambda: veil.Automaton({("q", "x"): "q"}, "q", ["q"], {0: "x"}),
        lambda: veil.Automaton({("q", "x"): "r"}, "q", ["q"], {0: "x"}),
    ),
    veil.AutomatonState: Sample(
        lambda: veil.AutomatonState({("q", "x"): "q"}, "q", {0: "x"}),
        lambda: veil.AutomatonState({("q", "x"): "r"}, "q", {0: "x"}),
    ),
    veil.WhichModel: Sample(
        lambda: veil.WhichModel(np.array([0.5, 0.5])), lambda: veil.WhichModel(np.array([0.25, 0.75]))
    ),
}
POLICIES = {
    veil.MarkovPolicy: Sample(uniform, skewed),
    veil.TimedPolicy: Sample(
        lambda: veil.TimedPolicy.uniform(problem()), lambda: veil.TimedPolicy.uniform(problem(horizon=2))
    ),
    veil.MemoryPolicy: Sample(
        lambda: veil.MemoryPolicy.uniform(problem(), veil.StateMemory(1)),
        lambda: veil.MemoryPolicy.uniform(problem(), veil.StateMemory(1, clock=False)),
    ),
    veil.HistoryPolicy: Sample(history, lambda: history(0.25)),
    veil.FeaturePolicy: Sample(
        lambda: veil.FeaturePolicy.initial(problem(), "one-hot", hidden=0),
        lambda: veil.FeaturePolicy.initial(problem(), "one-hot", hidden=0, seed=1),
    ),
}
SAMPLES: dict[type, Sample] = {
    **SECRETS,
    **POLICIES,
    veil.Model: Sample(model, lambda: model(discount=0.25)),
    veil.Observer: Sample(lambda: veil.Observer(np.eye(2)), lambda: veil.Observer(np.eye(2)[::-1])),
    veil.Problem: Sample(problem, lambda: problem(horizon=2)),
    veil.GridWorld: Sample(grid, lambda: grid(slip=0.2)),
    veil.Frame: Sample(lambda: veil.Frame(0.5, (1.0, 2.0), 0.1), lambda: veil.Frame(0.5, (1.0, 2.0))),
    veil.Sensor: Sample(lambda: veil.Sensor("g", [(0, 0)]), lambda: veil.Sensor("g", [(0, 1)])),
    veil.ObservationMemory: Sample(lambda: veil.ObservationMemory(2), lambda: veil.ObservationMemory(3)),
    veil.StateMemory: Sample(lambda: veil.StateMemory(2), lambda: veil.StateMemory(2, clock=False)),
    veil.ZoneMemory: Sample(lambda: veil.ZoneMemory([["a"], [1]]), lambda: veil.ZoneMemory([["a"], [2]])),
    veil.Controller: Sample(lambda: veil.Controller(2), lambda: veil.Controller(3)),
    veil.Mixture: Sample(lambda: veil.Mixture(2), lambda: veil.Mixture(3)),
    veil.Opacity: Sample(opacity, lambda: opacity(0.25)),
    veil.Solution: Sample(solution, lambda: solution(1)),
    veil.Certificate: Sample(certificate, lambda: veil.certify(problem(), skewed(), time_limit=0.0)),
    Imported: Sample(imported, lambda: imported("else")),
    Frontier: Sample(frontier, lambda: frontier(0.25)),
    veil.Audit: Sample(audited, lambda: audited(0.9)),
    veil.Fitted: Sample(fitted, lambda: fitted(0.25)),
    veil.Trained: Sample(trained, lambda: trained(0.25)),
    veil.Comparison: Sample(lambda: comparison(), lambda: comparison(2.0)),
    attack_result.Attack: Sample(attack, lambda: attack(2)),
    Quantities: Sample(
        lambda: veil.measures.quantities(problem(), uniform()), lambda: veil.measures.quantities(problem(), skewed())
    ),
    JointTable: Sample(
        lambda: veil.measures.joint_table(problem(), uniform()), lambda: veil.measures.joint_table(problem(), skewed())
    ),
}


# Not values: a class to derive from, some that are in a state, one that enumerates, what a search found, and exceptions.
APART = {
    veil.Policy, veil.ObserverFilter, veil.Status, veil.StudyResult, veil.QueryPlan, veil.Responses, veil.LearnedObserver,
    veil.SurpriseReward,
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Callable[[type], tuple[object, object, object]]:
    """Of a class: an object, the same made again, and another; made once."""
    known: dict[type, tuple[object, object, object]] = {}

    def get(kind: type) -> tuple[object, object, object]:
        if kind not in known:
            known[kind] = SAMPLES[kind].make(), SAMPLES[kind].make(), SAMPLES[kind].other()
        return known[kind]

    return get


def public_classes() -> list[type]:
    found = [getattr(veil, name) for name in veil.__all__]
    return [one for one in found if inspect.isclass(one) and not issubclass(one, Exception)]


def test_every_public_class_is_walked():
    assert set(public_classes()) <= set(SAMPLES) | APART


@looped("kind", SAMPLES)
def test_a_repr_is_one_short_line(kind: type, made):
    one, _, _ = made(kind)
    assert type(one) is kind
    text = repr(one)
    assert "\n" not in text
    assert 3 < len(text) <= 500
    assert kind.__name__ in text
    assert " at 0x" not in text


@looped("kind", SAMPLES)
def test_objects_are_equal_by_content_and_hash_alike(kind: type, made):
    one, again, other = made(kind)
    assert one is not again
    assert one == again
    assert isinstance(one, Hashable)
    assert hash(one) == hash(again)
    assert one != other
    assert one != "something else"
    assert len({one, again, other}) == 2


@looped("kind", SAMPLES)
def test_objects_are_pickled_and_copied(kind: type, made):
    one, _, _ = made(kind)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(one, protocol))
        assert type(back) is kind
        assert back == one
    assert copy.copy(one) == one
    assert copy.deepcopy(one) == one
    assert copy.deepcopy([one, one])[0] == one


@looped("kind", SAMPLES)
def test_objects_cannot_be_changed(kind: type, made):
    one, _, _ = made(kind)
    names = (
        [field.name for field in fields(one)] if is_dataclass(one) else [name for name in vars(one) if name[0] != "_"]
    )
    assert names
    for name in names:
        before = getattr(one, name)
        with pytest.raises(AttributeError):
            setattr(one, name, None)
        with pytest.raises(AttributeError):
            delattr(one, name)
        assert getattr(one, name) is before
        if isinstance(before, np.ndarray):
            assert not before.flags.writeable
    with pytest.raises(AttributeError):
        one.something_new = 1  # pyright: ignore[reportAttributeAccessIssue]
    for array in vars(pickle.loads(pickle.dumps(one))).values():
        if isinstance(array, np.ndarray):
            assert not array.flags.writeable


@looped("kind", SAMPLES)
def test_iteration_is_refused(kind: type, made):
    one, _, _ = made(kind)
    with pytest.raises(TypeError, match="not iterable"):
        iter(one)


@looped("kind", [veil.MarkovPolicy, veil.TimedPolicy, veil.MemoryPolicy])
def test_a_policy_with_a_table_is_that_array(kind: type, made):
    policy, _, _ = made(kind)
    assert np.array_equal(np.asarray(policy), policy.probabilities)
    assert np.asarray(policy, dtype=np.float32).dtype == np.float32
    assert np.array(policy) is not policy.probabilities
    assert np.array(policy).flags.writeable


def test_a_history_policy_is_no_array(made):
    policy, _, _ = made(veil.HistoryPolicy)
    with pytest.raises(TypeError, match=r"policy\.decisions"):
        np.asarray(policy)


@looped("kind", POLICIES)
def test_every_policy_satisfies_the_contract(kind: type, made, tmp_path):
    policy, again, other = made(kind)
    assert isinstance(policy, veil.Policy)
    assert policy.digest() == again.digest() != other.digest()
    assert policy.describe().startswith("a ")
    assert policy.executable
    policy.check(problem())
    assert policy.choice_names(problem()) == problem().model.actions
    policy.save(tmp_path / "policy")
    assert veil.load_policy(tmp_path / "policy") == policy
    observer = problem().observer
    seen = int(np.argmax(observer.emissions[0])) if policy.needs_observations and observer.sees_first else None
    player = policy.player(problem(), seed=3)
    assert player.act(int(np.argmax(problem().model.initial)), seen) in range(2)
    assert player.time == 1
    with pytest.raises(veil.InputError, match="polic"):
        policy.check(veil.gallery.load("paper-last-state"))
    before = pickle.dumps(policy)
    policy.start(problem())
    assert pickle.dumps(policy) == before
    assert policy == again


def test_a_policy_may_be_solved_again_within_its_class(made):
    for kind in (veil.MarkovPolicy, veil.TimedPolicy, veil.MemoryPolicy):
        policy, _, _ = made(kind)
        found = veil.solve(problem(), memory=policy.memory, iterations=2, starts=2, certificate=False)
        assert found.policy.memory == policy.memory


def test_what_is_no_policy_is_refused_by_name():
    for wrong in (np.eye(2), None, "markov", problem()):
        for measure in (veil.opacity, veil.expected_return, veil.ObserverFilter, veil.certify, veil.attack):
            with pytest.raises(veil.InputError, match="expected a policy"):
                measure(problem(), wrong)  # pyright: ignore[reportArgumentType]


def test_a_filter_is_copied_with_its_state():
    watcher = veil.ObserverFilter(problem(), uniform())
    watcher.update(0)
    for twin in (copy.copy(watcher), copy.deepcopy(watcher), pickle.loads(pickle.dumps(watcher))):
        assert twin != watcher
        assert twin.time == watcher.time
        assert np.array_equal(twin.posterior, watcher.posterior)
        twin.update(0)
        assert (twin.time, watcher.time) == (1, 0)
    assert "\n" not in repr(watcher)
    assert "time 0" in repr(watcher)


@looped("given", [None, ("a", "b", "c")])
def test_names_are_a_sequence(given: tuple[str, ...] | None):
    expected = given or ("s0", "s1", "s2")
    found = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros(3), 0, state_names=given).states
    assert isinstance(found, Sequence)
    assert tuple(found) == expected == found[:]
    assert found == expected == found
    assert found == list(expected)
    assert found != expected[:2]
    assert found != "abc"
    assert hash(found) == hash(expected)
    assert (found[-1], found[np.int64(1)], found[::-1]) == (expected[-1], expected[1], expected[::-1])
    assert [name in found for name in (expected[0], "s3", "s00", "s٣", 0, None)] == [True, *[False] * 5]
    assert (found.index(expected[2]), found.count(expected[2]), len(found)) == (2, 1, 3)
    for index in (3, -4):
        with pytest.raises(IndexError):
            found[index]
    with pytest.raises(ValueError, match="unknown state"):
        found.index("x")
    for back in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert back == found
    assert "\n" not in repr(found)


def test_solutions_without_a_proof_are_equal():
    one, other = (
        veil.Solution(uniform(), "", opacity(), 1.0, None, True, veil.Status.CONVERGED, "x") for _ in range(2)
    )
    assert np.isnan(one.upper_bits)
    assert one == other
    assert hash(one) == hash(other)
