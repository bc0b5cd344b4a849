"""How secrecy is evaluated inside a search: each way against its definition and against the others."""

from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

import veil
from tests.engine.chains import central_differences, small_case
from tests.planning.small_problems import directions, drawn, random_problem
from tests.random_problems import KINDS
from veil.common.clock import UNLIMITED, Clock, OutOfTime, Stop
from veil.engine.size import tree_size
from veil.measure.bracket import end_gradient
from veil.planning import values
from veil.planning.options import Objective, SolveOptions
from veil.planning.policy_class import Space, make_space
from veil.planning.sampled_values import SampleSecrecy
from veil.planning.values import (
    SHARPNESS,
    BatchSecrecy,
    WalkSecrecy,
    WindowSecrecy,
    final_opacity,
    make_secrecy,
    row_measure,
    sampled_answer,
)

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


def joint_tables(count: int, rows: int, values: int, seed: int = 0, zeros: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    joint = rng.exponential(size=(count, rows, values)) ** 2 * (rng.random((count, rows, values)) >= zeros)
    return joint / joint.sum(axis=(1, 2), keepdims=True)


def entropy(p: np.ndarray) -> float:
    kept = p[p > 0]
    return -float(np.sum(kept * np.log2(kept)))


# Measures of joint tables


@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_the_measures_are_what_they_are_called(zeros: float):
    joint = joint_tables(6, 5, 3, zeros=zeros)
    joint[0, 2] = 0  # a sequence that cannot occur
    joint[0] /= joint[0].sum()
    found = {name: row_measure(name)(joint)[0] for name in OBJECTIVES}
    for index, table in enumerate(joint):
        conditional, prior = entropy(table) - entropy(table.sum(axis=1)), entropy(table.sum(axis=0))
        assert found["entropy"][index] == pytest.approx(conditional, abs=1e-12)
        assert found["leakage"][index] == pytest.approx(conditional - prior, abs=1e-12)
        chance = table.max(axis=1).sum()
        assert chance - 1e-12 <= -found["guess"][index] <= chance * 3 ** (1 / SHARPNESS) + 1e-12


@pytest.mark.parametrize("name", OBJECTIVES)
def test_slopes_of_the_measures_by_central_differences(name):
    joint = joint_tables(3, 4, 3, seed=1)
    values, slopes = row_measure(name)(joint)
    assert slopes.shape == joint.shape
    for table, slope in zip(joint, slopes, strict=True):

        def alone(at: np.ndarray) -> float:
            at = at / at.sum() if name == "leakage" else at
            return float(row_measure(name)(at[None])[0][0])

        expected = central_differences(alone, table, 1e-7)
        moved = slope - np.sum(slope * table) if name == "leakage" else slope  # its slope is along the simplex
        np.testing.assert_allclose(moved, expected, rtol=1e-6, atol=2e-6)
    assert values.shape == (3,)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_slopes_stay_finite_beside_exact_zeros(name):
    joint = joint_tables(4, 6, 3, seed=2, zeros=0.5)
    joint[1, 0] = 0
    values, slopes = row_measure(name)(joint)
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()


# Ways to evaluate


def walk(space: Space, objective) -> WalkSecrecy:
    return WalkSecrecy(space, objective, 1.0, "all")


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1), veil.Controller(2)])
def test_one_after_the_other_is_side_by_side(memory, objective):
    for seed, kind in enumerate(KINDS):
        problem = small_case(f"walk {seed}", kind, work=1_000).problem
        space = make_space(problem.replace(horizon=max(1, problem.horizon)), memory)
        tables = drawn(space, 3, seed)
        side, one = BatchSecrecy(space, objective)(tables, UNLIMITED), walk(space, objective)(tables, UNLIMITED)
        np.testing.assert_allclose(one[0], side[0], atol=1e-12)
        np.testing.assert_allclose(one[1], side[1], atol=1e-11)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_secrecy_is_what_the_measures_say_of_the_policy(objective):
    for seed in range(6):
        problem = random_problem(seed)
        space = make_space(problem, "timed")
        tables = drawn(space, 3, seed)
        found = make_secrecy(space, objective)(tables, UNLIMITED)[0]
        for table, value in zip(tables, found, strict=True):
            policy = space.policy(table)
            if objective == "guess":
                chance = veil.measures.joint_table(problem, policy).guess_probability
                assert -1e-12 <= -value - chance <= chance * (len(problem.secret_values) ** (1 / SHARPNESS) - 1) + 1e-12
                continue
            result = veil.opacity(problem, policy, "exact")
            expected = result.bits if objective == "entropy" else -result.leakage_bits
            assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_slopes_of_secrecy_by_central_differences(objective, memory):
    for seed in range(4):
        space = make_space(random_problem(seed), memory)
        secrecy, table = make_secrecy(space, objective), drawn(space, 1, seed, sharp=0.5)
        slope = secrecy(table, UNLIMITED)[1][0]
        for change in directions(space, 3, seed):
            ends = secrecy(np.stack([table[0] + 1e-6 * change, table[0] - 1e-6 * change]), UNLIMITED)[0]
            assert np.sum(slope * change) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=2e-6)


