"""Rounds of best responses: what is proven of both sides holds against all plans and for every walker that is drawn."""

import numpy as np
import pytest

import veil
from tests.querying.test_best import by_all_plans, random_asked


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_what_is_proven_holds(seed: int):
    asked = random_asked(seed)
    problem, walker, tables, value, ahead = asked
    querying = veil.Querying({"left": veil.Observer(tables[0]), "right": veil.Observer(tables[1])}, walker=walker)
    found = veil.best_responses(problem, querying, rounds=2, time_limit=2)
    assert len(found.rounds) == 2
    for one in found.rounds:
        assert isinstance(one.walker, veil.MarkovPolicy)
        least = by_all_plans((problem, one.walker, tables, value, ahead))
        assert one.plan.lower - 1e-9 <= least <= one.plan.upper + 1e-9
        faced = querying.against(problem, one.plan.policy)
        rng = np.random.default_rng(seed)
        others = [veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=3)) for _ in range(20)]
        hidden = [veil.opacity(faced, other, "exact").bits for other in (one.answer.policy, *others)]
        assert hidden[0] == pytest.approx(one.answer.opacity.bits, abs=1e-9)
        assert max(hidden) <= one.upper + 1e-9
    assert found.rounds[1].walker == found.rounds[0].answer.policy
    assert found.lower <= found.upper + 1e-9
    assert found.lower == found.safest.plan.lower
    assert found.sharpest.answer.opacity.bits == min(one.answer.opacity.bits for one in found.rounds)
    assert f"{found.rounds[0].plan.lower:.4f}" in found.summary()


def test_what_is_wrong_is_said():
    problem = random_asked(0)[0]
    with pytest.raises(veil.InputError, match=r"(?s)querying is a NoneType.*rounds is 0.*memory is 'history'"):
        veil.best_responses(problem, None, rounds=0, memory="history")  # type: ignore[arg-type]
