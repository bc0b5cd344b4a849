"""Memory provably helps: an upper bound over all stationary policies, and a policy with memory that exceeds it.

    door ──go──▶ yard        A guard starts at the door and takes three decisions. Each decision taken at the door pays
    door ◀──go── yard        1, and the expected return must be 2.5. Is the guard in the yard at the end? A sensor in
     ↺ stay      ↺ stay      the yard beeps with probability 1/2 at each time the guard is there.

Both sides are proven. A stationary policy is a point (p, q) of the unit square, the probabilities of leaving the door and
the yard: branch and bound with interval arithmetic covers the whole square. The policy with memory, which
remembers its own last two states and does not depend on time, is evaluated in fractions. A certificate bounds what any
policy can hide.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

import veil

HORIZON, MIN_RETURN = 3, 2.5
MEMORY = veil.StateMemory(2, clock=False)  # the two previous states; independent of time
_LOG_ERROR = 4  # error bound of NumPy's logarithm, in units in the last place
_MOST_ROUNDS = 60


def guard_problem() -> veil.Problem:
    """The problem drawn above; all its probabilities are 0, 1/2 or 1."""
    model = veil.Model.from_entries(
        [
            ("door", "stay", "door", 1.0),
            ("door", "go", "yard", 1.0),
            ("yard", "stay", "yard", 1.0),
            ("yard", "go", "door", 1.0),
        ],
        {("door", "stay"): 1.0, ("door", "go"): 1.0},
        "door",
    )
    observer = veil.Observer([[1, 0], [0.5, 0.5]], ["silence", "beep"], silent="silence")
    return veil.Problem(model, observer, veil.LastState(["yard"]), HORIZON, MIN_RETURN, name="guard")


@dataclass(frozen=True, eq=False)
class Interval:
    """Closed intervals `[low, high]`, many side by side; every operation is rounded outward."""

    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def exactly(value: float | np.ndarray) -> "Interval":
        """Numbers that are what they are."""
        array = np.asarray(value, dtype=np.float64)
        return Interval(array, array)

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(_down(self.low + other.low), _up(self.high + other.high))

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(_down(self.low - other.high), _up(self.high - other.low))

    def __mul__(self, other: "Interval") -> "Interval":
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(_down(np.minimum.reduce(ends)), _up(np.maximum.reduce(ends)))

    def log2(self) -> "Interval":
        """Of positive numbers."""
        return Interval(_down(np.log2(self.low), _LOG_ERROR), _up(np.log2(self.high), _LOG_ERROR))


def _down(values: np.ndarray, steps: int = 1) -> np.ndarray:
    for _ in range(steps):
        values = np.nextafter(values, -np.inf)
    return values


def _up(values: np.ndarray, steps: int = 1) -> np.ndarray:
    return -_down(-values, steps)


ONE, HALF = Interval.exactly(1.0), Interval.exactly(0.5)


def entropy(joint: list[list[Interval]]) -> Interval:
    """`H(Z|Y) = Σ P(z,y) (log2 P(y) − log2 P(z,y))`; joint[y] lists `P(z,y)`, numbers that are exactly zero left out."""
    total = Interval.exactly(0.0)
    for row in joint:
        seen = row[0]
        for entry in row[1:]:
            seen = seen + entry
        for entry in row if len(row) > 1 else ():
            total = total + entry * (seen.log2() - entry.log2())
    return total


def markov_joint(p: Interval, q: Interval) -> Iterator[tuple[Interval, Interval]]:
    """`P(door at the end, y)` and `P(yard at the end, y)` for every y, over boxes of stationary policies."""
    for heard in product((False, True), repeat=HORIZON):
        door, yard = ONE, Interval.exactly(0.0)
        for beep in heard:
            stays, leaves = door * (ONE - p) + yard * q, door * p + yard * (ONE - q)
            door, yard = Interval.exactly(0.0) if beep else stays, leaves * HALF
        yield door, yard


def markov_opacity(p: Interval, q: Interval) -> np.ndarray:
    """Upper bounds on the opacity over boxes: H rises in each entry of the joint table, so the upper ends bound it."""
    rows = []
    for door, yard in markov_joint(p, q):
        least = np.full_like(p.high, 5e-324)  # above zero, so that every logarithm is finite; more can only raise H
        rows.append([Interval.exactly(np.maximum(entry.high, least)) for entry in (door, yard)])
    return entropy(rows).high


def markov_return(p: Interval, q: Interval) -> np.ndarray:
    """Upper bounds on the return over boxes: how many of the three decisions are taken at the door."""
    door, total = ONE, ONE
    for _ in range(HORIZON - 1):
        door = door * (ONE - p) + (ONE - door) * q
        total = total + door
    return total.high


def bound_markov(known: float, width: float) -> tuple[float, int]:
    """An upper bound on the opacity of every feasible stationary policy, by branch and bound over the unit square.

    **Arguments:** `known`: bits that some stationary policy hides; boxes that stay within `width` above are not split.

    **Returns:** the bound, which holds for every value of `known`, and the number of boxes evaluated.
    """
    low, high = np.zeros((1, 2)), np.ones((1, 2))
    bound, looked, bits = 0.0, 0, np.ones(1)
    for _ in range(_MOST_ROUNDS):
        p, q = (Interval(low[:, axis], high[:, axis]) for axis in (0, 1))
        looked += len(low)
        open_ = markov_return(p, q) >= MIN_RETURN
        bits = markov_opacity(p, q)
        done = open_ & (bits <= known + width)
        bound = max(bound, float(bits[done].max(initial=0.0)))
        left = open_ & ~done
        low, high, bits = low[left], high[left], bits[left]
        if not len(low):
            return bound, looked
        wide, rows = np.argmax(high - low, axis=1), np.arange(len(low))
        middle = (low[rows, wide] + high[rows, wide]) / 2
        first_high, second_low = high.copy(), low.copy()
        first_high[rows, wide] = second_low[rows, wide] = middle
        low, high = np.concatenate([low, second_low]), np.concatenate([first_high, high])
    return max(bound, float(bits.max())), looked


WAITED = "door (coming from door, door)"


def waiting_policy(problem: veil.Problem, leaves: float = 0.5) -> veil.MemoryPolicy:
    """Stay; but at the door, where both states before were the door too, leave with probability 1/2."""
    names = veil.MemoryPolicy.row_names(problem, MEMORY)
    table = np.tile([1.0, 0.0], (len(names), 1))
    table[names.index(WAITED)] = [1 - leaves, leaves]
    return veil.MemoryPolicy(MEMORY, table)


def exact_side(problem: veil.Problem, policy: veil.MemoryPolicy) -> tuple[list[list[Fraction]], Fraction]:
    """The joint table of a policy and its return in fractions, by following every run of states and sounds."""
    names = veil.MemoryPolicy.row_names(problem, MEMORY)
    runs, earned = {(("door",), ()): Fraction(1)}, Fraction(0)
    for _ in range(HORIZON):
        after: dict = {}
        for (states, heard), chance in runs.items():
            earned += chance * (states[-1] == "door")
            came = ", ".join(states[-3:-1])
            row = names.index(f"{states[-1]} (coming from {came})" if came else f"{states[-1]} (at the start)")
            for action, weight in enumerate(policy.probabilities[row]):
                state = states[-1] if action == 0 else {"door": "yard", "yard": "door"}[states[-1]]
                for beep in (False, True) if state == "yard" and weight else (False,) if weight else ():
                    half = Fraction(1, 2) if state == "yard" else Fraction(1)
                    run = (*states, state), (*heard, beep)
                    after[run] = after.get(run, Fraction(0)) + chance * Fraction(float(weight)) * half
        runs = after
    table: dict = {}
    for (states, heard), chance in runs.items():
        row = table.setdefault(heard, {})
        row[states[-1]] = row.get(states[-1], Fraction(0)) + chance
    return [list(row.values()) for row in table.values()], earned


def main() -> None:
    """Both bounds and their difference."""
    problem = guard_problem()
    markov = veil.solve(problem, seed=0, progress=False)
    upper, boxes = bound_markov(markov.opacity.bits, 5e-4)
    policy = waiting_policy(problem)
    joint, earned = exact_side(problem, policy)
    proven = entropy([[Interval.exactly(float(entry)) for entry in row] for row in joint])  # halves and quarters: exact
    measured, gained = veil.opacity(problem, policy).bits, veil.expected_return(problem, policy)
    assert earned == gained == HORIZON
    assert proven.low <= measured <= proven.high
    print(f"threshold on the return                        {MIN_RETURN}")
    print(
        f"best stationary policy found                   {markov.opacity.bits:.6f} bits, return {markov.expected_return:.4f}"
    )
    upper = math.ceil(1e6 * upper) / 1e6  # the printed number is rounded up and holds too
    print(f"upper bound over stationary policies           {upper:.6f} bits ({boxes:,} boxes cover all of them)")
    lower = math.floor(1e6 * float(proven.low)) / 1e6
    print(f"lower bound of the policy with memory          {lower:.6f} bits, return {gained:.4f}")
    certificate = veil.certify(problem, policy, gap=1e-4)
    veil.verify(certificate, problem, policy)
    most = math.ceil(1e6 * certificate.upper) / 1e6
    print(f"upper bound over all policies                  {most:.6f} bits (its certificate, verified)")
    print(f"so memory provably gains at least              {lower - upper:.6f} bits")


if __name__ == "__main__":
    main()
