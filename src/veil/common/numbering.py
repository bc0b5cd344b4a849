"""Numbering without loops: entries of rows of different lengths, different keys, and places that are marked."""

import numpy as np
from jaxtyping import Bool, Int

_TABLE_NUMBERS, _TABLE_SHARE = (
    2**20,
    8,
)  # keys are numbered by a table of this size or share of their number, else by sorting


def ragged(begin: Int[np.ndarray, " n"], length: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """`begin[i], begin[i] + 1, …`, `length[i]` of them, for one i after the other: the entries of some rows in CSR format.

    Example: `ragged([5, 0], [2, 3])` is `[5, 6, 0, 1, 2]`.
    """
    length = np.asarray(length)
    return np.arange(int(length.sum())) + np.repeat(begin - (np.cumsum(length) - length), length)


def number_keys(keys: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " n"]]:
    """The different keys, 0 or more, in order, and the number of each entry's key among them."""
    size = int(keys.max(initial=-1)) + 1
    if size > max(_TABLE_NUMBERS, _TABLE_SHARE * len(keys)):
        found, number = np.unique(keys, return_inverse=True)
        return found, number.ravel()
    mark = np.zeros(size, dtype=bool)
    mark[keys] = True
    found = np.flatnonzero(mark)
    place = np.empty(size, dtype=np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return found, place[keys]


def number_true(possible: Bool[np.ndarray, "*n"]) -> Int[np.ndarray, "*n"]:
    """0, 1, 2, … where True in the order of the array, -1 elsewhere."""
    number = np.cumsum(possible, dtype=np.int32).reshape(possible.shape) - 1
    return np.where(possible, number, -1).astype(np.int32)
