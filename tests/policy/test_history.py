"""history policies: played step by step they do what was promised; files give the same policy back."""

import random
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.random_problems import random_spec, to_problem
from tests.seeds import in_blocks, looped
from veil.game.pairs import FullHistory, LastEvents
from veil.game.solve import solve_game
from veil.policy.history import Decisions, HistoryPolicy


def solved(seed: int, memory=None):
    rng = random.Random(seed)
    spec = random_spec(rng, work=3000)
    problem = to_problem(spec, rng)
    return problem, solve_game(problem, memory or FullHistory(), gap=0.05, iterations=50)


def draw(rng, weights) -> int:
    return int(rng.choice(len(weights), p=np.asarray(weights) / np.sum(weights)))


def play(problem: veil.Problem, policy: HistoryPolicy, rng, seed: int) -> float:
    """One run in the problem; the return."""
    table, observer = problem.secret_table, problem.observer
    k = draw(rng, table.weights) if table.weights is not None else 0
    model = problem.models[k]
    player = policy.start(problem, seed, model=k if len(problem.models) > 1 else None)
    state, gained, action = draw(rng, model.initial), 0.0, 0
    emissions = observer.emissions
    for time in range(problem.horizon):
        seen = None
        if time or observer.sees_first:
            seen = draw(rng, emissions[action, state] if observer.on_actions else emissions[state])
        action = player.act(model.states[state], None if seen is None else observer.observations[seen])
        assert model.available[state, action]
        gained += model.discount**time * model.rewards[state, action]
        state = draw(rng, model.matrices[action].toarray()[state])
    return gained + model.discount**problem.horizon * model.terminal_rewards[state]


@in_blocks(10, 25, 10)
def test_runs_earn_what_the_game_says(seed):
    problem, result = solved(seed, LastEvents(2) if seed % 3 == 0 else None)
    policy = result.policy()
    if not policy.executable:
        with pytest.raises(veil.InputError, match="not executed"):
            policy.start(problem, model=0)
        return
    rng = np.random.default_rng(seed)
    returns = [play(problem, policy, rng, run) for run in range(300)]
    assert np.mean(returns) == pytest.approx(result.expected_return, abs=5 * np.std(returns) / np.sqrt(300) + 1e-9)


def test_files_give_the_same_policy_back_and_the_same_bytes(tmp_path):
    _problem, result = solved(3)
    policy = result.policy()
    policy.save(tmp_path / "one")
    policy.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    again = HistoryPolicy.load(tmp_path / "one")
    assert again.executable == policy.executable
    assert again.horizon == policy.horizon
    for mine, theirs in zip(policy.decisions, again.decisions, strict=True):
        assert np.array_equal(mine.probabilities, theirs.probabilities)
        assert np.array_equal(mine.node, theirs.node)
    veil.MarkovPolicy(np.full((2, 2), 0.5)).save(tmp_path / "markov")
    with pytest.raises(veil.errors.PolicyFileError, match="expected 'history'"):
        HistoryPolicy.load(tmp_path / "markov")


def test_a_run_refuses_what_cannot_happen_and_stays_as_it_was():
    problem = veil.gallery.load("paper-last-state")
    policy = solve_game(problem, gap=0.1).policy()
    with pytest.raises(veil.VeilError, match="no run has begun"):
        policy.act("r3c1", "0")
    policy.start(problem)
    with pytest.raises(veil.InputError, match="is impossible at time 0"):
        policy.act("r0c0", "0")
    with pytest.raises(veil.InputError, match="missing at time 0"):
        policy.act("r3c1")
    assert 0 <= policy.act("r3c1", "0") < 5


# What is refused when a policy is built


def rows(node=(0,), situation=(0,), value=(-1,), probabilities=((0.5, 0.5),)) -> Decisions:
    nodes, situations, values = (np.array(column, dtype=np.int64).reshape(-1) for column in (node, situation, value))
    return Decisions(nodes, situations, values, np.array(probabilities, dtype=float).reshape(-1, 2))


def parts(**changes) -> dict:
    """One decision on two nodes, with two events."""
    graph = {"first": np.array([0, 1]), "following": [np.array([[0, -1], [1, 0]])]}
    decisions = [rows((0, 0, 1), (0, 3, 0), (-1, -1, -1), ((1, 0), (0.5, 0.5), (0, 1)))]
    return graph | {"decisions": decisions} | changes


