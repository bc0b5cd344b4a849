"""What is observed of a chain with formulas among its constraints: the same secret in fewer states."""

import numpy as np

import veil
from veil.engine.compile import build
from veil.engine.hidden import observed

FORMULAS = ("F (s2 & X s1)", "G !s3", "s1 U s2")


def problem_with(*constraints: veil.Probability, seed: int = 0, **changes: object) -> veil.Problem:
    """Four states, a random model of which about half of the moves are possible."""
    rng = np.random.default_rng(seed)
    moves = rng.random((4, 2, 4)) * (rng.random((4, 2, 4)) < 0.6) + 0.2 * np.eye(4)[:, None, :]
    model = veil.Model(moves / moves.sum(axis=2, keepdims=True), rng.random((4, 2)), rng.dirichlet(np.ones(4)))
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=4))
    given: dict = {"secret": veil.LastState({1, 2}), "constraints": constraints, **changes}
    return veil.Problem(model, observer, given.pop("secret"), 4, **given)


def test_what_the_agent_or_the_secret_follows_stays():
    free, known = veil.Probability("F (s2 & X s1)", min=0.1), veil.Probability("G !s3", min=0.1, agent_knows=True)
    small, whole = (observed(build(problem_with(known, *more))).num_states for more in ((), (free,)))
    assert whole == small < build(problem_with(known, free)).num_states
    assert observed(build(problem_with(free))).num_states == 4
    alone = problem_with(known)
    assert observed(build(alone)) is build(alone)
    same = problem_with(veil.Probability("F s3", min=0.1), secret=veil.Holds("F s3"))
    assert observed(build(same)) is build(same)
