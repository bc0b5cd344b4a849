"""Upper bounds on hidden bits that hold for every problem with this secret, and so say nothing about this one."""

import math
from collections.abc import Sequence

import numpy as np

from ..common.logs import entropy_bits, log2_of_count
from .pairs import OWN
from .problem import Problem

_TRIVIAL = 1e-6  # bits within which a bound is one that holds without any observation


def trivial_words(upper: float, values: int, prior_bits: float = math.inf) -> str:
    """Why an upper bound in bits says nothing, for parentheses: `trivial: log2 of 3 values`; empty if it says something.

    **Arguments:** `values`: how many the secret has; `prior_bits`: `H(Z)`, if no policy changes it.
    """
    if values < 2 or not math.isfinite(upper):
        return ""
    if upper >= log2_of_count(values) - _TRIVIAL:
        return f"trivial: log2 of {values:,} values"
    return "trivial: H(Z), before anything is observed" if upper >= prior_bits - _TRIVIAL else ""


def trivial_bound(problem: Problem, upper: float, hide: Sequence[str] = (OWN,)) -> str:
    """`trivial_words` of a bound on what every policy hides in the pairs that `hide` names, the least of several."""
    found = (_words(problem.only(name), upper) for name in hide)
    return next((words for words in found if words), "")


def _words(problem: Problem, upper: float) -> str:
    table = problem.secret_table
    if table.path is not None:
        return ""
    return trivial_words(upper, len(table.value_names), math.inf if table.time else _prior_bits(problem))


def _prior_bits(problem: Problem) -> float:
    """`H(Z)` of a secret that is decided before the first decision."""
    table, prior = problem.secret_table, np.zeros(len(problem.secret_table.value_names))
    for weight, model, label in zip(table.prior, problem.models, table.label, strict=True):
        starts = np.flatnonzero(model.initial)
        np.add.at(prior, label[table.memory_start[starts], starts], weight * model.initial[starts])
    return float(entropy_bits(prior))