WRONG = {
    "floats for nodes": ({"first": np.array([0.0, 1.0])}, "the first nodes: float64"),
    "too few axes": ({"following": [np.array([0, 1])]}, "the graph at time 0: .* expected integers with 2 axes"),
    "a first node that is not there": ({"first": np.array([0, 2])}, "the first nodes: nodes from 0 to 2, .* below 2"),
    "a node below -1": ({"following": [np.array([[-2, 0], [0, 0]])]}, "the graph at time 0: nodes from -2"),
    "no step for a decision": ({"following": []}, "1 decisions and 0 steps"),
    "a row of no node": ({"decisions": [rows(node=(2,))]}, "time 0: nodes from 2 to 2, expected 0 … 1"),
    "a negative situation": ({"decisions": [rows(situation=(-1,))]}, "situations from -1"),
    "a value below -1": ({"decisions": [rows(value=(-2,))]}, "values from -2"),
    "a key given twice": (
        {"decisions": [rows((0, 0), (1, 1), (0, 0), ((1, 0), (0, 1)))]},
        r"keys \(node, situation, value\) do not increase strictly",
    ),
    "keys out of order": ({"decisions": [rows((0, 0), (2, 1), (0, 0), ((1, 0), (0, 1)))]}, "do not increase strictly"),
    "keys out of order in the last column": (
        {"decisions": [rows((0, 0), (1, 1), (1, 0), ((1, 0), (0, 1)))]},
        "do not increase strictly",
    ),
    "columns of other lengths": ({"decisions": [rows((0, 1), (0,), (-1,))]}, "not lists of one length"),
    "a row that is no distribution": ({"decisions": [rows(probabilities=((0.5, 0.4),))]}, "row 0 at time 0 is"),
    "not a number": ({"decisions": [rows(probabilities=((np.nan, 1.0),))]}, "expected a distribution"),
    "told without a time": ({"told": np.zeros((2, 4), dtype=int)}, "told_at and told are given one without the other"),
    "told at no time": (
        {"told": np.zeros((2, 4), dtype=int), "told_at": 2},
        "told_at is 2, expected a time from 0 to 1",
    ),
    "told at a truth value": ({"told": np.zeros((2, 4), dtype=int), "told_at": True}, "told_at is True"),
    "told of no node": ({"told": np.full((2, 4), 7), "told_at": 0}, "the nodes that it is told: nodes from 7"),
    "executable as a number": ({"executable": 1}, "executable is 1, expected True or False"),
    "lists for arrays": ({"first": [0, 1]}, "given a list, expected NumPy arrays"),
}


@looped("case", WRONG)
def test_what_is_no_policy_is_refused_when_it_is_built(case: str):
    changes, message = WRONG[case]
    with pytest.raises(veil.InputError, match=message):
        HistoryPolicy(**parts(**changes))


def test_arrays_of_the_caller_are_not_shared():
    given = parts()
    policy = HistoryPolicy(**given)
    for array in (given["first"], given["following"][0]):
        array[...] = 0
    assert policy == HistoryPolicy(**parts())
    given = parts()
    table = np.array([[1.0, 0.0]])
    given["decisions"] = [Decisions(np.array([0]), np.array([0]), np.array([-1]), table)]
    policy = HistoryPolicy(**given)
    table[0] = [0.0, 1.0]
    assert policy.decisions[0].probabilities.tolist() == [[1.0, 0.0]]


def test_rows_are_found_by_their_keys():
    decisions = HistoryPolicy(**parts()).decisions[0]
    keys = [(0, 0, -1), (0, 3, -1), (1, 0, -1), (0, 1, -1), (1, 3, -1), (0, 0, 0), (2, 0, -1)]
    expected = [0, 1, 2, None, None, None, None]
    assert [decisions.find(*key) for key in keys] == expected
    found = decisions.places(*(np.array(column) for column in zip(*keys, strict=True)))
    assert found.tolist() == [-1 if row is None else row for row in expected]


@looped(
    ("change", "message"),
    [
        ({"situation": 10**6}, "situation 1000000 does not exist"),
        ({"value": 5}, "values of the secret run outside"),
        ({"value": -1}, "values of the secret run outside"),
    ],
)
def test_keys_that_the_problem_does_not_have_are_refused(change, message):
    """A row beyond the last situation would stand for one of the next node, where numbers are put together."""
    problem, result = solved(5)
    policy = result.policy()
    time = problem.horizon - 1
    assert time >= problem.secret_table.time
    rows = policy.decisions[time]
    last = {name: np.concatenate([getattr(rows, name)[:-1], [new]]) for name, new in change.items()}
    decisions = [*policy.decisions[:-1], replace(rows, **last)]
    changed = HistoryPolicy(policy.first, policy.following, decisions)
    for use in (changed.check, changed.player, lambda where: veil.opacity(where, changed)):
        with pytest.raises(veil.InputError, match=message):
            use(problem)


def test_files_are_checked_as_policies_are_built(tmp_path):
    """A file that an editor of bytes has made: the same numbers, two rows for one key."""
    policy = HistoryPolicy(**parts())
    policy.save(tmp_path / "good")
    content = (tmp_path / "good").read_bytes()
    keys = policy.decisions[0].situation.tobytes()
    assert content.count(keys) == 1
    changed = np.array([0, 0, 0], dtype=policy.decisions[0].situation.dtype).tobytes()
    (tmp_path / "bad").write_bytes(content.replace(keys, changed))
    assert veil.load_policy(tmp_path / "good") == policy
    with pytest.raises(veil.InputError, match=r"bad.*do not increase strictly"):
        veil.load_policy(tmp_path / "bad")
