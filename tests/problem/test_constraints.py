"""Constraints: what they mean, how they are resolved, in files, in the fingerprint, and bad ones refused."""

import pickle
from typing import Any, cast

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.problem.fingerprint import fingerprint


def make_model(seed: int = 0, states: int = 4, actions: int = 2, discount: float = 1.0) -> veil.Model:
    """A random model with the rewards `gain` and `energy`."""
    rng = np.random.default_rng(seed)
    return veil.Model(
        rng.dirichlet(np.full(states, 0.5), size=(states, actions)),
        {"gain": rng.normal(size=(states, actions)), "energy": rng.random((states, actions))},
        rng.dirichlet(np.ones(states)),
        discount,
        terminal_rewards={"energy": rng.random(states)},
    )


def make_problem(constraints: Any = (), seed: int = 0, horizon: int = 3, **more: Any) -> veil.Problem:
    """A random problem whose secret is whether the last state is s0."""
    rng = np.random.default_rng([seed, 1])
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=4))
    parts: dict[str, Any] = {"min_return": "50%"} | more
    return veil.Problem(make_model(seed), observer, veil.LastState([0]), horizon, constraints=constraints, **parts)


ALL = (
    veil.Return(max="60%", reward="energy"),
    veil.Probability("G !bad", "40%", labels={"bad": ["s2"]}),
)


def test_the_first_constraint_is_the_threshold_on_the_return():
    problem = make_problem([veil.Return(min=0.2, max=0.9)], min_return=None)
    assert problem.min_return == 0.2
    assert problem.constraints == (veil.Return(min=0.2), veil.Return(max=0.9))
    assert problem == make_problem([veil.Return(max=0.9, reward="gain")], min_return=0.2)
    assert problem.replace(min_return=None).constraints == (veil.Return(max=0.9),)
    alone = make_problem([veil.Return(min=0.2)], min_return=None)
    assert fingerprint(alone) == fingerprint(make_problem(min_return=0.2))


def test_named_rewards_of_a_model():
    model = make_model()
    assert list(model.named_rewards) == ["gain", "energy"]
    assert np.array_equal(model.rewards, model.named_rewards["gain"].paid)
    assert not model.terminal_rewards.any()
    assert pickle.loads(pickle.dumps(model)) == model
    entries = [("a", "go", "b", 1.0), ("b", "go", "b", 1.0)]
    made = veil.Model.from_entries(entries, {"gain": {"a": 1.0}, "energy": {("b", "go"): 2.0}}, "a")
    assert made.named_rewards["energy"].paid.tolist() == [[0.0], [2.0]]


def test_the_rows_of_a_policy_are_what_the_agent_knows():
    assert make_problem(ALL).num_cells == 4
    knowing = make_problem([veil.Probability("G !bad", 0.1, labels={"bad": [2]}, agent_knows=True)])
    assert knowing.num_cells == 8
    assert len(knowing.cell_names) == 8
    secret = veil.Holds("F s1", agent_knows=True)
    one = make_problem(ALL).replace(secret=secret)  # of the secret alone, not of the formulas
    assert one.num_cells == 4 * 2
    both = make_problem([veil.Probability("G !s2", 0.1, agent_knows=True)]).replace(secret=secret)
    assert both.num_cells == 4 * len(both.secret_table.memory_names)
    assert both.knows_all
    assert not one.knows_all


@looped("observer_times", [None, [1, 3]])
def test_files_and_copies_keep_constraints(tmp_path, observer_times: list[int] | None):
    problem = make_problem(ALL)
    emissions = problem.observer.matrices[0].toarray()
    problem = problem.replace(observer=veil.Observer(emissions, times=observer_times))
    problem.save(tmp_path / "problem.toml")
    read = veil.load(tmp_path / "problem.toml")
    assert fingerprint(read) == fingerprint(problem)
    assert [one.text for one in read.bounds] == [one.text for one in problem.bounds]
    assert pickle.loads(pickle.dumps(problem)) == problem
    policy = veil.MarkovPolicy.uniform(problem)
    values, again = (veil.constraint_values(one, policy) for one in (problem, read))
    assert values == again
    unrolled = veil.constraint_values(problem.unrolled(), veil.MarkovPolicy.uniform(problem.unrolled()))
    assert np.allclose([one.value for one in unrolled], [one.value for one in values], atol=1e-12)


def test_every_part_of_a_constraint_is_in_the_fingerprint():
    limits = [
        (),
        ALL[:1],
        ALL[1:],
        ALL,
        [veil.Return(min="60%", reward="energy")],
        [veil.Return(max="61%", reward="energy")],
        [veil.Return(max="60%")],
        [veil.Probability("F bad", "40%", labels={"bad": ["s2"]})],
        [veil.Probability("G !bad", "40%", labels={"bad": ["s1"]})],
        [veil.Probability("G !bad", "40%", labels={"bad": ["s2"]}, agent_knows=True)],
    ]
    assert len({fingerprint(make_problem(one)) for one in limits}) == len(limits)


@looped(
    ("make", "message"),
    [
        (lambda: veil.Return(), "neither min nor max"),
        (lambda: veil.Return(min=2, max=1), "expected min ≤ max"),
        (lambda: veil.Return(min="130%"), "from 0% to 100%"),
        (lambda: veil.Return(min=float("nan")), "a finite number"),
        (lambda: veil.Probability("F a", min=1.5), "from 0 to 1"),
        (lambda: veil.Probability(cast(Any, 3), min=0.5), "expected a text or a veil.Formula"),
        (lambda: make_problem([veil.Return(max=1, reward="enery")]), "did you mean 'energy'"),
        (lambda: make_problem([veil.Probability("G !sx", min=0.5)]), "'sx' is neither in labels"),
        (lambda: make_problem([veil.Probability("G (", min=0.5)]), "column"),
        (lambda: make_problem([3]), "constraint 0 is a int"),
        (lambda: make_problem(3), "constraint 0 is a int"),
        (lambda: make_problem(ALL, return_over="infinite"), "takes min_return alone"),
    ],
)
def test_bad_constraints_are_refused(make, message: str):
    with pytest.raises(veil.InputError, match=message):
        make()


BAD_FILES = {
    'min = 1\nreward = "enery"': "did you mean",
    'min = 0.5\nformula = "G ("': "column",
    'min = 0.5\nformula = "G s0"\nreward = "energy"': "expected one of them",
    "min = 0.5\nagent_knows = true": "without a formula",
    'reward = "energy"': "neither min nor max",
}


@looped("text", BAD_FILES)
def test_bad_tables_name_their_line(tmp_path, text: str):
    make_problem(ALL[:1]).save(tmp_path / "problem.toml")
    whole = (tmp_path / "problem.toml").read_text().replace('reward = "energy"\nmax = "60%"', text)
    (tmp_path / "problem.toml").write_text(whole)
    with pytest.raises(veil.VeilError, match=BAD_FILES[text]) as error:
        veil.load(tmp_path / "problem.toml")
    assert "constraints" in str(error.value)