def test_a_window_is_the_lower_end_of_its_bracket():
    for seed in range(5):
        space = make_space(random_problem(seed), "timed")
        tables = drawn(space, 2, seed)
        exact = BatchSecrecy(space, "entropy")(tables, UNLIMITED)[0]
        widths, secrecy = [], WindowSecrecy(space, 0, 0.1)
        for radius in range(space.hidden.horizon + 2):
            secrecy = WindowSecrecy(space, radius, 0.1)
            found, slopes = secrecy(tables, UNLIMITED)
            for number, table in enumerate(tables):
                value, slope = end_gradient(space.chain(table), radius=radius, reveal=True, memory_bytes=2**30)
                assert found[number] == value
                np.testing.assert_array_equal(slopes[number], slope)
            assert np.all(found <= exact + 1e-12)
            widths.append(exact - found)
        assert np.all(np.diff(widths, axis=0) <= 1e-12)  # wider windows are closer
        np.testing.assert_allclose(widths[-1], 0, atol=1e-12)
        assert secrecy.kind == "bracket"
        assert str(secrecy.radius) in secrecy.reason


@pytest.mark.parametrize("objective", ["entropy", "leakage"])
def test_samples_are_the_same_draws_each_time(objective):
    space = make_space(random_problem(3))
    tables = drawn(space, 3)
    secrecy = SampleSecrecy(space, objective, 200, 5, "few")
    values, slopes = secrecy(tables, UNLIMITED)
    again = SampleSecrecy(space, objective, 200, 5, "few")(tables[[2, 0]], UNLIMITED)
    np.testing.assert_array_equal(again[0], values[[2, 0]])
    np.testing.assert_array_equal(again[1], slopes[[2, 0]])
    other = SampleSecrecy(space, objective, 200, 6, "few")(tables, UNLIMITED)[0]
    assert np.all(other != values)
    assert secrecy.reason == "sampled sequences: few"


@pytest.mark.parametrize("objective", ["entropy", "leakage"])
@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_samples_are_near_the_exact_value_and_slope_on_average(objective, memory):
    for seed in range(3):
        space = make_space(random_problem(seed + 10), memory)
        tables = drawn(space, 1, seed, sharp=0.5)
        exact, slope = BatchSecrecy(space, objective)(tables, UNLIMITED)
        found = [SampleSecrecy(space, objective, 500, s, "")(tables, UNLIMITED) for s in range(40)]
        values, slopes = np.array([f[0][0] for f in found]), np.stack([f[1][0] for f in found])
        assert abs(values.mean() - exact[0]) <= 4.5 * values.std() / np.sqrt(40) + 1e-12
        for change in directions(space, 6, seed):
            along = np.sum(slopes * change, axis=(1, 2, 3))
            assert abs(along.mean() - np.sum(slope[0] * change)) <= 4.5 * along.std() / np.sqrt(40) + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_prior_adds_to_a_leakage(kind: str):
    """`−H(Z)` and its slope: the sampled leakage less the sampled entropy, which have their noise in common."""
    problem = small_case(f"prior {kind}", kind, work=1_000).problem
    space = make_space(problem.replace(horizon=max(2, problem.horizon)), "timed")
    table = drawn(space, 1)
    pair = [SampleSecrecy(space, name, 50, 0, "")(table, UNLIMITED) for name in ("leakage", "entropy")]
    exact = [BatchSecrecy(space, name)(table, UNLIMITED) for name in ("leakage", "entropy")]
    np.testing.assert_allclose(pair[0][0] - pair[1][0], exact[0][0] - exact[1][0], atol=1e-12)
    added, expected = pair[0][1][0] - pair[1][1][0], exact[0][1][0] - exact[1][1][0]
    for change in directions(space, 8):  # along which rows stay distributions
        assert np.sum(added * change) == pytest.approx(np.sum(expected * change), abs=1e-11)


