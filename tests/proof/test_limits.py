"""The verifier at its limits: what is just met and what is just missed, and the roundings of small examples."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import veil
from tests.game.test_records import random_pairs
from tests.proof.attacks import dressed
from tests.proof.cases import KINDS, constrained, noisy_problem, random_policy, tiny_problem, with_path
from tests.proof.exact import ExactProblem, chooser, play_all
from tests.proof.test_checked import example, whole
from veil.common.clock import UNLIMITED
from veil.common.errors import CertificateError
from veil.game.records import solve_records_game
from veil.policy.history import Decisions, HistoryPolicy
from veil.problem.fingerprint import fingerprint
from veil.proof.arithmetic import FLOOR, LARGEST, TINY
from veil.proof.backward import rule_bound
from veil.proof.certificate import Certificate
from veil.proof.certify import certify
from veil.proof.checked_policy import read_policy
from veil.proof.checked_problem import CheckedProblem, checked_pairs
from veil.proof.claim import check_claim, least_return, missing_return
from veil.proof.entropy import conditional_entropy
from veil.proof.forward import MOST_MOVES, ForwardPass
from veil.proof.joined_rules import joined_rule
from veil.proof.policy_values import policy_return, policy_values
from veil.proof.prices import Lagrangian
from veil.proof.verify import verify
from veil.proof.witness import Witness, read_witness, written_witness

# Several observers.


@pytest.fixture(scope="module")
def honest() -> tuple[veil.Problem, veil.Policy, Certificate]:
    """A certificate of the least of two pairs whose observers both have a weight."""
    problem = random_pairs(5)
    policy = veil.MarkovPolicy.uniform(problem)
    game = solve_records_game(problem, ("own", "p0"))
    return problem, policy, certify(problem, policy, hide="own, p0", game=game, progress=False)


def test_joined_observers_pay_the_weighted_costs_of_each(honest: tuple[veil.Problem, veil.Policy, Certificate]):
    """After every sequence of events: one follows each graph by hand."""
    problem, _, proof = honest
    assert proof.witness is not None
    following = [table.copy() for table in proof.witness.others[0].following]
    following[-1][0, 0] = -1  # a node that is missing is missed by both together
    other = replace(proof.witness.others[0], weight=0.3, following=tuple(following))
    witness = replace(proof.witness, weight=0.7, others=(other,))
    checked = checked_pairs(problem, ("own", "p0"))
    joined = joined_rule(checked, witness)
    views = checked.views
    assert views is not None
    assert not joined.others
    paid = set()
    for events in itertools.product(range(checked.first_events), *[range(checked.events)] * checked.horizon):
        node = joined.first[events[0]]
        nodes = [one.first[view.first[events[0]]] for one, view in zip(witness.rules, views, strict=True)]
        for time, event in enumerate(events[1:]):
            node = joined.following[time][node, event] if node >= 0 else -1
            nodes = [
                one.following[time][own, view.event[event]] if own >= 0 else -1
                for own, one, view in zip(nodes, witness.rules, views, strict=True)
            ]
        assert (node < 0) == (min(nodes) < 0)
        if node >= 0:
            expected = 0.7 * witness.costs[nodes[0]] + 0.3 * other.costs[nodes[1]]
            np.testing.assert_array_equal(joined.costs[node], expected)
            paid.add(int(node))
    assert paid == set(range(len(joined.costs)))


def test_the_observer_of_a_pair_has_no_further_observers(honest: tuple[veil.Problem, veil.Policy, Certificate]):
    """Neither in a file, nor one within another."""
    witness = honest[2].witness
    assert witness is not None
    for depth in (1, 2):
        head, arrays = written_witness(witness)
        if depth == 1:
            assert len(read_witness(head, arrays).others) == 1
        else:
            nested = replace(witness, others=(replace(witness, others=(witness.others[0],)),))
            with pytest.raises(ValueError, match="further observers"):
                read_witness(*written_witness(nested))


def test_a_policy_that_keeps_too_few_bits_may_hide_more_than_the_bound(
    honest: tuple[veil.Problem, veil.Policy, Certificate],
):
    """By the weight times what it misses, as the bound is over policies that keep them; and not by more."""
    problem, policy, proof = honest
    assert proof.witness is not None
    [pair] = proof.pairs
    weight = proof.witness.others[0].weight
    kept = replace(problem.pairs[0], min=pair.lower)
    for more, refused, missed in ((0.2, False, 0.25), (0.3, True, 0.25), (0.2, True, 0.0)):
        asked = problem.replace(pairs=[replace(kept, min=pair.lower + missed)])
        pairs = (replace(pair, min=pair.lower + missed),)
        claim = replace(proof, lower=proof.upper + weight * more, best_known=None, pairs=pairs)
        claim = dressed(asked, replace(claim, problem_hash=fingerprint(asked)), policy)
        if refused:
            with pytest.raises(CertificateError, match="do not fit each other"):
                check_claim(claim, asked, policy)
        else:
            check_claim(claim, asked, policy)


# Rounding.


def test_the_roundings_of_a_sum_are_those_of_its_longest_group():
    """Without histories two moves of the example lead to state 1, and one to state 0."""
    checked = CheckedProblem(example())
    policy = read_policy(checked, veil.MarkovPolicy.uniform(example()))
    played = ForwardPass(checked, policy, UNLIMITED, MOST_MOVES, apart=False)
    before = played.roundings
    played.step(0)
    assert played.mass.tolist() == [0.5, 0.5]
    assert played.most_in_a_step == 2 + 2
    assert played.roundings - before == 3 + 1


def test_the_entropy_of_nothing():
    """It is zero, and no weight was added to another."""
    nothing = np.zeros(0, dtype=int)
    assert conditional_entropy(np.zeros(0), nothing, nothing) == (0.0, 0.0, 1)


@pytest.mark.parametrize("last", [0.0, 1e9])
def test_large_rewards_that_differ_little_leave_small_errors(last: float):
    """What all rewards have in common is paid exactly, whether or not the end pays too."""
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[1e9], [1e9 + 0.25]], 0, terminal_rewards=[last, last + 0.5])
    problem = example().replace(model=model)
    found = policy_values(CheckedProblem(problem), veil.MarkovPolicy.uniform(problem), whole(problem), FLOOR, None)
    assert found.expected_return == 1e9 + last + 0.25
    assert found.return_error < 1e-14


def test_what_a_tiny_power_of_the_discount_leaves_out_is_part_of_the_error():
    """γ³ is below 2^-900 and counts as 0: the bounds on the error allow for what it would have paid."""
    model = veil.Model(
        [[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], 0, terminal_rewards=[0.0, 2.0**800], discount=2.0**-400
    )
    problem = example().replace(model=model, horizon=3)
    checked, policy = CheckedProblem(problem), veil.MarkovPolicy.uniform(problem)
    found = policy_values(checked, policy, whole(problem), FLOOR, None)
    assert found.expected_return == 0
    assert 2.0**-100 < found.return_error < 2.0**-90
    witness = certify(problem, policy, 0.0).witness
    assert witness is not None
    paying = Lagrangian(checked, replace(witness, multiplier=1.0), (checked.paid[0].terminal, 0.0))
    before = paying.left_out
    assert before == 4 * TINY * 2 * 2.0**800
    paying.at(0)
    assert paying.left_out == before
    paying.at(3)
    assert paying.left_out == before + 1.01 * FLOOR * 2 * 2.0**800
    assert paying.at(0)[1] == 0


def test_rewards_may_sum_to_the_largest_number_and_no_more():
    """T + 1 rewards are paid at most."""
    for reward, horizon, accepted in ((LARGEST / 2, 1, True), (1.01 * LARGEST / 2, 1, False), (LARGEST / 2, 2, False)):
        model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[reward], [0.0]], 0)
        problem = example().replace(model=model, horizon=horizon)
        if accepted:
            CheckedProblem(problem)
        else:
            with pytest.raises(CertificateError, match="rewards sum to up to"):
                CheckedProblem(problem)


def test_rewards_without_end_may_sum_to_the_largest_number_and_no_more():
    """At most the largest over 1 − γ."""
    for reward, accepted in ((LARGEST / 2, True), (1.01 * LARGEST / 2, False)):
        model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[reward], [0.0]], 0, discount=0.5)
        problem = example().replace(model=model, return_over="infinite")
        if accepted:
            CheckedProblem(problem)
        else:
            with pytest.raises(CertificateError, match="rewards sum to up to"):
                CheckedProblem(problem)


# Windows, and what certificates may ask for.


@pytest.mark.parametrize("window", [(-2, 2), (1, 0), (-1, 0), (2, 2)])
def test_a_window_is_around_the_secret(window: tuple[int, int]):
    """Its time is 1 in the example."""
    with pytest.raises(CertificateError, match="not around the secret"):
        policy_values(CheckedProblem(example()), veil.MarkovPolicy.uniform(example()), window, FLOOR, None)


@pytest.mark.parametrize("seed", range(9))
def test_paths_under_constraints_against_fractions(seed: int):
    """Where an automaton is carried beside the states, a path shows the same of a state whatever its automaton's state is."""
    problem = with_path(constrained(tiny_problem(seed), seed), seed)
    policy = random_policy(problem, "markov", seed)
    bits, values = play_all(ExactProblem(problem), chooser(problem, policy))
    found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
    assert found.lower <= float(bits) + 1e-15
    assert found.upper >= float(bits) - 1e-15
    assert found.upper - found.lower < 1e-12
    for one, value in zip(found.others, values[1:], strict=True):
        assert abs(Fraction(one.value) - value) <= Fraction(one.error)


