"""Masks: opacity and cost against all runs one by one, the published example, scenario files, and refusals."""

import math
from collections import defaultdict

import numpy as np
import pytest

import veil
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint

CHANNELS = ("plain", "on actions", "sees actions", "sees no start")


def distributions(rng: np.random.Generator, *shape: int) -> np.ndarray:
    found = rng.uniform(0.05, 1, shape) * (rng.random(shape) < 0.8) + 1e-3
    return found / found.sum(axis=-1, keepdims=True)


def random_problem(seed: int, channel: str = "plain") -> veil.Problem:
    """Three states; two sensors whose readings are `one`, `two` and `both`."""
    rng = np.random.default_rng(seed)
    states, actions, horizon = 3, int(rng.integers(1, 3)), int(rng.integers(1, 4))
    model = veil.Model(
        distributions(rng, states, actions, states), rng.normal(size=(states, actions)), distributions(rng, states)
    )
    shape = (actions, states, 4) if channel == "on actions" else (states, 4)
    observer = veil.Observer(
        distributions(rng, *shape),
        ["nothing", "one", "two", "both"],
        channel == "sees actions",
        channel != "sees no start",
        silent="nothing",
        sensors={"first": {"one": "nothing", "both": "two"}, "second": {"two": "nothing", "both": "one"}},
    )
    return veil.Problem(model, observer, veil.LastState([0]), horizon)


MUTED = {0: [0, 1, 2, 3], 1: [0, 0, 2, 2], 2: [0, 1, 0, 1]}  # what a reading is shown as under each mask


def all_runs(problem: veil.Problem, table: np.ndarray, visible: bool, costs: np.ndarray) -> tuple[dict, float]:
    """`P(secret, y)` with masks, and the expected cost, by following every run; rows and columns of `table` are pairs."""
    model, observer = problem.model, problem.observer
    actions, found, paid = problem.num_actions, defaultdict(float), 0.0
    emissions = observer.emissions if observer.on_actions else np.stack([observer.emissions] * actions)
    for state in range(3):
        rows = enumerate(emissions[0][state]) if observer.sees_first else [(None, 1.0)]
        for seen, chance in rows:
            first = (seen, 0) if visible and seen is not None else seen
            found[state, 0, (first,)] += model.initial[state] * chance
    for _ in range(problem.horizon):
        longer = defaultdict(float)
        for (state, mask, events), weight in found.items():
            for number, taken in enumerate(table[state * 3 + mask]):
                action, following = divmod(number, 3)
                paid += weight * taken * costs[mask, following]
                for target in range(3):
                    for reading, chance in enumerate(emissions[action][target]):
                        shown = MUTED[following][reading]
                        event = (shown, following) if visible else shown
                        event = (action, following, event) if observer.sees_actions else event
                        step = taken * model.transitions[state, action, target] * chance
                        longer[target, following, (*events, event)] += weight * step
        found = longer
    joint = defaultdict(float)
    for (state, _, events), weight in found.items():
        joint[state == 0, events] += weight
    return joint, paid


def hidden_bits(joint: dict) -> float:
    total = defaultdict(float)
    for (_, events), weight in joint.items():
        total[events] += weight
    return -math.fsum(w * math.log2(w / total[events]) for (_, events), w in joint.items() if w > 0)


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("visible", [True, False])
def test_all_runs(channel: str, visible: bool) -> None:
    """Opacity and expected cost of random policies on (state, mask)."""
    if channel == "sees actions" and not visible:
        return
    for seed in range(4):
        problem = random_problem(seed, channel)
        masks = veil.Masks(costs={"first": 2, "second": 3}, keep_discount=0.25, visible=visible)
        masked = masks.apply(problem, [veil.Return(max=100, reward="masking")])
        table = distributions(np.random.default_rng([seed, 1]), 9, 3 * problem.num_actions)
        policy = veil.MarkovPolicy(table)
        costs = np.array([[0, 2, 3], [0, 0.5, 3], [0, 2, 0.75]])
        joint, paid = all_runs(problem, table, visible, costs)
        assert veil.opacity(masked, policy, "exact").bits == pytest.approx(hidden_bits(joint), abs=1e-12)
        assert veil.constraint_values(masked, policy)[0].value == pytest.approx(paid, abs=1e-12)


