"""Samples of combinations: three features, a call and a seed."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from .calls import CALLS
from .cases import FEATURES


@dataclass(frozen=True)
class Combination:
    """Features that are not plain, a call, and the seed of the random problem."""

    features: tuple[tuple[str, str], ...]
    call: str
    seed: int

    @property
    def text(self) -> str:
        """The combination as the command line takes it."""
        given = "; ".join(f"{name}={value}" for name, value in self.features)
        return f"{given}; call={self.call}; seed={self.seed}"


def parse(text: str) -> Combination:
    """The combination of a text such as `secret=path; observer=times; call=attack; seed=3`."""
    given = dict(part.strip().split("=", 1) for part in text.split(";"))
    call, seed = given.pop("call"), int(given.pop("seed"))
    return Combination(tuple(sorted(given.items())), call, seed)


def drawn(count: int, seed: int) -> Iterator[Combination]:
    """Random triples of feature values with a call; cheap calls come more often."""
    rng = random.Random(seed)
    calls, weights = list(CALLS), [call.weight for call in CALLS.values()]
    for _ in range(count):
        names = rng.sample(list(FEATURES), 3)
        features = tuple(sorted((name, rng.choice(FEATURES[name])) for name in names))
        yield Combination(features, rng.choices(calls, weights)[0], rng.randrange(10**6))


def each_value(seed: int) -> Iterator[Combination]:
    """Triples such that every value of every feature meets every call that takes no search."""
    rng = random.Random(seed)
    for call in (name for name, one in CALLS.items() if one.weight >= 1):
        left = {name: rng.sample(values, len(values)) for name, values in FEATURES.items()}
        while any(left.values()):
            names = sorted(FEATURES, key=lambda name: (-len(left[name]), rng.random()))[:3]
            chosen = [(name, left[name].pop() if left[name] else rng.choice(FEATURES[name])) for name in names]
            yield Combination(tuple(sorted(chosen)), call, rng.randrange(10**6))


def covering(seed: int) -> Iterator[Combination]:
    """Triples such that every pair of values of two features meets every call."""
    rng = random.Random(seed)
    for call in CALLS:
        left = {
            ((one, a), (two, b))
            for one, two in itertools.combinations(sorted(FEATURES), 2)
            for a in FEATURES[one]
            for b in FEATURES[two]
        }
        order = sorted(left)
        rng.shuffle(order)
        for pair in order:
            if pair not in left:
                continue
            thirds = [(f, v) for f in FEATURES if f not in (pair[0][0], pair[1][0]) for v in FEATURES[f]]
            rng.shuffle(thirds)
            best = max(thirds, key=lambda third: sum(tuple(sorted((one, third))) in left for one in pair))
            chosen = tuple(sorted((*pair, best)))
            left -= _pairs(chosen)
            yield Combination(chosen, call, rng.randrange(10**6))


def _pairs(features: tuple[tuple[str, str], ...]) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    return set(itertools.combinations(sorted(features), 2))