@pytest.mark.parametrize("kind", KINDS)
def test_paths_against_the_engine_for_every_kind_of_policy(kind: str):
    """Also where the agent's memory is drawn, so that path and events do not tell it."""
    for seed in range(4):
        problem = with_path(noisy_problem(seed).replace(agent_sees="state+observations"), seed)
        policy = random_policy(problem, kind, seed)
        found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
        assert found.lower - 1e-13 <= veil.opacity(problem, policy, method="exact").bits <= found.upper + 1e-13
        assert found.upper - found.lower < 1e-12


@pytest.mark.parametrize(("power", "accepted"), [(900, True), (901, False)])
def test_probabilities_may_be_as_small_as_the_floor(power: int, accepted: bool):
    """Of moves, and of the start."""
    small = 2.0**-power
    moving = veil.Model([[[1.0, small]], [[0.0, 1.0]]], [[0.0], [0.0]], 0)
    starting = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], [1.0, small])
    for model in (moving, starting):
        problem = example().replace(model=model, observer=veil.Observer(np.eye(2)))
        if accepted:
            CheckedProblem(problem)
        else:
            with pytest.raises(CertificateError, match="expected 2\\^-900"):
                CheckedProblem(problem)


def test_what_observers_see_together_may_be_as_rare_as_the_floor():
    """The product of the smallest probabilities of each."""
    for power, accepted in ((450, True), (451, False)):
        small = 2.0**-power
        observer = veil.Observer([[1.0, small], [0.5, 0.5]])
        still = veil.Model([[[1.0, 0.0]], [[0.0, 1.0]]], [[0.0], [0.0]], 0)
        problem = example().replace(model=still, observer=observer, pairs=[veil.Pair("two", observer)])
        if accepted:
            assert checked_pairs(problem, ("own", "two")).names == ("own", "two")
        else:
            with pytest.raises(CertificateError, match="see together"):
                checked_pairs(problem, ("own", "two"))