def test_every_evaluation_checks_the_clock():
    space = make_space(random_problem(0))
    ways = [BatchSecrecy(space, "entropy"), walk(space, "entropy"), WindowSecrecy(space, 1, 0.1)]
    for way in (*ways, SampleSecrecy(space, "entropy", 20, 0, "")):
        with pytest.raises(OutOfTime):
            way(drawn(space, 1), Clock(0.0))
        assert way.cost_seconds > 0


def test_no_walk_is_begun_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(0))
    begun: list[object] = []
    monkeypatch.setattr(WalkSecrecy, "_walk", lambda *given: begun.append(given))
    with pytest.raises(OutOfTime):
        walk(space, "entropy")(drawn(space, 1), Clock(0.0))
    assert not begun


# Which way is taken


NEVER_EXACT = {"_EXACT_SECONDS": 0, "_ALWAYS_EXACT_SECONDS": 0}


def kind_of(
    monkeypatch: pytest.MonkeyPatch, objective: Any = "entropy", evaluation: Any = "auto", **limits: float
) -> values.Secrecy:
    with monkeypatch.context() as patched:
        for name, value in limits.items():
            patched.setattr(values, name, value)
        return make_secrecy(make_space(random_problem(1)), objective, evaluation, sequences=300, seed=4)


def test_the_way_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch):
    assert isinstance(kind_of(monkeypatch), BatchSecrecy)
    assert isinstance(kind_of(monkeypatch, evaluation="exact", _EXACT_SECONDS=0), BatchSecrecy)
    assert isinstance(kind_of(monkeypatch, _BATCH_NUMBERS=1), WalkSecrecy)
    space = make_space(random_problem(1))
    numbers = tree_size(space.chain(drawn(space, 1)[0])).num_sequences * space.hidden.num_values
    assert space.hidden.num_values < space.hidden.num_states
    assert isinstance(kind_of(monkeypatch, _BATCH_NUMBERS=numbers), BatchSecrecy)
    assert isinstance(kind_of(monkeypatch, _BATCH_NUMBERS=numbers - 1), WalkSecrecy)
    sampled = kind_of(monkeypatch, **NEVER_EXACT)
    assert isinstance(sampled, SampleSecrecy)
    assert "an exact gradient is forecast to take" in sampled.reason
    assert sampled.seed == 4
    asked = kind_of(monkeypatch, evaluation="sampled")
    assert isinstance(asked, SampleSecrecy)
    assert "asked for" in asked.reason
    plain = make_secrecy(make_space(random_problem(1)), evaluation="sampled")
    assert isinstance(plain, SampleSecrecy)
    assert plain.seed == SolveOptions().seed
    assert isinstance(kind_of(monkeypatch, evaluation="bracket", _WINDOW_SECONDS=0), WindowSecrecy)
    assert isinstance(kind_of(monkeypatch, "leakage", **NEVER_EXACT), SampleSecrecy)


def test_a_short_time_limit_leaves_exact_gradients_to_problems_where_they_are_fast():
    assert values._exact_seconds("entropy", None) > values._exact_seconds("entropy", 60)
    assert values._exact_seconds("entropy", 60) > values._exact_seconds("entropy", 1)
    assert values._exact_seconds("entropy", 1) == values._exact_seconds("entropy", 0)
    assert values._exact_seconds("guess", 1) == values._exact_seconds("guess", None)


def test_what_cannot_be_evaluated_is_refused(monkeypatch: pytest.MonkeyPatch):
    for objective in ("leakage", "guess"):
        with pytest.raises(veil.InputError, match="'bracket' bounds the entropy only"):
            kind_of(monkeypatch, objective, "bracket")
    with pytest.raises(veil.InputError, match="'guess' needs all sequences"):
        kind_of(monkeypatch, "guess", _GUESS_SECONDS=0)
    with pytest.raises(veil.InputError, match="'guess' needs all sequences"):
        kind_of(monkeypatch, "guess", "sampled")
    noisy = random_problem(1).replace(observer=veil.Observer(np.full((random_problem(1).num_states, 4), 0.25)))
    long = noisy.replace(horizon=60, secret=veil.LastState({0}))
    with pytest.raises(veil.TooLargeError):
        make_secrecy(make_space(long), "entropy", "exact")
    found = make_secrecy(make_space(long))
    assert found.kind == "sampled"
    assert "too many to enumerate" in found.reason