def test_never_masked() -> None:
    """A policy that never masks hides and earns what it does without masks; sensors that are not named stay."""
    problem = random_problem(5).replace(min_return=-10)
    masked = veil.Masks(sensors=["second"]).apply(problem)
    assert masked.model.states.all()[:2] == ("s0/none", "s0/second")
    rows = distributions(np.random.default_rng(0), 3, problem.num_actions)
    wide = np.zeros((3, 2, problem.num_actions, 2))
    wide[:, :, :, 0] = rows[:, None]
    policy, plain = veil.MarkovPolicy(wide.reshape(6, -1)), veil.MarkovPolicy(rows)
    assert veil.opacity(masked, policy).bits == pytest.approx(veil.opacity(problem, plain).bits, abs=1e-12)
    assert veil.expected_return(masked, policy) == pytest.approx(veil.expected_return(problem, plain), abs=1e-12)


def test_constraints_and_secrets_are_kept() -> None:
    """A constraint on a formula and a secret with a memory mean the same in the problem with masks."""
    problem = random_problem(6).replace(
        secret=veil.Holds("F a", {"a": ["s1"]}), constraints=[veil.Probability("G !b", min=0.0, labels={"b": ["s2"]})]
    )
    masked = veil.Masks().apply(problem)
    plain = veil.constraint_values(problem, veil.MarkovPolicy.uniform(problem))
    found = veil.constraint_values(masked, veil.MarkovPolicy.uniform(masked))
    assert found[0].value == pytest.approx(plain[0].value, abs=1e-12)
    path = veil.Masks().apply(random_problem(6).replace(secret=veil.Trajectory()))
    assert veil.opacity(path, veil.MarkovPolicy.uniform(path)).bits > 0


@pytest.mark.parametrize(("budget", "published"), [(60, 0.70), (20, 0.67)])
def test_the_published_example(budget: float, published: float) -> None:
    """At least what was published, within the budget."""
    problem = veil.gallery.load("dynamic-masks").replace(constraints=[veil.Return(max=budget, reward="masking")])
    found = veil.solve(problem, iterations=200, certificate=False)
    assert found.feasible
    assert published <= found.opacity.bits <= 0.7143


def test_the_bound_of_the_published_example() -> None:
    """Without a budget no policy hides more than 0.7143 bits, by its certificate."""
    problem = veil.gallery.load("dynamic-masks").replace(constraints=[])
    policy = veil.MarkovPolicy.uniform(problem)
    proof = veil.certify(problem, policy, gap=1e-4)
    assert veil.verify(proof, problem, policy)
    assert proof.upper <= 0.7143


def test_scenario_files() -> None:
    """The `[masks]` table; defects name their place."""
    text = veil.gallery.scenario_text("dynamic-masks")
    problem = read_scenario(text).problem
    assert problem.num_states == 35
    assert problem.model.actions.all() == ("none", "R", "G", "P", "B")
    hidden = read_scenario(text.replace("keep_discount = 0.5", "visible = false")).problem
    assert hidden.observer.num_observations == 5
    with pytest.raises(veil.VeilError, match="unknown sensor 'Q'"):
        read_scenario(text.replace("[masks]", '[masks]\nsensors = ["Q"]'))
    assert isinstance(problem.secret, veil.LastState)
    formula = random_problem(0).replace(
        secret=veil.Holds("F s1"), constraints=[veil.Probability("F a", max=1, labels={"a": ["s2"]})]
    )
    masked = veil.Masks().apply(formula)
    assert fingerprint(read_scenario(to_toml(masked)).problem) == fingerprint(masked)


def test_what_is_refused() -> None:
    """All defects at once, each with a remedy."""
    with pytest.raises(veil.InputError, match=r"3 defects(.|\n)*cost of first(.|\n)*keep_discount(.|\n)*visible"):
        veil.Masks(costs={"first": -1}, keep_discount=2, visible="no")  # pyright: ignore[reportArgumentType]
    problem = random_problem(0)
    for masks, changed, words in [
        (veil.Masks(["third"]), problem, "unknown sensor 'third'"),
        (veil.Masks(["first", "first"]), problem, "named twice"),
        (veil.Masks(costs={"third": 1}), problem, "cost of unknown sensor"),
        (veil.Masks(), problem.replace(observer=problem.observer.replace(sensors={})), "no sensors to mask"),
        (veil.Masks(visible=False), random_problem(0, "sees actions"), "visible=True"),
    ]:
        with pytest.raises(veil.InputError, match=words):
            masks.apply(changed)