def test_a_rule_has_one_price_for_each_constraint():
    problem = example()
    witness = certify(problem, veil.MarkovPolicy.uniform(problem), 0.0).witness
    assert witness is not None
    checked = CheckedProblem(problem)
    assert rule_bound(checked, witness, (None,), None) < 1.01
    for prices, bounds in (((1.0,), (None,)), ((), (None, 1.0)), ((1.0,), (None, 1.0))):
        with pytest.raises(CertificateError, match="prices are not one for each"):
            rule_bound(checked, replace(witness, prices=prices), bounds, None)


def test_a_history_policy_has_decisions_for_each_step():
    problem = tiny_problem(3)
    policy = random_policy(problem, "history", 3)
    assert isinstance(policy, HistoryPolicy)
    longer = problem.replace(horizon=problem.horizon + 1)
    with pytest.raises((CertificateError, veil.InputError)):
        read_policy(CheckedProblem(longer), policy)


def test_the_least_return_of_a_claim():
    """Its lower end, and the threshold where that is said to be reached."""
    proof = certify(example(), veil.MarkovPolicy.uniform(example()), 0.0)
    near = replace(proof, expected_return=1.0, return_error=0.125, threshold=1.0)
    assert least_return(replace(near, feasible=True)) == 1
    assert missing_return(replace(near, feasible=True)) == 0
    assert least_return(replace(near, feasible=False)) == Fraction(7, 8)
    assert missing_return(replace(near, feasible=False)) == Fraction(1, 8)
    assert least_return(replace(near, threshold=0.5)) == Fraction(7, 8)
    assert missing_return(replace(near, threshold=0.5)) == 0


def test_an_upper_bound_that_is_just_met_by_chance():
    """Half of the paths pay 1, so the exact value is the bound itself, and floats cannot tell."""
    model = veil.Model(
        [[[0.5, 0.5]], [[0.0, 1.0]]], {"gain": np.zeros((2, 1)), "energy": [[0.0], [1.0]]}, 0, discount=0.7
    )
    problem = example().replace(model=model, horizon=2)
    exact = Fraction(0.7) / 2
    for bound, met in ((float(exact), True), (math.nextafter(float(exact), 0), False)):
        limited = problem.replace(constraints=[veil.Return(max=bound, reward="energy")])
        [found] = policy_return(CheckedProblem(limited), veil.MarkovPolicy.uniform(problem), None, (None, bound)).others
        assert found.met is met
        assert Fraction(found.value) == exact


