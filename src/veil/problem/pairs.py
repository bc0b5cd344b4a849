"""Pairs (secret, observer) beside a problem's own: what is to be hidden from whom else, over the same model."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..common.checks import Defects, as_tuple, is_number, is_text
from ..common.errors import InputError
from ..common.suggest import suggestion
from ..common.values import Value
from .belief import Belief
from .keys import Key
from .observer import Observer
from .secrets.secret import Secret

OWN = "own"
"""The name of a problem's own pair, of its `secret` and its `observer`."""


@dataclass(frozen=True, eq=False, repr=False)
class Pair(Value):
    """A further secret or a further observer, and how many bits of the secret, `H(Z|Y)`, must stay hidden from the
    observer.

    **Arguments:**

    - `name`: its name in results and in `veil.solve(hide=…, task="… H(name)")`.
    - `observer`, `secret`: those of the problem if they are left out; at least one of them, or a belief.
    - `belief`: what the observer assumes, if it may be wrong; its loss `E[−log2 q(Z|Y)]` then takes the place of `H(Z|Y)`.
    - `min`, `max`: bounds on `H(Z|Y)` in bits. `max` is for a friend, who is to learn the secret; that bound is not
      convex, so that searches under it are local and upper bounds leave it out.

    **Raises:** `InputError` listing every defect.
    """

    keys = (
        Key("name", str, 'Its name; `"own"` is taken, for `[secret]` and `[observer]`.'),
        Key(
            "observer", Observer, "Its observer, without the sensors of the grid; by default that of the problem.", None
        ),
        Key("secret", Secret, "Its secret; by default that of the problem.", None),
        Key("min", float, "Bits that must stay hidden.", None, least=0),
        Key(
            "max", float, "The most bits that may stay hidden, if this observer is to learn the secret.", None, least=0
        ),
        Key(
            "belief", Belief, "What the observer assumes, if it may be wrong; its loss replaces the hidden bits.", None
        ),
    )

    name: str
    observer: Observer | None = None
    secret: Secret | None = None
    min: float | None = None
    max: float | None = None
    belief: Belief | None = None

    def __post_init__(self) -> None:
        defects = Defects("pair")
        if not is_text(self.name) or not self.name or not _is_plain(self.name):
            defects.add(f"name is {self.name!r}, expected a text without parentheses and commas", "name")
        elif self.name == OWN:
            defects.add(f"name is {OWN!r}, which means the problem's own pair: use another one", "name")
        if not isinstance(self.observer, Observer | None):
            defects.add(f"observer is a {type(self.observer).__name__}, expected a veil.Observer", "observer")
        if not isinstance(self.secret, Secret | None):
            found = f"secret is a {type(self.secret).__name__}"
            defects.add(f"{found}, expected one of veil's secrets, such as LastState({{…}})", "secret")
        if not isinstance(self.belief, Belief | None):
            defects.add(f"belief is a {type(self.belief).__name__}, expected a veil.Belief", "belief")
        if self.observer is None and self.secret is None and self.belief is None:
            defects.add("no observer, secret or belief is given, expected at least one of them", "observer")
        for name in ("min", "max"):
            value = getattr(self, name)
            if value is None:
                continue
            if not is_number(value) or not np.isfinite(value) or value < 0:
                defects.add(f"{name} is {value!r}, expected bits, 0 or more", name)
            else:
                object.__setattr__(self, name, float(value))
        if not defects and self.min is not None and self.max is not None and self.min > self.max:
            defects.add(f"min is {self.min:g} and max is {self.max:g}, expected min ≤ max", "min")
        defects.raise_if_any()

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Its bounds as `(sign, bits)`: +1 if at least this many bits must be hidden, −1 if at most."""
        given = ((1.0, self.min), (-1.0, self.max))
        return tuple((sign, bound) for sign, bound in given if bound is not None)


def _is_plain(name: str) -> bool:
    return not set(name) & set("(),") and name == name.strip()


def read_pairs(given: object, defects: Defects) -> tuple[Pair, ...]:
    """The pairs of an argument; what is none, and names that occur twice, are noted."""
    made = as_tuple(given)
    listed = made if isinstance(made, tuple) else (made,)
    pairs = tuple(one for one in listed if isinstance(one, Pair))
    for number, one in enumerate(listed):
        if not isinstance(one, Pair):
            expected = "expected one such as veil.Pair('foe', observer=…)"
            defects.add(f"pair {number} is a {type(one).__name__}, {expected}", "pairs", number)
    for number, one in enumerate(pairs):
        if one.name in {other.name for other in pairs[:number]}:
            defects.add(f"two pairs are called {one.name!r}: rename one", "pairs", number)
    return pairs


def hidden_names(pairs: Sequence[Pair], text: str) -> tuple[str, ...]:
    """The pairs whose names a text lists, separated by commas; raises `InputError` where there is no such pair."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name != OWN:
            try:
                find_pair(name, pairs)
            except InputError as error:
                raise InputError("hide", error.defects) from None
    return names


def find_pair(name: str, pairs: Sequence[Pair]) -> Pair:
    """The pair of a name; raises `InputError` where there is none."""
    known = {one.name: one for one in pairs}
    if name not in known:
        raise InputError("pairs", [f"there is no pair {name!r}: {suggestion(name, [OWN, *known])}"])
    return known[name]
