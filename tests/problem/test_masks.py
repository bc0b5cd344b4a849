"""Masks: the published example, scenario files, and refusals."""

import numpy as np
import pytest

import veil
from tests.random_problems import distributions
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint


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