def test_what_rare_paths_may_hide_is_added_in_full():
    """`lost · log2 |Z| + h(lost)`, and `h(p) ≤ p (2 − log2 p)`."""
    model = veil.Model([[[63 / 64, 1 / 64]], [[0.0, 1.0]]], [[0.0], [0.0]], 0)
    problem = example().replace(model=model, observer=veil.Observer(np.eye(2)))
    checked = CheckedProblem(problem)
    policy = read_policy(checked, veil.MarkovPolicy.uniform(problem))
    played = ForwardPass(checked, policy, UNLIMITED, MOST_MOVES, apart=True, below=0.02)
    played.step(0)
    lost = 1.01 * 0.02
    assert played.lost == lost
    assert played.bits()[1] == pytest.approx(lost * (1 + 2 - math.log2(lost)), abs=1e-12)


def test_a_row_for_a_value_that_does_not_exist_is_refused():
    """Before the secret is settled there is none, and then there are those of the secret."""
    problem = example().replace(secret=veil.InitialState(), agent_sees="state+observations")
    policy = random_policy(problem, "history", 0)
    assert isinstance(policy, HistoryPolicy)
    checked, [rows] = CheckedProblem(problem), policy.decisions
    read_policy(checked, policy)
    for wrong in (-1, checked.values):
        value = np.full_like(rows.value, wrong)
        changed = HistoryPolicy(policy.first, policy.following, [replace(rows, value=value)])
        with pytest.raises((CertificateError, veil.InputError)):
            read_policy(checked, changed)


def test_where_the_game_of_pairs_does_not_fit_one_pair_alone_has_the_bound(
    honest: tuple[veil.Problem, veil.Policy, Certificate],
):
    """The smaller of their bounds is one on the least of both; what a policy hides in one of them is not known in both."""
    problem, policy, together = honest
    alone = {
        name: certify(problem.only(name), policy, gap=1e-4, memory_bytes=1, progress=False) for name in ("own", "p0")
    }
    for hide in ("own, p0", "p0, own"):
        found = certify(problem, policy, gap=1e-4, hide=hide, memory_bytes=1, progress=False)
        verify(found, problem, policy)
        assert found.witness is not None
        assert not found.witness.others
        assert found.upper == pytest.approx(min(one.upper for one in alone.values()), abs=1e-9)
        assert found.upper == pytest.approx(alone[found.witness.pair].upper, abs=1e-9)
        assert found.upper > together.upper
        assert found.best_known is None


def test_a_certificate_tells_of_all_pairs(honest: tuple[veil.Problem, veil.Policy, Certificate]):
    problem, policy, proof = honest
    for pairs in ((), proof.pairs * 2):
        claim = dressed(problem, replace(proof, pairs=pairs), policy)
        with pytest.raises(CertificateError, match="pairs: expected"):
            check_claim(claim, problem, policy)


def test_a_window_ends_with_the_value_where_the_policy_acts_on_it_from_then_on():
    """States 0 and 1 look alike and lead to state 2; there the agent shows which of both it was, at the end of the window."""
    moves = np.zeros((5, 2, 5))
    moves[[0, 1], :, 2] = moves[2, 0, 3] = moves[2, 1, 4] = moves[3, :, 3] = moves[4, :, 4] = 1
    model = veil.Model(moves, np.zeros((5, 2)), [0.5, 0.5, 0, 0, 0])
    observer = veil.Observer(np.eye(3)[[0, 0, 0, 1, 2]], sees_initial=True)
    problem = veil.Problem(
        model, observer, veil.InitialState({"zero": [0], "one": [1]}), 2, agent_sees="state+observations"
    )
    following = (np.array([[0, -1, -1]]), np.array([[-1, 0, 1]]))
    told = [Decisions(np.zeros(2, dtype=int), np.array([0, 1]), np.array([0, 1]), np.full((2, 2), 0.5)),
            Decisions(np.zeros(2, dtype=int), np.array([2, 2]), np.array([0, 1]), np.eye(2))]  # fmt: skip
    policy = HistoryPolicy(np.array([0, -1, -1]), following, told)
    checked = CheckedProblem(problem)
    assert veil.opacity(problem, policy, method="exact").bits == 0
    for right in (1, 2, 3):
        assert policy_values(checked, policy, (-1, right), FLOOR, None).lower == 0
    alike = [told[0], replace(told[1], probabilities=np.full((2, 2), 0.5))]
    silent = HistoryPolicy(np.array([0, -1, -1]), following, alike)
    assert policy_values(checked, silent, (-1, 1), FLOOR, None).lower > 0.99


