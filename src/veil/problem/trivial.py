"""Upper bounds on hidden bits that hold for every problem with this secret, and so say nothing about this one."""

import math
from collections.abc import Sequence

import numpy as np

from ..common.logs import entropy_bits
from ..common.rounding import trivial_words
from .pairs import OWN
from .problem import Problem


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
