"""The verifier's forward pass: weights of histories under a policy, with proven error bounds. See `README.md`."""

import copy
import math

import numpy as np
from jaxtyping import Float

from ..common.pace import Pace, Watch
from ..common.plain_logs import log2_of_count, log2_or_zero
from ..common.verdicts import TooLargeError
from .arithmetic import FLOOR, TINY, UNIT, Numbers, defect_of, discount_power, gamma, group
from .checked_policy import CheckedPolicy, Entries, some
from .checked_problem import CheckedProblem, Moves, Paid
from .entropy import Entropy, conditional_entropy, merge_histories

MOST_MOVES = 2**25  # of one step, at about 80 bytes each
_SECONDS_A_MOVE = 4e-7  # of a step, with its sorting: measured on one core


class Sum:
    """What is paid of a quantity along a pass.

    `parts[t]` is the expected payment of decision t, `weighted` the sum of `(t + 1)` times the expected size of each payment,
    and `left_out` bounds what was too small to be counted, in units of the largest.
    """

    def __init__(self, paid: Paid):
        self.paid, self.parts = paid, list[float]()
        self.weighted = self.left_out = 0.0

    def pay(self, time: int, mass: Float[np.ndarray, " n"], x: Numbers, choices: np.ndarray, nodes: int) -> None:
        """Add the decision at a time, of entries of some mass in x."""
        reward = np.repeat(self.paid.reward[x], nodes, axis=1)
        power, missed = discount_power(self.paid.discount, time)
        self.left_out += missed + choices.size * TINY
        paid = (mass[:, None] * choices * power * reward).ravel()
        self.parts.append(math.fsum(paid.tolist()))
        self.weighted += (time + 1) * math.fsum(np.abs(paid).tolist())


