"""A graph of beliefs, grown where the bounds on what is left are furthest apart.

Layer t has the normalised beliefs of time t, each with a lower and an upper bound on what is still to count, and, once it is
expanded, what every action and answer leads to. Equal beliefs are one node. All work is done on many beliefs at a time.
"""

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock, OutOfTime
from ..common.errors import TooLargeError
from .beliefs import BeliefSteps, keys_of
from .finer import FinerAnswers
from .rules import Followed, Layer, Rule, reached
from .vectors import BeliefVectors

_MOST_NUMBERS = 2**27  # of all nodes together: 1 GiB
_NUMBER_OF_KEY = 16  # as which the key of a belief counts
_BATCH_NUMBERS = 2**23  # of the beliefs that are made at a time
_BATCH = 512  # nodes that are expanded between two updates of the bounds
_OPEN, _EXACT = -1, -2  # nodes that are not expanded: their actions may be, or need not be

Nodes = Int[np.ndarray, " k"]


class _Grown:
    """Arrays with the same number of rows, which grow."""

    def __init__(self, **kinds: tuple[tuple[int, ...], type]):
        self.size = 0
        self.width = sum(int(np.prod(shape)) for shape, _ in kinds.values())
        """How many numbers a row has."""
        self._arrays = {name: np.empty((64, *shape), dtype=kind) for name, (shape, kind) in kinds.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def add(self, **rows: np.ndarray) -> slice:
        """Append rows of every array; the places of them."""
        count = len(next(iter(rows.values())))
        begin, self.size = self.size, self.size + count
        for name, values in rows.items():
            array = self._arrays[name]
            if self.size > len(array):
                larger = np.empty((max(self.size, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
                larger[:begin] = array[:begin]
                self._arrays[name] = array = larger
            array[begin : self.size] = values
        return slice(begin, self.size)


class BeliefGraph:
    """The beliefs that a search has looked at, from the start on.

    **Arguments:** `vectors`: plans that give upper bounds; `finer`: answers that give lower ones.
    """

    def __init__(self, steps: BeliefSteps, vectors: BeliefVectors | None = None, finer: FinerAnswers | None = None):
        self.steps, self._vectors, self._finer = steps, vectors, finer
        answers, self._actions = len(steps.answers.action), steps.num_actions
        self._begins = np.searchsorted(steps.answers.action, np.arange(self._actions))
        self._nodes, self._expanded = list[_Grown](), list[_Grown]()
        for time in range(steps.last):
            single = dict.fromkeys(("place", "parent", "answer"), ((), int))
            self._nodes.append(_Grown(lower=((), float), upper=((), float), **single))
            row = {"belief": ((steps.values(time) * steps.hidden.num_states,), float)}
            kinds = {"child": ((answers,), int), "mass": ((answers,), float), "fixed": ((self._actions,), float)}
            self._expanded.append(_Grown(**row, **kinds))
        self._numbers: list[dict[bytes, int]] = [{} for _ in range(steps.last)]
        beliefs = np.array([row for _, row in steps.starts])
        self._mass = beliefs.sum(axis=1)
        self._begin = beliefs / self._mass[:, None]
        self._first = float(steps.unknown(0, beliefs).sum())
        self.blind = self._first + float(steps.blind(0, beliefs).sum())
        self._roots = self._made(0, self._begin, np.arange(len(beliefs)), np.zeros(len(beliefs), dtype=int))

    @property
    def size(self) -> int:
        """How many beliefs it has."""
        return sum(one.size for one in self._nodes)

    @property
    def sizes(self) -> list[int]:
        """How many beliefs it has of each time."""
        return [one.size for one in self._nodes]

    @property
    def roots(self) -> Nodes:
        """The beliefs after the first events."""
        return self._roots

    def lower(self, time: int) -> Float[np.ndarray, " n"]:
        """The lower bound of each belief of a time."""
        return self._nodes[time]["lower"][: self._nodes[time].size]

    def exact(self, time: int) -> np.ndarray:
        """Which beliefs of a time need not be expanded."""
        return self._nodes[time]["place"][: self._nodes[time].size] == _EXACT

    def expanded(self, time: int, nodes: Nodes) -> tuple[np.ndarray, Int[np.ndarray, "k K"], Float[np.ndarray, "k K"]]:
        """Some beliefs, what each answer leads to (-1 for nothing, or where they are not expanded), and its probability."""
        here, answers = self._nodes[time], len(self.steps.answers.action)
        child, mass, place = np.full((len(nodes), answers), -1), np.zeros((len(nodes), answers)), here["place"][nodes]
        inside = place >= 0
        mass[inside] = self._expanded[time]["mass"][place[inside]]
        child[inside] = np.where(mass[inside] > 0, self._expanded[time]["child"][place[inside]], -1)
        return self._beliefs(time, nodes), child, mass

    @property
    def uses_answers(self) -> bool:
        """Whether its lower bounds are also those of the answers to all queries."""
        return self._finer is not None

    def total(self, name: str) -> float:
        """The lower or the upper bound on what counts from the start on."""
        if not self._nodes:
            return self._first
        return self._first + float(self._mass @ self._nodes[0][name][self._roots])

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return self.total("upper") - self.total("lower")

    def run(self, gap: float, clock: Clock) -> None:
        """Expand beliefs until the bounds are near or time or memory is used up."""
        try:
            while self.gap > gap:
                clock.check()
                clock.report(reached("beliefs", self.total("lower"), self.total("upper"), clock))
                if not self._grow(clock):
                    return
        except (OutOfTime, TooLargeError):
            return

    def _grow(self, clock: Clock) -> bool:
        """Expand the beliefs that contribute most to the gap if the actions of the least lower bounds are taken."""
        followed, wanted = list[Nodes](), list[tuple[Nodes, np.ndarray]]()
        weight = np.bincount(self._roots, self._mass, minlength=self._nodes[0].size) if self._nodes else np.zeros(0)
        for time, nodes in enumerate(self._nodes):
            reached = np.flatnonzero(weight)
            place, width = nodes["place"][reached], nodes["upper"][reached] - nodes["lower"][reached]
            share = np.where(place == _OPEN, weight[reached] * width, 0.0)
            wanted.append((reached[share > 0], share[share > 0]))
            followed.append(reached[place >= 0])
            if time + 1 < len(self._nodes):
                weight = self._weights(time, followed[-1], weight)
        shares = np.concatenate([share for _, share in wanted])
        if not len(shares):
            return False
        least = np.sort(shares)[-min(_BATCH, len(shares))]
        try:
            for time, (nodes, share) in enumerate(wanted):
                chosen = nodes[share >= least]
                self._expand(time, chosen, clock)
                followed[time] = np.concatenate([followed[time], chosen])
        finally:  # what was expanded before the time was over counts
            for time in range(len(followed) - 1, -1, -1):
                self._update(time, followed[time])
        return True

    def _weights(self, time: int, nodes: Nodes, weight: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
        """The probability of each belief one time later, if the actions of the least lower bounds are taken."""
        if not len(nodes):
            return np.zeros(self._nodes[time + 1].size)
        expanded, place = self._expanded[time], self._nodes[time]["place"][nodes]
        chosen = self.sums(time, nodes, "lower").argmin(axis=1)
        taken = self.steps.answers.action == chosen[:, None]
        mass = (weight[nodes, None] * expanded["mass"][place])[taken]
        return np.bincount(expanded["child"][place][taken], mass, minlength=self._nodes[time + 1].size)

    def sums(self, time: int, nodes: Nodes, name: str) -> Float[np.ndarray, "k A"]:
        """For each action of expanded beliefs what counts after it, by a bound on what it leads to."""
        expanded, place = self._expanded[time], self._nodes[time]["place"][nodes]
        ahead = expanded["mass"][place] * self._nodes[time + 1][name][expanded["child"][place]]
        return expanded["fixed"][place] + np.add.reduceat(ahead, self._begins, axis=1)

    def _update(self, time: int, nodes: Nodes) -> None:
        here = self._nodes[time]
        nodes = nodes[here["place"][nodes] >= 0]
        if len(nodes):
            lower, upper = (self.sums(time, nodes, name).min(axis=1) for name in ("lower", "upper"))
            here["lower"][nodes] = np.maximum(here["lower"][nodes], lower)
            here["upper"][nodes] = np.minimum(here["upper"][nodes], upper)

    def _expand(self, time: int, nodes: Nodes, clock: Clock) -> None:
        """Make what each action and answer lead to."""
        steps = self.steps
        width = steps.values(time + 1) * steps.hidden.num_states * len(steps.answers.action)
        size = max(1, _BATCH_NUMBERS // width)
        for begin in range(0, len(nodes), size):
            clock.check()
            known = _NUMBER_OF_KEY * self.size
            if known + sum(one.size * one.width for one in (*self._nodes, *self._expanded)) > _MOST_NUMBERS:
                raise TooLargeError("the beliefs do not fit the memory: shorten the horizon, or lower time_limit")
            some = nodes[begin : begin + size]
            beliefs = self._beliefs(time, some)
            after = steps.after(time, beliefs)
            mass = after.sum(axis=2)
            gained = steps.unknown(time + 1, after.reshape(-1, after.shape[2])).reshape(mass.shape)
            fixed = steps.paid(time, beliefs) + np.add.reduceat(gained, self._begins, axis=1)
            child, kept = np.zeros(mass.shape, dtype=int), mass > 0
            row, answer = np.nonzero(kept)
            row += self._expanded[time].size
            child[kept] = self._made(time + 1, after[kept] / mass[kept][:, None], row, answer)
            places = self._expanded[time].add(belief=beliefs, child=child, mass=mass, fixed=fixed)
            self._nodes[time]["place"][some] = np.arange(places.start, places.stop)

    def _beliefs(self, time: int, nodes: Nodes) -> Float[np.ndarray, "k n"]:
        """The beliefs of nodes, made again from the ones that were expanded before: most nodes never are."""
        parent, answer = self._nodes[time]["parent"][nodes], self._nodes[time]["answer"][nodes]
        if time == 0:
            return self._begin[parent]
        before = self._expanded[time - 1]["belief"][parent]
        found = self.steps.after_answers(time - 1, before, np.arange(len(nodes)), answer)
        return found / found.sum(axis=1, keepdims=True)

    def _made(self, time: int, beliefs: Float[np.ndarray, "k n"], parent: Nodes, answer: Nodes) -> Nodes:
        """The nodes of normalised beliefs, made if they are new; each comes after an answer to an expanded belief."""
        if time == self.steps.last:
            return np.zeros(len(beliefs), dtype=int)
        numbers, nodes = self._numbers[time], self._nodes[time]
        before, fresh, found = nodes.size, list[int](), np.empty(len(beliefs), dtype=int)
        for row, key in enumerate(keys_of(beliefs)):
            found[row] = numbers.setdefault(key, before + len(fresh))
            if found[row] == before + len(fresh):
                fresh.append(row)
        if fresh:
            rows = beliefs[fresh]
            if time == self.steps.last - 1:
                lower = upper = self._last_sums(rows).min(axis=1)
            else:
                lower = self._lower(time, rows)
                upper = np.maximum(self._upper(time, rows), lower)
            place = np.full(len(rows), _EXACT if time == self.steps.last - 1 else _OPEN)
            nodes.add(lower=lower, upper=upper, place=place, parent=parent[fresh], answer=answer[fresh])
        return found

    def _lower(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        placed = self.steps.placed(time, beliefs)
        return placed if self._finer is None else np.maximum(placed, self._finer.bound(time, beliefs))

    def _upper(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        blind = self.steps.blind(time, beliefs)
        return blind if self._vectors is None else np.minimum(blind, self._vectors.bound(time, beliefs))

    def _last_sums(self, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k A"]:
        """What the last action leaves and costs, exactly."""
        time = self.steps.last - 1
        left = np.add.reduceat(self.steps.left_by(time, beliefs), self._begins, axis=1)
        return self.steps.paid(time, beliefs) + left

    def rule(self, name: str, base: Rule) -> Rule:
        """The actions of the least bounds at beliefs that were expanded, and another rule at all others."""

        def chosen(time: int, beliefs: Float[np.ndarray, "k n"], clock: Clock) -> Int[np.ndarray, " k"]:
            mass = beliefs.sum(axis=1, keepdims=True)
            known = [self._numbers[time].get(key, -1) for key in keys_of(beliefs / mass)]
            node = np.array(known, dtype=int)
            inside = np.flatnonzero(node >= 0)
            inside = inside[self._nodes[time]["place"][node[inside]] >= 0]
            actions, outside = np.empty(len(beliefs), dtype=int), np.ones(len(beliefs), dtype=bool)
            if len(inside):
                actions[inside], outside[inside] = self.sums(time, node[inside], name).argmin(axis=1), False
            if outside.any():
                actions[outside] = base(time, beliefs[outside], clock)
            return actions

        return chosen

    def plan(self) -> Followed:
        """The plan of the upper bound; where nothing more is to be learned it follows no beliefs."""
        steps = self.steps
        nodes = {event: number for number, (event, _) in enumerate(steps.starts)}
        layer, layers = self._roots, list[Layer]()
        for time in range(steps.last):
            here, count = self._nodes[time], len(layer)
            chosen, following = np.full(count, steps.plain), np.full((count, steps.num_events), -1)
            place, after = here["place"][layer], np.zeros(0, dtype=int)
            exact = np.flatnonzero(place == _EXACT)
            if len(exact):
                chosen[exact] = self._last_sums(self._beliefs(time, layer[exact])).argmin(axis=1)
            inside = np.flatnonzero(place >= 0)
            if len(inside):
                sums = self.sums(time, layer[inside], "upper")
                better = sums.min(axis=1) <= here["upper"][layer[inside]] + 1e-9  # else to learn nothing more is
                inside, sums = inside[better], sums[better]
                chosen[inside] = sums.argmin(axis=1)
                expanded, taken = self._expanded[time], steps.answers.action == chosen[inside][:, None]
                taken &= expanded["mass"][place[inside]] > 0
                row, answer = np.nonzero(taken)
                after, number = np.unique(expanded["child"][place[inside][row], answer], return_inverse=True)
                following[inside[row], steps.answers.event[answer]] = number.ravel()
            layers.append(Layer(chosen, following))
            layer = after
        return Followed(self.total("upper"), nodes, tuple(layers))