def test_a_bracket_over_many_states_is_refused_for_what_it_is():
    states = 2001
    ring = veil.Model.from_entries(
        [(f"s{s}", "go", f"s{(s + 1) % states}", 1.0) for s in range(states)],
        np.zeros((states, 1)),
        np.full(states, 1 / states),
    )
    problem = veil.Problem(ring, veil.Observer(np.ones((states, 1))), veil.LastState({0}), 3)
    with pytest.raises(veil.InputError, match="states"):
        make_secrecy(make_space(problem), "entropy", "bracket")


def test_the_answer_is_evaluated_as_it_was_searched():
    problem = random_problem(2)
    space = make_space(problem)
    table = drawn(space, 1)[0]
    exact = veil.opacity(problem, space.policy(table), "exact")
    found = {
        name: final_opacity(space, table, make_secrecy(space, "entropy", name), 0) for name in ("exact", "bracket")
    }
    assert found["exact"].bits == exact.bits
    assert found["exact"].method == "exact"
    assert found["bracket"].lower <= exact.bits <= found["bracket"].upper


def test_the_answer_of_a_sampled_search_is_exact_where_there_is_time_and_else_a_fresh_sample(monkeypatch):
    problem = random_problem(2)
    space = make_space(problem)
    table = drawn(space, 1)[0]
    exact = veil.opacity(problem, space.policy(table), "exact")
    assert sampled_answer(space, table, 1000, 0, 60.0) == exact
    monkeypatch.setattr(values, "COUNTED_STATES", 0)
    found = sampled_answer(space, table, 5000, 0, 60.0)
    assert found.method == "sampled"
    assert found.num_sequences >= 5000
    assert abs(found.bits - exact.bits) < 5 * found.std_error
    assert sampled_answer(space, table, 5000, 0, 0.0).num_sequences == 64


def test_a_symmetric_policy_does_not_decide_that_all_sequences_can_be_enumerated():
    """Under the uniform policy the histories of this hall tell the same and merge; under those of a search they do not."""
    sensor = veil.Sensor("doors", [(0, 10), (10, 0)], 0.9)
    hall = veil.GridWorld(20, 20, starts=(0, 0), goals={(19, 19): 1.0}, slip=0.05, sensors=[sensor], secrets=[(3, 3)])
    assert make_secrecy(make_space(hall.problem(30)), time_limit=30).kind == "sampled"


@pytest.mark.parametrize("objective", ["entropy", "leakage"])
def test_a_path_on_samples_is_unbiased(objective: Objective):
    """The sampled bits of a whole path and their gradient lie within their errors of the exact ones."""
    space = make_space(veil.gallery.load("two-rooms").replace(secret=veil.Trajectory()), "timed")
    table, other = drawn(space, 2)
    bits, slope = make_secrecy(space, objective, "exact")(table[None], UNLIMITED)
    secrecy = make_secrecy(space, objective, "sampled")
    assert isinstance(secrecy, SampleSecrecy)
    found = [secrecy.fresh(table, 500, seed, UNLIMITED) for seed in range(20)]
    values = np.array([[one.bits, np.sum((other - table) * gradient)] for one, gradient in found])
    wanted = [bits[0], np.sum((other - table) * slope[0])]
    np.testing.assert_array_less(np.abs(values.mean(axis=0) - wanted), 5 * values.std(axis=0, ddof=1) / 20**0.5)
    alone = secrecy.estimate(table, 2000, 30, UNLIMITED)
    assert abs(alone.bits - bits[0]) < 5 * alone.std_error
    assert found[0][0].std_error == pytest.approx(values[:, 0].std(ddof=1), rel=0.6)


def test_a_path_of_groups_that_does_not_tell_the_state_is_not_sampled():
    """Where path and observations leave the state open, a search on samples is refused, and `auto` enumerates."""
    problem = veil.gallery.load("night-round").replace(secret=veil.Trajectory({"gate": ["r2c2"]}))
    space = make_space(problem)
    assert make_secrecy(space).kind == "exact"
    with pytest.raises(veil.TooLargeError, match="tell the hidden state"):
        make_secrecy(space, evaluation="sampled")


