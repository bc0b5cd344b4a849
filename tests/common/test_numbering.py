"""Ragged ranges, numbers of keys and of marked places, against loops."""

import numpy as np

from veil.common.numbering import number_keys, number_true, ragged


def test_entries_of_rows():
    rng = np.random.default_rng(0)
    for rows in (0, 1, 5, 40):
        begin, length = rng.integers(0, 100, rows), rng.integers(0, 4, rows)
        expected = [start + k for start, count in zip(begin, length, strict=True) for k in range(count)]
        assert ragged(begin, length).tolist() == expected


def test_different_keys_in_order_whatever_their_size():
    rng = np.random.default_rng(1)
    for largest in (1, 10, 2**20, 2**40):
        keys = rng.integers(0, largest, 30)
        found, number = number_keys(keys)
        assert found.tolist() == sorted(set(keys.tolist()))
        assert found[number].tolist() == keys.tolist()
    found, number = number_keys(np.zeros(0, dtype=np.int64))
    assert (len(found), len(number)) == (0, 0)


def test_marked_places():
    marked = np.array([[False, True], [True, False]])
    assert number_true(marked).tolist() == [[-1, 0], [1, -1]]
