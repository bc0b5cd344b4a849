"""The table of policy classes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import veil
from tests.planning.small_problems import random_problem
from veil.planning import compare as module


def test_classes_are_nested_and_bounded():
    problem = random_problem(1)
    found = veil.compare(problem)
    words = [row.policy_class for row in found.rows]
    assert words[0] == "stationary Markov policies"
    assert words[1] == "time-dependent policies"
    assert len(words) == 4
    bits = [row.opacity.bits for row in found.rows]
    assert bits == sorted(bits)
    assert bits[-1] <= found.upper_bits
    for row in found.rows:
        assert row.feasible
        assert row.expected_return >= (found.threshold or 0)
        assert f"{row.opacity.bits:.4f}" in found.summary()
    assert "Proven upper bound" in found.summary()


def test_a_class_that_ends_lower_has_the_policy_of_the_smaller_one():
    row = module.compare(random_problem(2), memories=("markov",), certificate=False).rows[0]
    lower = replace(row, feasible=False, policy_class="larger")
    kept = module._at_least(lower, row)
    assert kept.policy == row.policy
    assert kept.policy_class == "larger"
    assert kept.from_smaller_class
    assert kept.feasible


def test_what_cannot_be_searched_is_listed(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise veil.TooLargeError("too many histories")

    monkeypatch.setattr(module, "solve", refuse)
    with pytest.raises(veil.TooLargeError):
        veil.compare(random_problem(0), memories=("markov",))


@pytest.mark.parametrize("memories", [(), ("markov", "clock"), ["markov"]])
def test_wrong_classes_are_refused(memories: Any):
    with pytest.raises(veil.InputError, match="memories"):
        veil.compare(random_problem(0), memories=memories)


def test_time_is_shared():
    found = veil.compare(random_problem(0), memories=("markov", "timed"), time_limit=0.0)
    assert [row.status.name for row in found.rows] == ["NOT_SEARCHED", "NOT_SEARCHED"]


class Asked:
    """Stands in for `solve`, notes what it is asked, and answers with bits of a list; None there refuses."""

    def __init__(self, answers: list[dict[str, Any] | None]):
        self.answers, self.given = answers, list[dict[str, Any]]()
        self.base = veil.solve(random_problem(1), iterations=0, certificate=False, progress=False)

    def __call__(self, problem: veil.Problem, method: str = "auto", memory: Any = "markov", **given: Any) -> Any:
        answer = self.answers[len(self.given)]
        self.given.append({"method": method, "memory": memory, **given})
        if answer is None:
            raise veil.TooLargeError("too many histories")
        hidden = replace(self.base.opacity, bits=answer.pop("bits", 0.5))
        return replace(self.base, opacity=hidden, policy_class=str(memory), seconds=1.25, **answer)


def compared(
    monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any] | None], **options: Any
) -> tuple[Any, Asked]:
    asked = Asked(answers)
    monkeypatch.setattr(module, "solve", asked)
    return veil.compare(random_problem(1), **options), asked


def test_each_search_begins_from_the_best_so_far_and_keeps_it(monkeypatch: pytest.MonkeyPatch):
    answers: list[Any] = [
        {"bits": 0.4},
        {"bits": 0.9, "feasible": False},
        {"bits": 0.3},
        {"bits": 0.4, "upper_bits": 0.75},
    ]
    found, asked = compared(monkeypatch, answers, certificate=False, seed=7)
    assert [one["memory"] for one in asked.given] == ["markov", "timed", veil.StateMemory(1), "history"]
    assert [one["method"] for one in asked.given] == ["auto", "auto", "auto", "game"]
    assert all(one["seed"] == 7 and one["time_limit"] is None and not one["certificate"] for one in asked.given)
    assert [one.get("start") for one in asked.given] == [None, asked.base.policy, asked.base.policy, None]
    assert [row.opacity.bits for row in found.rows] == [0.4, 0.4, 0.4, 0.4]
    assert [row.from_smaller_class for row in found.rows] == [False, True, True, False]
    assert all(row.feasible for row in found.rows)
    assert found.upper_bits == 0.75
    assert found.threshold == asked.base.threshold
    lines = found.summary().splitlines()
    width = len(str(veil.StateMemory(1)))
    assert lines[0] == f"{'class':<{width}}      bits     return  seconds  status"
    assert lines[1].split()[:2] == ["markov", "0.4000"]
    assert lines[1].endswith("     1.2  iteration limit")
    assert lines[2].endswith("iteration limit, from a smaller class")
    assert lines[5:] == ["Proven upper bound over all policies: 0.750000 bits."]


def test_a_class_that_is_too_large_is_listed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch):
    found, _ = compared(
        monkeypatch, [None, {"bits": 0.2}, None], memories=("markov", "timed", "history"), certificate=False
    )
    assert [row.policy_class for row in found.rows] == ["timed"]
    assert found.failed == (("markov", "too many histories"), ("history", "too many histories"))
    assert found.upper_bits == float("inf")
    assert found.summary().splitlines()[2:] == [
        "Not searched: markov: too many histories", "Not searched: history: too many histories",
    ]  # fmt: skip


@pytest.mark.parametrize(("certificate", "parts"), [(True, [4, 3, 2]), (False, [3, 2, 1])])
def test_searches_and_proof_share_the_time_equally(
    monkeypatch: pytest.MonkeyPatch, certificate: bool, parts: list[int]
):
    """Searches that take no time leave all of it: to n that are to come each is given the n-th part."""
    proofs: list[float] = []

    def certify(problem: veil.Problem, policy: veil.Policy, seconds: float, **_: Any) -> Any:
        proofs.append(seconds)
        return replace(asked_proof, upper=0.6)

    asked_proof = veil.certify(random_problem(1), veil.MarkovPolicy.uniform(random_problem(1)), 0.5, progress=False)
    monkeypatch.setattr(module, "certify", certify)
    answers: list[Any] = [{"bits": 0.1}, {"bits": 0.2}, {"bits": 0.3, "upper_bits": 0.9}]
    found, asked = compared(
        monkeypatch, answers, memories=("markov", "timed", "history"), time_limit=6000.0, certificate=certificate
    )
    assert [one["time_limit"] * part for one, part in zip(asked.given, parts, strict=True)] == pytest.approx(
        [6000.0] * 3, abs=60
    )
    assert proofs == pytest.approx([6000.0] * certificate, abs=60)
    assert found.upper_bits == (0.6 if certificate else 0.9)


def test_without_a_limit_the_proof_takes_twenty_seconds_and_without_a_feasible_row_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
):
    proofs: list[float] = []

    def refuse(problem: veil.Problem, policy: veil.Policy, seconds: float, **_: Any) -> Any:
        proofs.append(seconds)
        raise veil.TooLargeError("no proof")

    monkeypatch.setattr(module, "certify", refuse)
    found, _ = compared(monkeypatch, [{"bits": 0.2}], memories=("markov",))
    assert (found.upper_bits, proofs) == (float("inf"), [20.0])
    found, _ = compared(monkeypatch, [{"bits": 0.2, "feasible": False}], memories=("markov",))
    assert (found.upper_bits, proofs, found.rows[0].feasible) == (float("inf"), [20.0], False)


def test_the_proof_is_for_the_feasible_policy_that_hides_most(monkeypatch: pytest.MonkeyPatch):
    proven: list[str] = []

    def certify(problem: veil.Problem, policy: Any, seconds: float, **_: Any) -> Any:
        proven.append(policy)
        return SimpleNamespace(upper=0.75)

    monkeypatch.setattr(module, "certify", certify)
    rows: Any = [
        SimpleNamespace(policy=name, feasible=feasible, opacity=SimpleNamespace(bits=bits))
        for name, feasible, bits in (
            ("first", True, 0.1),
            ("best", True, 0.5),
            ("short", False, 0.9),
            ("last", True, 0.3),
        )
    ]
    assert module._proven(random_problem(1), rows, 1.0) == 0.75
    assert proven == ["best"]


def test_a_class_that_cannot_play_like_the_best_begins_without_it(monkeypatch: pytest.MonkeyPatch):
    asked = Asked([{"bits": 0.3}, {"bits": 0.4}])

    def refuse_starts(*arguments: Any, **given: Any) -> Any:
        if given.get("start") is not None:
            raise veil.InputError("policy", ["it depends on the time"])
        return asked(*arguments, **given)

    monkeypatch.setattr(module, "solve", refuse_starts)
    found = veil.compare(random_problem(1), memories=("timed", "markov"), certificate=False)
    assert [row.opacity.bits for row in found.rows] == [0.3, 0.4]
    assert "start" not in asked.given[1]
    monkeypatch.setattr(module, "solve", lambda *_, **__: (_ for _ in ()).throw(veil.InputError("memory", ["none"])))
    with pytest.raises(veil.InputError, match="memory"):
        veil.compare(random_problem(1), memories=("timed",), certificate=False)