class ForwardPass:
    """Weights `P(history, memory of the agent, x, z)` of a policy, moved forward one step at a time.

    One entry for each combination with a positive weight: `history` (numbered from 0 without gaps, in order),
    `entries` (memory, x, z) and `mass`. With `apart=False` all histories are one, and the pass is the law of (memory, x, z).

    `roundings` counts the roundings behind the worst weight, `most_in_a_step` those of one step, `defect` is ρ of all rows
    used. The events of a history are those of the observer of the first channel asked about, and the policy may act on more.
    Weights below `below` are left out, `lost` bounds their sum. `merge`: how many histories to keep apart, 0 for all;
    `charged`: bits that merging may have cost. `sums`: what is paid of each quantity of the problem.

    Where the secret is a whole path that with the events tells W = (memory, x), its entropy is
    `H(W_T|h_T) + Σ_t H(W_t|W_{t+1},h_{t+1})`, since W_{t+1} separates the past from the future; `terms` are those of the sum.
    For any other path z numbers what it has shown so far. `is_ahead`: the observer receives nothing more, and z says whether
    value 1 of a secret at every time came since.

    Example: the problem of `CheckedProblem`, whose secret is the state at T = 1. At first there is one entry, history 0
    (observation 0) in x = 0 with mass 1. After `step()` there are three: history 0 (0 again) in x = 0 with mass 1/2 and in
    x = 1 with 1/8, history 1 in x = 1 with 3/8. `bits()` is then `5/8 · h(1/5) ≈ 0.4512`, plus and minus its error.
    """

    def __init__(
        self, problem: CheckedProblem, policy: CheckedPolicy, clock: Watch | None, most_moves: int,
        *, apart: bool, below: float = FLOOR, merge: int = 0,
    ):  # fmt: skip
        self.problem, self.policy, self.apart, self.time = problem, policy, apart, 0
        self.pace, self.most_moves = Pace(clock, _SECONDS_A_MOVE), most_moves
        self.below, self.merge, self.charged = max(below, FLOOR), merge, 0.0
        self.roundings, self.defect, self.lost, self.most_in_a_step = 2.0 + problem.products, problem.defect, 0.0, 0.0
        self.watched = problem.place[problem.asked[0]]  # the observer that counts
        self.sums, self.is_ahead = [Sum(paid) for paid in problem.paid], False
        # A memory that is not drawn follows from path and events.
        self.tells, self.terms = problem.tells_state and policy.nodes == 1, list[Entropy]()
        entries, events = policy.begin()
        self._store(events[self.watched] if apart else 0 * entries.x, self._followed(entries), problem.start[2])

    def enter(self, law: "ForwardPass", *, reveal: bool) -> None:
        """Begin at the time of another pass: the observer is told (memory, x, z), or forgets all that it has seen."""
        self.roundings, self.defect, self.time = law.roundings, law.defect, law.time
        self._store(np.arange(len(law.mass)) * reveal, law.entries, law.mass)

    def reveal(self, *, value: bool) -> None:
        """Tell the observer the agent's memory and x, and the value of the secret if asked."""
        memory, x, z = self.entries
        self.history = group(self.history, memory, x, z * value)[1]

    def go(self, end: int) -> None:
        """Go on to a time, unless the pass is there."""
        while self.time < end:
            self.step()

    def step(self) -> None:
        """One decision and the moves that follow.

        **Raises:** `TooLargeError` where there are more than `most_moves`; `OutOfTime` where the clock would not allow them.
        """
        problem, policy, time = self.problem, self.policy, self.time
        settled = problem.path is None and problem.each is None  # else z is no value that a policy may act on
        memory, x, z = self.entries
        choices = policy.choices(time, memory, x, z * settled)
        self.defect = max(self.defect, defect_of(choices.sum(axis=1), choices.shape[1], "policy"))
        for one in self.sums:
            one.pay(time, self.mass, x, choices, policy.nodes)
        moves = problem.at(time + 1) if self.apart or policy.hears else problem.unseen
        count = policy.count(x, moves)
        if count > self.most_moves:
            words = f"{count:,} branches at time {time + 1}, expected at most {self.most_moves:,}"
            raise TooLargeError(f"the observation tree has {words}")
        with self.pace.step(count):
            self._move(choices, moves)
        self.time += 1

    def _move(self, choices: Float[np.ndarray, "n c"], moves: Moves) -> None:
        """The moves that follow a decision."""
        problem, (every, share) = self.problem, self.policy.taken(choices, self.entries.x, moves)
        mass = self.mass[every.entry] * (share * moves.chance[every.move])
        kept = np.flatnonzero(mass >= self.below)
        self.lost += 1.01 * (len(mass) - len(kept)) * self.below
        taken, mass = some(every, kept), mass[kept]
        arrived, events = self.policy.arrive(self.time + 1, self.entries, taken, moves)
        history = self.history[taken.entry] if self.apart else 0 * arrived.x
        if self.apart and not self.is_ahead:
            history = history * problem.num_events[self.watched] + events[self.watched]
        self.roundings += 3 + problem.products
        if self.apart and self.tells:
            self.terms.append(conditional_entropy(mass, taken.entry, history, arrived.memory, arrived.x))
        self._store(history, self._followed(arrived), mass)
        if self.apart and self.merge:
            code, eta = group(*self.entries)[1], self.relative_error()
            merged, charge = merge_histories(self.history, code, self.mass, self.merge, eta)
            self.charged += charge
            self._store(merged, self.entries, self.mass)

    def _followed(self, entries: Entries) -> Entries:
        """Entries with what is followed of the secret: of a path that does not tell x, a number for all of it so far."""
        memory, x, z = entries
        if self.is_ahead and self.problem.each is not None:
            z = z | (self.problem.each.value[x] == 1)
        elif self.apart and not self.tells and self.problem.path is not None:
            z = group(z, self.problem.path[x])[1]
        return Entries(memory, x, z)

    def _store(self, history: Numbers, entries: Entries, mass: Float[np.ndarray, " n"]) -> None:
        """Add up the masses of equal (history, memory, x, z)."""
        index, number = group(history, *entries)
        together = int(np.bincount(number, minlength=1).max())
        self.most_in_a_step = max(self.most_in_a_step, 2 + self.problem.products + together)
        self.roundings += together - 1
        self.entries, self.mass = some(entries, index), np.bincount(number, mass, len(index))
        self.history = np.cumsum(np.diff(history[index], prepend=-1) != 0) - 1

    def relative_error(self) -> float:
        """η: a bound on the relative error of a weight, from roundings and from rows that do not sum to one."""
        return gamma(self.roundings + 2) + 3.03 * (self.problem.horizon + 1) * self.defect

    def bits(self) -> tuple[float, float]:
        """Proven lower and upper bounds on `H(Z | history)`, on the entropy of the path, or on that of the present value of a
        secret that has one at every time."""
        problem, each, law = self.problem, self.problem.each, copy.copy(self)
        if each is None:
            memory, x, z = self.entries
            value, most = group(memory, x)[1] if self.tells else z, problem.most_bits
            values = problem.values if problem.path is None else None
            return self._bounds([*self.terms, conditional_entropy(self.mass, value, self.history, most=values)], most)
        value, most = each.value[self.entries.x], log2_of_count(each.values) * (1 + 4 * UNIT)
        if each.ahead:
            law.is_ahead, law.sums, law.merge = True, [], 0
            law.entries = self.entries._replace(z=(value == 1).astype(np.int64))
            law.go(min(law.time + each.ahead, problem.horizon))
            value = law.entries.z
        return law._bounds([conditional_entropy(law.mass, value, law.history, most=each.values)], most)

    def _bounds(self, terms: list[Entropy], most: float) -> tuple[float, float]:
        """Bounds on the sum of some entropies, each of weights of this pass, which is at most `most`."""
        self.roundings += max(one.together for one in terms) - 1
        found, error = math.fsum(one.bits for one in terms), math.fsum(one.error for one in terms)
        eta = self.relative_error()
        # Whether a path was left out is one more unknown: H ≤ H(kept) + lost · log2|Z| + h(lost).
        missed = self.lost * (most + 2 - float(log2_or_zero(np.array(self.lost)))) if self.lost < 0.3 else most
        upper = (found + error) * (1 + 1.01 * eta) + missed + 8 * UNIT
        return max(0.0, (found - error) * (1 - eta) - 8 * UNIT - self.charged), float(min(most, upper))
