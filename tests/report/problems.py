"""Worlds for the tests of pictures: one with names that mean harm, one that is large."""

import numpy as np

import veil
from veil.planning.solution import History, Solution, Status

# What people may call things: markup, an end of a script, a formula, quotes, directions, half a letter, nothing to see.
HARM = (
    "<script>window.harmed=1</script>",
    "</script><img src=x onerror=window.harmed=1>",
    "$\\frac{1}{0$",
    "\"'&amp; {data}",
    "line\nbreak‮abc",
    "\x00 snow☃ 漢字",
)


def hostile() -> veil.Problem:
    """A ring of states with such names, actions and observations too."""
    size = len(HARM)
    step = np.zeros((size, 2, size))
    step[np.arange(size), 0, (np.arange(size) + 1) % size] = 1
    step[np.arange(size), 1, np.arange(size)] = 1
    model = veil.Model(step, np.eye(size)[1], 0, state_names=HARM, action_names=[HARM[0] + "!", HARM[2] + "!"])
    seen = np.eye(size) * 0.6 + 0.4 / size
    observer = veil.Observer(seen, [name + "?" for name in HARM], sees_actions=True, silent=0)
    secret = veil.Automaton({("<b>", "x"): HARM[1]}, "<b>", {HARM[1]}, {HARM[3]: "x"}, "y", "stay")
    return veil.Problem(model, observer, secret, 3, 0.1, name=HARM[1])


def large(side: int = 101, horizon: int = 50) -> tuple[veil.Problem, Solution]:
    """A grid of more than ten thousand states, and an answer for it that nobody had to search for."""
    sensors = [
        veil.Sensor(name, [(r, c) for r in range(row, row + 20) for c in range(column, column + 20)], 0.8, 0.01)
        for name, row, column in (("west", 2, 3), ("east", 42, 70), ("south", 75, 40))
    ]
    world = veil.GridWorld(
        side, side, starts=[(0, 0), (50, 50), (90, 10)], goals={(side - 1, side - 1): 1.0, (49, 52): 0.5},
        secrets=[(50, column) for column in range(50, 60)], sensors=sensors,
    )  # fmt: skip
    problem = world.problem(horizon, min_return=0.1, name="large")
    theta = np.random.default_rng(0).normal(size=(problem.num_states, problem.num_actions))
    policy = veil.MarkovPolicy.softmax(2 * theta, problem)
    opacity = veil.opacity(problem, policy, "sampled", sequences=20)
    history = History.of([(i, 0.1 * i, 0.2 * i, 0.0, 0.1, 0.1 * i) for i in range(5)])
    earned = veil.expected_return(problem, policy)
    found = Solution(
        policy, "stationary Markov policies", opacity, earned, 0.1, earned >= 0.1, Status.CONVERGED, "ascent",
        history=history,
    )  # fmt: skip
    return problem, found