class Counted:
    """A secrecy of single tables, of so many seconds each; it counts its calls."""

    kind, reason = "exact", ""

    def __init__(self, seconds: float, at_once: int):
        self.cost_seconds, self.at_once, self.calls = seconds, at_once, list[int]()

    def __call__(self, tables: np.ndarray, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
        self.calls.append(len(tables))
        return tables[:, 0, 0, 0], 2 * tables


class Sharing:
    """A team that notes what it is asked to share."""

    def __init__(self, alone: bool = False):
        self.alone, self.parts = alone, list[int]()

    def shares(self, work: Any, shared: Any, items: Any, clock: Clock) -> Any:
        for item in items:
            self.parts.append(len(item))
            yield work(shared, item, clock)


@pytest.mark.parametrize(("seconds", "at_once", "alone", "parts"), [
    (0.03, 2, False, [2, 2, 1]), (0.03, 1, False, [1] * 5), (0.03, 5, False, []), (0.03, 4, False, [4, 1]),
    (0.019, 2, False, []), (0.02, 2, False, [2, 2, 1]), (0.03, 2, True, []),
])  # fmt: skip
def test_evaluations_are_shared_where_there_is_a_team_and_they_take_long_enough(seconds, at_once, alone, parts):
    team: Any = Sharing(alone)
    secrecy = Counted(seconds, at_once)
    tables = np.arange(5.0)[:, None, None, None] * np.ones((5, 1, 2, 2))
    found, slopes = values.evaluated(secrecy, tables, UNLIMITED, team)
    np.testing.assert_array_equal(found, np.arange(5.0))
    np.testing.assert_array_equal(slopes, 2 * tables)
    assert team.parts == parts
    assert secrecy.calls == (parts or [5])


def test_ways_that_take_one_table_after_the_other_share_single_tables():
    space = make_space(random_problem(0), "timed")
    tables = drawn(space, 3, 0)
    ways: list[Any] = [
        WindowSecrecy(space, 1, 0.1), WalkSecrecy(space, "entropy", 0.1, "3"), make_secrecy(space, evaluation="sampled")
    ]  # fmt: skip
    for way in ways:
        way.cost_seconds = 0.1
        team: Any = Sharing()
        found = values.evaluated(way, tables, UNLIMITED, team)
        assert team.parts == [1, 1, 1]
        for together, alone in zip(found, way(tables, UNLIMITED), strict=True):
            np.testing.assert_array_equal(together, alone)


def test_seconds_of_exact_gradients_up_to_which_they_are_taken():
    """A thousandth of five minutes or of the time limit, and those that are as fast as samples in any case."""
    assert values._exact_seconds("entropy", None) == 0.3
    assert values._exact_seconds("leakage", 100.0) == 0.1
    assert values._exact_seconds("entropy", 1e6) == 0.3
    assert values._exact_seconds("entropy", 10.0) == 0.02
    assert values._exact_seconds("guess", 10.0) == 1.0


def test_large_models_are_tried_before_their_sequences_are_counted(monkeypatch: pytest.MonkeyPatch):
    """Beyond the number of states that are counted, an attempt to enumerate decides; where it fails, counting or samples do."""
    problem = random_problem(1)
    space, given = make_space(problem), list[tuple[float, bool]]()
    tree = SimpleNamespace(num_sequences=12345.0)
    tried: list[Any] = [(None, tree)]

    def attempt(chain: Any, budget: Any, objective: Any, limit: float, *, gradient: bool) -> Any:
        given.append((limit, gradient))
        assert objective()(np.full((1, space.hidden.num_values), 0.5), None).shape == (1, space.hidden.num_values)
        return tried[0]

    monkeypatch.setattr(values, "try_sparse", attempt)
    for evaluation, states, limit in (("auto", "_COUNTED_STATES", 0.3), ("exact", "COUNTED_STATES", 300.0)):
        monkeypatch.setattr(values, states, problem.num_states)
        assert isinstance(make_secrecy(space, evaluation=evaluation), BatchSecrecy)  # type: ignore[arg-type]
        monkeypatch.setattr(values, states, problem.num_states - 1)
        found = make_secrecy(space, evaluation=evaluation)  # type: ignore[arg-type]
        assert isinstance(found, WalkSecrecy)
        assert found.reason == "all 12,345 possible sequences"
        assert 0 <= found.cost_seconds < 60
        assert given.pop() == (limit, True)
        assert not given
    tried[0] = None
    assert make_secrecy(space).kind == "sampled"  # more states than are counted
    with pytest.raises(veil.TooLargeError, match="one exact gradient takes more than five minutes"):
        make_secrecy(space, evaluation="exact")
    monkeypatch.setattr(values, "COUNTED_STATES", problem.num_states)
    assert isinstance(make_secrecy(space), BatchSecrecy)
    assert isinstance(make_secrecy(space, evaluation="sampled"), SampleSecrecy)


def test_counting_over_many_states_is_limited_in_time(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(1))
    chain, limits = space.chain(drawn(space, 1)[0]), list[float]()
    monkeypatch.setattr(values, "tree_size", lambda chain, clock: limits.append(clock.time_limit))
    values._counted(chain, 10.0)
    monkeypatch.setattr(values, "_COUNTED_STATES", space.hidden.num_states)
    values._counted(chain, 10.0)
    monkeypatch.setattr(values, "_COUNTED_STATES", space.hidden.num_states - 1)
    for limit in (10.0, None, 1000.0):
        values._counted(chain, limit)
    assert limits == [np.inf, np.inf, pytest.approx(0.3), 2.0, 2.0]

    def late(chain: Any, clock: Clock) -> Any:
        raise OutOfTime(Stop.TIME_LIMIT)

    monkeypatch.setattr(values, "tree_size", late)
    assert values._counted(chain, 10.0) is None


def test_the_widest_window_that_is_quick_is_taken(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(1).replace(horizon=6, min_return=None, secret=veil.StateAt(3, {1})))
    chain = space.chain(drawn(space, 1)[0])
    seconds = [0.001, 0.1, 0.3, 0.31, 0.2]
    exact = [True] * 5

    def size(cut: Any) -> Any:
        number = len(radii) - 1
        return SimpleNamespace(exact=exact[number], seconds=lambda chain, gradient: seconds[number])

    radii: list[int] = []
    around = values.Window.around
    monkeypatch.setattr(values.Window, "around", lambda chain, radius: radii.append(radius) or around(chain, radius))
    monkeypatch.setattr(values, "tree_size", size)
    assert values._window(chain) == (2, 0.3)
    assert radii == [0, 1, 2, 3]
    radii.clear()
    exact[1] = False
    assert values._window(chain) == (0, 0.001)
    radii.clear()
    exact[0] = False
    assert values._window(chain) == (0, 1e-3)
    radii.clear()
    seconds[:], exact[:] = [0.01] * 9, [True] * 9
    seconds.extend([0.01] * 4)
    exact.extend([True] * 4)
    assert values._window(chain)[0] == radii[-1] == 7


def test_an_answer_is_measured_exactly_where_it_was_searched_exactly(monkeypatch: pytest.MonkeyPatch):
    space, given = make_space(random_problem(1)), list[tuple[Any, ...]]()
    monkeypatch.setattr(values, "opacity", lambda problem, policy, *way, **more: given.append((*way, more)))
    table = drawn(space, 1)[0]
    for kind in ("exact", "bracket", "sampled"):
        final_opacity(space, table, SimpleNamespace(kind=kind), 6)  # type: ignore[arg-type]
    assert given == [("exact", {})] + [("auto", {"time_limit": 20, "seed": 7})] * 2


def test_an_answer_on_samples_is_exact_where_half_of_the_seconds_suffice(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(1))
    table = drawn(space, 1)[0]
    forecast, is_exact = [1.0], [True]
    size = lambda *_: SimpleNamespace(exact=is_exact[0], seconds=lambda chain, gradient: forecast[0] + gradient)  # noqa: E731
    monkeypatch.setattr(values, "_counted", size)
    for seconds, limit, wanted in (
        (1.0, 2.0, "exact"),
        (1.0, 1.9, "sampled"),
        (5.0, 99.0, "exact"),
        (5.1, 99.0, "sampled"),
    ):
        forecast[0] = seconds
        assert sampled_answer(space, table, 100, 0, limit).method == wanted
    is_exact[0], forecast[0] = False, 0.0
    assert sampled_answer(space, table, 100, 0, 9.0).method == "sampled"
