"""An automaton of a formula as a picture: one SVG, states around an ellipse, conditions on the arrows."""

import math
from collections.abc import Iterable
from html import escape
from itertools import combinations

import numpy as np

from ...common.errors import TooLargeError
from .automaton import FormulaAutomaton

_RADIUS, _MARGIN, _SIZE = 22, 84, 12
_MOST_DRAWN = 60  # states that can still be told apart on a page
_MOST_TERMS = 4  # of a condition on an arrow; a longer one is cut
_MOST_ARROWS = 2000

Term = frozenset[tuple[str, bool]]  # propositions and whether they are true; all others do not matter
Place = tuple[float, float]


def to_svg(automaton: FormulaAutomaton) -> str:
    """The automaton as SVG text, light or dark as the page is; raises `TooLargeError` beyond 60 states.

    A state from which no run is accepted any more is left out with its arrows: what has no arrow leads there.
    """
    if len(automaton.accepting) > _MOST_DRAWN:
        raise TooLargeError(
            f"a picture shows at most {_MOST_DRAWN} states, the automaton has {len(automaton.accepting):,}"
        )
    shown = [state for state in range(len(automaton.accepting)) if state == 0 or not _is_lost(automaton, state)]
    centre, places = _places(shown)
    arrows = {ends: words for ends, words in conditions(automaton).items() if set(ends) <= set(shown)}
    drawn = [_arrow(places, centre, ends, words, ends[::-1] in arrows) for ends, words in arrows.items()]
    parts = [line for line, _ in drawn] + [words for _, words in drawn]  # no line crosses the words of another
    parts += [_state(places[state], state, bool(automaton.accepting[state])) for state in shown]
    x, y = places[0]
    parts.append(f'<path class="arrow" d="M {x - 55:g} {y:g} L {x - _RADIUS - 2:g} {y:g}" marker-end="url(#head)"/>')
    width, height = 2 * centre[0], 2 * centre[1]
    if len(shown) < len(automaton.accepting):
        height += 24
        parts.append(f'<text x="{centre[0]:g}" y="{height - 14:g}">without an arrow: rejected</text>')
    body = "\n".join(parts)
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
<title>automaton with {len(automaton.accepting)} states</title>
<style>
svg {{ font: {_SIZE}px sans-serif; color: #222; --back: #fff; background: var(--back); }}
@media (prefers-color-scheme: dark) {{ svg {{ color: #ddd; --back: #1b1b1b; }} }}
.arrow, .ring {{ fill: none; stroke: currentColor; stroke-width: 1.2; }}
text {{ fill: currentColor; text-anchor: middle; dominant-baseline: central; }}
text {{ stroke: var(--back); stroke-width: 4px; paint-order: stroke; }}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse">
<path d="M 0 0 L 10 5 L 0 10 z" fill="currentColor"/></marker></defs>
{body}
</svg>
"""


def conditions(automaton: FormulaAutomaton) -> dict[tuple[int, int], str]:
    """The condition of each arrow (from, to) in words, as `badge & !alarm`.

    **Raises:** `TooLargeError` beyond 2,000 arrows, which no reader follows.
    """
    count = sum(len(np.unique(row)) for row in automaton.step)
    if count > _MOST_ARROWS:
        size = f"{len(automaton.accepting):,} states and {count:,} arrows"
        raise TooLargeError(
            f"the automaton has {size}, expected at most {_MOST_ARROWS:,} arrows: show parts of the formula"
        )
    names = sorted(frozenset[str]().union(*automaton.letters)) if automaton.letters else []
    letters = np.array([[name in letter for name in names] for letter in automaton.letters], dtype=bool)
    letters = letters.reshape(len(automaton.letters), len(names))
    found: dict[tuple[int, int], str] = {}
    for here in range(len(automaton.accepting)):
        for there in np.unique(automaton.step[here]).tolist():
            inside = automaton.step[here] == there
            found[here, there] = _words(_terms(letters[inside], letters[~inside], names))
    return found


def _terms(inside: np.ndarray, outside: np.ndarray, names: list[str]) -> list[Term]:
    """Few conjunctions that are true of all letters inside and of none outside; no more than are shown, and one.

    Letters, one per row, say which names are true; those that do not occur may be either.
    """
    terms: list[Term] = []
    while len(inside) and len(terms) <= _MOST_TERMS:
        letter = inside[0]
        chosen = _shortest(letter, outside)
        terms.append(frozenset((names[place], bool(letter[place])) for place in chosen))
        inside = inside[_differs(letter, inside, chosen)]
    return terms


def _shortest(letter: np.ndarray, outside: np.ndarray) -> list[int]:
    """The fewest places whose values tell a letter from all outside: by size where that is quick, else by dropping."""
    chosen = list(range(len(letter)))
    if len(chosen) <= 8:
        for size in range(len(letter) + 1):
            for some in combinations(chosen, size):
                if _differs(letter, outside, list(some)).all():
                    return list(some)
    for place in range(len(letter)):
        rest = [other for other in chosen if other != place]
        if _differs(letter, outside, rest).all():
            chosen = rest
    return chosen


def _differs(letter: np.ndarray, others: np.ndarray, places: list[int]) -> np.ndarray:
    """Which of the other letters have another value at one of the places."""
    return (others[:, places] != letter[places]).any(axis=1)


def _words(terms: Iterable[Term]) -> str:
    texts = [" & ".join(name if wanted else f"!{name}" for name, wanted in sorted(term)) or "true" for term in terms]
    shown = texts[:_MOST_TERMS] + (["…"] if len(texts) > _MOST_TERMS else [])
    return " | ".join(shown)


def _is_lost(automaton: FormulaAutomaton, state: int) -> bool:
    """Whether nothing is accepted from a state: in a smallest automaton, whether it rejects and keeps to itself."""
    return not automaton.accepting[state] and bool((automaton.step[state] == state).all())


def _places(states: list[int]) -> tuple[Place, dict[int, Place]]:
    """The centre of an ellipse and the states around it, the first at the left."""
    count = len(states)
    wide, high = (max(150.0, 62.0 * count), max(90.0, 40.0 * count)) if count > 1 else (0.0, 0.0)
    centre = (wide + _MARGIN + 70, high + _MARGIN)
    angles = [math.pi - 2 * math.pi * place / count for place in range(count)]
    where = [(centre[0] + wide * math.cos(angle), centre[1] - high * math.sin(angle)) for angle in angles]
    return centre, dict(zip(states, where, strict=True))


def _state(place: Place, number: int, accepting: bool) -> str:
    x, y = place
    inner = f'<circle class="ring" cx="{x:g}" cy="{y:g}" r="{_RADIUS - 4}"/>' if accepting else ""
    return (
        f'<circle class="ring" cx="{x:g}" cy="{y:g}" r="{_RADIUS}"/>{inner}<text x="{x:g}" y="{y:g}">q{number}</text>'
    )


def _arrow(
    places: dict[int, Place], centre: Place, ends: tuple[int, int], words: str, both_ways: bool
) -> tuple[str, str]:
    (x, y), (u, v) = places[ends[0]], places[ends[1]]
    if ends[0] == ends[1]:
        side = -1 if y <= centre[1] else 1  # away from the middle
        far = y + side * 60
        path = f"M {x - 9:g} {y + side * 20:g} C {x - 26:g} {far:g} {x + 26:g} {far:g} {x + 9:g} {y + side * 22:g}"
        return _labelled(path, (x, far), words)
    length = math.hypot(u - x, v - y)
    along, across = ((u - x) / length, (v - y) / length), ((v - y) / length, -(u - x) / length)
    bend = 46.0 if both_ways else 0.0  # of the control point of a curve that leaves room for its partner

    def point(distance: float, aside: float) -> Place:
        return x + along[0] * distance + across[0] * aside, y + along[1] * distance + across[1] * aside

    begin, middle, end = point(_RADIUS, bend / 6), point(length / 2, bend), point(length - _RADIUS - 2, bend / 6)
    path = f"M {begin[0]:.1f} {begin[1]:.1f} Q {middle[0]:.1f} {middle[1]:.1f} {end[0]:.1f} {end[1]:.1f}"
    return _labelled(path, point(0.4 * length, bend / 2), words)


def _labelled(path: str, place: Place, words: str) -> tuple[str, str]:
    short = words if len(words) <= 40 else words[:38] + " …"
    title = f"<title>{escape(words)}</title>" if short != words else ""
    return (
        f'<path class="arrow" d="{path}" marker-end="url(#head)"/>',
        f'<text x="{place[0]:.1f}" y="{place[1]:.1f}">{title}{escape(short)}</text>',
    )