def test_the_probabilities_of_a_rule_stay_below_one_by_its_margin():
    """By 2^-40, which is more than their sum may be rounded by."""
    problem = example()
    checked, graph = CheckedProblem(problem), (np.array([0, 0]), (np.zeros((1, 2), dtype=int),))
    for margin, accepted in ((2.0**-39, True), (2.0**-40, True), (2.0**-40.5, False)):
        costs = np.array([[1.0, -math.log2(0.5 - margin)]])
        if accepted:
            assert rule_bound(checked, Witness(*graph, costs, 0.0, "nothing"), (None,), None) > 1
        else:
            with pytest.raises(CertificateError, match="sum to more than one"):
                rule_bound(checked, Witness(*graph, costs, 0.0, "nothing"), (None,), None)


def test_what_is_known_of_one_pair_is_not_said_of_several():
    """A path and another secret have no game together: one alone has the bound, and what a policy hides in it is its own."""
    problem = veil.gallery.load("two-rooms").replace(horizon=3)
    problem = problem.replace(min_return=None, pairs=[veil.Pair("path", secret=veil.Trajectory())])
    policy = veil.MarkovPolicy.uniform(problem)
    one = certify(problem, policy, hide="path", progress=False)
    both = certify(problem, policy, hide="own, path", progress=False)
    assert one.best_known is not None
    assert both.best_known is None
    assert both.upper <= one.upper + 1e-9
    for proof in (one, both):
        verify(proof, problem, policy)


@pytest.mark.parametrize("sizes", [(1, 3, 1, 2), (3, 1, 3, 1), (2, 2, 1, 4)])
def test_observers_who_forget_are_followed_together(sizes: tuple[int, ...]):
    """Their graphs grow and shrink; along every sequence of events the costs are those of each at its own node."""
    own = veil.Problem(
        veil.Model(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), [0.2, 0.3, 0.5]),
        veil.Observer(np.full((3, 2), 0.5)), veil.LastState([0]), 3,
        pairs=[veil.Pair("p0", veil.Observer(np.full((3, 3), 1 / 3)), veil.LastState(groups={"b": [1], "c": [2]}))],
    )  # fmt: skip
    checked, rng = checked_pairs(own, ("own", "p0")), np.random.default_rng(sum(sizes))
    views = checked.views
    assert views is not None
    rules = []
    for view, layers, name, weight in zip(views, (sizes, sizes[::-1]), checked.names, (0.25, 0.75), strict=True):
        following = [rng.integers(after, size=(here, view.num_events)) for here, after in itertools.pairwise(layers)]
        costs = rng.uniform(1, 3, size=(layers[-1], view.num_values))
        first = rng.integers(layers[0], size=view.num_first)
        rules.append(Witness(first, tuple(following), costs, 0.0, "", pair=name, weight=weight))
    joined = joined_rule(checked, replace(rules[0], others=(rules[1],)))
    for events in itertools.product(range(checked.first_events), *[range(checked.events)] * 3):
        node, alone = int(joined.first[events[0]]), []
        for time, event in enumerate(events[1:]):
            node = int(joined.following[time][node, event])
        for rule, view in zip(rules, views, strict=True):
            mine = int(rule.first[view.first[events[0]]])
            for time, event in enumerate(events[1:]):
                mine = int(rule.following[time][mine, view.event[event]])
            alone.append(rule.weight * rule.costs[mine][view.value])
        np.testing.assert_array_equal(joined.costs[node], alone[0] + alone[1])


def test_one_observer_is_joined_to_itself():
    """As it is where it counts once."""
    checked = CheckedProblem(example())
    witness = certify(example(), veil.MarkovPolicy.uniform(example()), 0.0).witness
    assert witness is not None
    assert joined_rule(checked, witness) is witness


def test_each_table_of_a_graph_is_written_once(honest: tuple[veil.Problem, veil.Policy, Certificate]):
    """Tables that are equal have one name, and those of another shape or content their own."""
    witness = honest[2].witness
    assert witness is not None
    one, two = np.zeros((2, 3), dtype=int), np.ones((2, 3), dtype=int)
    made = replace(witness, following=(one, two, one.copy(), one.reshape(3, 2)), others=())
    head, arrays = written_witness(made)
    assert head["steps"] == [0, 1, 0, 2]
    assert sorted(arrays) == ["costs", "first", "following.0", "following.1", "following.2"]
    assert read_witness(head, arrays) == made
