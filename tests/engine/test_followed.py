"""What a history policy reaches: policies whose graph does not fit."""

import numpy as np
import pytest

import veil
from tests.problem.test_constraints import make_problem
from veil.engine.compile import build
from veil.engine.followed import follow
from veil.game.pairs import FullHistory
from veil.game.solve import solve_game
from veil.policy.history import Decisions, HistoryPolicy


def history_case() -> tuple[veil.Problem, HistoryPolicy]:
    problem = make_problem(min_return=None, horizon=2)
    return problem, solve_game(problem, FullHistory(), gap=0.05, iterations=3).policy()


def test_a_graph_that_holds_impossible_what_happens_is_refused():
    problem, policy = history_case()
    for time in range(problem.horizon):
        following = [np.array(table) for table in policy.following]
        following[time][:] = -1
        wrong = HistoryPolicy(policy.first, following, policy.decisions)
        with pytest.raises(
            veil.InputError, match=f"it reaches an event at time {time + 1} that its graph holds impossible"
        ):
            follow(problem, wrong)
    with pytest.raises(veil.InputError, match="it reaches an event at time 0 that its graph holds impossible"):
        follow(problem, HistoryPolicy(np.full_like(policy.first, -1), policy.following, policy.decisions))


def test_a_state_without_a_row_is_named():
    problem, policy = history_case()
    chosen = policy.decisions[0]
    kept = chosen.situation != chosen.situation[0]
    fewer = type(chosen)(*(part[kept] for part in (chosen.node, chosen.situation, chosen.value, chosen.probabilities)))
    wrong = HistoryPolicy(policy.first, policy.following, [fewer, *policy.decisions[1:]])
    name = problem.model.states[int(chosen.situation[0])]
    with pytest.raises(veil.InputError, match=f"time 0: it has no row for state '{name}' in node"):
        follow(problem, wrong)


def full_history(problem: veil.Problem, rng: np.random.Generator, told_at: int | None = None) -> HistoryPolicy:
    """A random policy with a node for each history; at `told_at` each node splits by the state, which it then remembers."""
    hidden = build(problem)
    states, events, nodes = problem.num_states, hidden.num_events, hidden.root.shape[1]
    first, following, decisions, told = np.arange(nodes), [], [], None
    for time in range(problem.horizon + 1):
        if time == told_at:
            told = np.arange(nodes * states).reshape(nodes, states)
            nodes *= states
        if time == problem.horizon:
            break
        values = range(hidden.num_values) if time >= hidden.split_time else (-1,)
        keys = np.array([(n, s, z) for n in range(nodes) for s in range(states) for z in values])
        rows = rng.dirichlet(np.ones(problem.num_actions), size=len(keys))
        decisions.append(Decisions(keys[:, 0], keys[:, 1], keys[:, 2], rows))
        following.append(np.arange(nodes * events).reshape(nodes, events))
        nodes *= events
    return HistoryPolicy(first, following, decisions, told_at=told_at, told=told)


def test_an_action_that_is_not_available_is_named():
    """Of two states in which it takes one, the first."""
    moves = np.full((3, 2, 3), 1 / 3)
    moves[1, 0] = moves[2, 1] = 0.0
    model = veil.Model(moves, np.zeros((3, 2)), 0, available=[[True, True], [False, True], [True, False]])
    problem = veil.Problem(
        model, veil.Observer(np.ones((3, 1))), veil.LastState({0}), 2, agent_sees="state+observations"
    )
    policy = full_history(problem, np.random.default_rng(0))
    with pytest.raises(veil.InputError, match="time 1: state 's1' takes action 'a0', which is not available there"):
        follow(problem, policy)


@pytest.mark.parametrize("told_at", [0, 1])
def test_what_the_graph_holds_impossible_stays_so_where_the_policy_is_told_its_place(told_at: int):
    model = veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({0}), 2, agent_sees="state+observations")
    policy = full_history(problem, np.random.default_rng(0), told_at)
    first, following = policy.first.copy(), [table.copy() for table in policy.following]
    (following[0][0] if told_at else first)[1] = -1  # the second event after the first, or at once
    wrong = HistoryPolicy(first, following, policy.decisions, told_at=told_at, told=policy.told)
    with pytest.raises(veil.InputError, match=f"an event at time {told_at} that its graph holds impossible"):
        follow(problem, wrong)
