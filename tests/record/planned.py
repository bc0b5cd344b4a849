"""Cases: searches under several constraints, on samples, over features; where searches begin, and what they begin from."""

from functools import cache
from typing import Any

import numpy as np

import veil
from veil.common.clock import UNLIMITED
from veil.planning.best_returns import best_stationary_return, discounted_table, greedy_table
from veil.planning.channels import Asked, make_backend
from veil.planning.feasible_start import feasible_table
from veil.planning.objective import Channels, make_objective
from veil.planning.policy_class import make_space
from veil.planning.soft_starts import soft_starts
from veil.planning.starts import richest_table, spread_starts

from .numbers import of_solution
from .problems import endless, observer, problem, rows, theta
from .registry import case

_FEW: dict[str, Any] = {"certificate": False, "progress": False}


@cache
def constrained() -> veil.Problem:
    """The small problem with a second reward, of which little may be spent, and a formula that must often hold."""
    rewards = {"gain": theta(4, 2).round(2), "energy": theta(4, 2, salt=3).round(2)}
    model = veil.Model(rows(4, 2, 4), rewards, rows(4, salt=3))
    limits = [veil.Return(max="60%", reward="energy"), veil.Probability("F s2", "40%")]
    return veil.Problem(model, observer(), veil.LastState({1, 3}), 3, "30%", constraints=limits)


def under_constraints(method: str, memory: Any, iterations: int) -> dict[str, Any]:
    found = veil.solve(constrained(), method, memory, iterations=iterations, **_FEW)  # type: ignore[arg-type]
    numbers: dict[str, Any] = of_solution(found) | {"values": [one.value for one in found.constraints]}
    numbers["course"]["prices"] = [one.price_bits for one in found.constraints]
    return numbers


case("ascent-constraints", "ascent", "timed", 40, search=True)(under_constraints)
case("ascent-constraints-markov", "ascent", "markov", 40, search=True)(under_constraints)
case("primal-dual-constraints", "primal-dual", "timed", 30, search=True)(under_constraints)
case("game-constraints", "game", "history", 40, search=True)(under_constraints)


def sampled(secret: str, **settings: Any) -> dict[str, Any]:
    of = problem(secret, horizon=4, min_return="60%")
    options = {"evaluation": "sampled", "sequences": 100, "iterations": 12}
    return of_solution(veil.solve(of, **(_FEW | options | settings)))


case("sampled-timed", "last", memory="timed", seed=1, search=True)(sampled)
case("sampled-leakage", "initial", memory="timed", objective="leakage", search=True)(sampled)
case("sampled-transparent", "automaton", goal="transparent", search=True)(sampled)


@case("ascent-features", search=True)
def features() -> dict[str, Any]:
    of = problem("last", horizon=3, min_return="60%")
    found = veil.solve(of, features="one-hot", hidden_units=3, iterations=12, starts=2, **_FEW)
    assert isinstance(found.policy, veil.FeaturePolicy)
    course = {"weights": list(found.policy.weights), "bits": found.history.opacity_bits}
    return {"bits": found.opacity.bits, "course": course}


@case("policies-of-large-return", search=True)
def large_returns() -> dict[str, Any]:
    """Of each problem the greedy tables, and the best stationary return with its table."""
    found: dict[str, Any] = {}
    for name in ("last", "automaton", "model", "model_unknown"):
        of = problem(name)
        value, table = best_stationary_return(of)
        found[name] = {"return": value, "greedy": greedy_table(of), "least": greedy_table(of, smallest=True)}
        found[name] |= {"course": {"table": table}}
    value, table = best_stationary_return(endless())
    plain = {"discounted": discounted_table(problem()), "endless": value, "greedy": greedy_table(endless())}
    return found | plain | {"course": {"table": table}}


@case("where-searches-begin", search=True)
def starts() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for memory in ("markov", "timed"):
        space = make_space(problem("at", min_return="60%"), memory)
        richest = richest_table(space)
        task = make_objective(space, Channels((make_backend(space, Asked(evaluation="sampled")),)))
        limited = make_space(constrained(), memory)
        inside = make_objective(limited, Channels((make_backend(limited, Asked()),)))
        found[memory] = {
            "course": {
                "richest": richest,
                "starts": spread_starts(space, richest, 12, seed=3),
                "soft": np.stack(list(soft_starts(task, UNLIMITED))),
                "feasible": feasible_table(inside, richest_table(limited), UNLIMITED),
            }
        }
    return found
