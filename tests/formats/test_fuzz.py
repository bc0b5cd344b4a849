"""A short run of the fuzzing of all readers; `make fuzz` is the long one."""

import pytest

from tests.formats import fuzz


def test_mutated_files_are_read_or_refused():
    outcome = fuzz.run(range(120 * len(fuzz.KINDS)), seed=0, kinds=list(fuzz.KINDS))
    assert not outcome.failures, outcome.summary()
    for kind in fuzz.KINDS:  # neither too tame nor too wild
        assert outcome.read[kind] > 1, outcome.summary()
        assert outcome.refused[kind] > 30, outcome.summary()


def test_what_escapes_is_told(monkeypatch: pytest.MonkeyPatch):
    def broken(path: object) -> None:
        raise ZeroDivisionError("on purpose")

    kind = fuzz.KINDS["drn"]
    monkeypatch.setitem(fuzz.KINDS, "drn", fuzz.Kind(kind.name, kind.make, broken))
    outcome = fuzz.run(range(3), seed=0, kinds=["drn"])
    assert [name for name, *_ in outcome.failures.values()] == ["drn"]
    assert "ESCAPED from drn input 0, ZeroDivisionError" in outcome.summary()
