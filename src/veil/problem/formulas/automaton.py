"""The automaton of a formula: the smallest deterministic one that accepts the runs on which the formula holds.

Read from its end, a run settles every future operator: whether `a U b` holds at a time follows from the letter there and from
whether it holds one step later. So the truth values of the subformulas are the states of a deterministic automaton that reads
backwards; reversing it and determinising gives the smallest forward one (Brzozowski). Past operators are settled in the same
way from the front, by a monitor whose values the formula reads like letters. A future operator inside a past one becomes a new
proposition, guessed at each time and required to be right; dropping it afterwards is another determinisation.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Int

from ...common.errors import TooLargeError
from .syntax import FUTURE, PAST, Node

T = TypeVar("T")
DEFAULT_STATES = 10_000
_MOST_LETTERS = 2**14  # with the guesses and the values of past operators
_MOST_BACKWARDS = 50_000  # states of the automaton that reads backwards, at most 2^14 bytes of truth values each
Letter = frozenset[str]


@dataclass(frozen=True, eq=False)
class FormulaAutomaton:
    """A deterministic automaton: `step[q, l]` is the state after letter l in state q; it begins in state 0.

    `letters[l]` is the set of propositions that are true. No two states accept the same continuations.
    """

    letters: tuple[Letter, ...]
    step: Int[np.ndarray, "M L"]
    accepting: Bool[np.ndarray, " M"]

    def accepts(self, run: Sequence[Letter]) -> bool:
        """Whether a run, given by the propositions that are true at each time, is accepted."""
        number, state = {letter: place for place, letter in enumerate(self.letters)}, 0
        for letter in run:
            state = int(self.step[state, number[frozenset(letter)]])
        return bool(self.accepting[state])


def automaton_of(root: Node, letters: Sequence[Letter], most_states: int = DEFAULT_STATES) -> FormulaAutomaton:
    """The smallest automaton of a formula over an alphabet.

    **Arguments:** `letters`: the sets of propositions that can be true together; `most_states`: what is refused beyond.

    **Raises:** `TooLargeError` where the alphabet or an automaton on the way is too large.
    """
    root, guesses = _without_future_in_past(root)
    past = [node for node in root.walk() if node.operator in PAST]
    monitor = _Monitor(past, _with_guesses(letters, guesses))
    ahead = _forward(root, monitor.letters, past, most_states)
    step, accepting = _determinised(monitor, ahead, len(letters), most_states)
    return FormulaAutomaton(tuple(letters), *_minimal(step, accepting))


def _too_large(what: str, most: int) -> TooLargeError:
    return TooLargeError(
        f"the formula needs more than {most:,} {what}: use fewer propositions or operators, or split it into several formulas"
    )


class _Numbered(Generic[T]):
    """Items numbered in the order in which they first come, by a key; more than `most` of them are refused.

    `items` grows while it is walked over, which is how the states of an automaton are found.
    """

    def __init__(self, what: str, most: int):
        self.items: list[T] = []
        self._what, self._most = what, most
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, item: T) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.items)
            self.items.append(item)
            if len(self.items) > self._most:
                raise _too_large(self._what, self._most)
        return self._numbers[key]


def _without_future_in_past(root: Node) -> tuple[Node, list[str]]:
    """The formula with each future operator inside a past one replaced by a proposition that is required to agree with it."""
    defined: dict[Node, Node] = {}
    known: dict[tuple[Node, bool], Node] = {}

    def rewritten(node: Node, inside: bool) -> Node:
        if (node, inside) not in known:
            if inside and node.operator in FUTURE:
                meaning = rewritten(node, False)
                name = Node("prop", name=f"\0{len(defined)}")  # no text can name it
                known[node, inside] = defined.setdefault(meaning, name)
            else:
                parts = tuple(rewritten(part, inside or node.operator in PAST) for part in node.parts)
                known[node, inside] = Node(node.operator, parts, node.name)
        return known[node, inside]

    found = rewritten(root, False)
    for meaning, name in defined.items():
        agree = Node("&", (Node("|", (Node("!", (name,)), meaning)), Node("|", (name, Node("!", (meaning,))))))
        found = Node("&", (found, Node("G", (agree,))))
    return found, [name.name for name in defined.values()]


def _with_guesses(letters: Sequence[Letter], guesses: list[str]) -> list[Letter]:
    """Each letter with every choice of the guessed propositions; the choices of one letter stand together."""
    if len(letters) * 2 ** len(guesses) > _MOST_LETTERS:
        raise _too_large("letters", _MOST_LETTERS)
    choices = [
        frozenset(name for bit, name in enumerate(guesses) if number >> bit & 1) for number in range(2 ** len(guesses))
    ]
    return [letter | choice for letter in letters for choice in choices]


class _Monitor:
    """Follows the past operators: its states are their truth values, and each step shows a letter together with them.

    `letters`: the pairs (letter, values after it) that occur; `step[state][l]`: the next state and the pair's number.
    """

    def __init__(self, past: list[Node], letters: list[Letter]):
        pairs: _Numbered[tuple[Letter, tuple[bool, ...]]] = _Numbered("letters", _MOST_LETTERS)
        memories: _Numbered[dict[Node, bool] | None] = _Numbered("combinations of truth values", _MOST_BACKWARDS)
        memories.number(None, None)
        self.letters, self.step = pairs.items, list[list[tuple[int, int]]]()
        inner = list(dict.fromkeys(node for operator in past for node in operator.walk()))
        for memory in memories.items:
            row = []
            for letter in letters:
                values = _at_present(inner, letter, memory)
                pair = letter, tuple(values[node] for node in past)
                row.append((memories.number(tuple(values.values()), values), pairs.number(pair, pair)))
            self.step.append(row)


def _at_present(nodes: list[Node], letter: Letter, before: dict[Node, bool] | None) -> dict[Node, bool]:
    """The truth values of formulas without future operators, from those one step earlier."""
    values: dict[Node, bool] = {}
    for node in nodes:
        parts = [values[part] for part in node.parts]
        match node.operator:
            case "Y":
                value = before is not None and before[node.parts[0]]
            case "O":
                value = parts[0] or (before is not None and before[node])
            case "H":
                value = parts[0] and (before is None or before[node])
            case "S":
                value = parts[1] or (parts[0] and before is not None and before[node])
            case _:
                value = _plain(node, parts, lambda name: name in letter)
        values[node] = bool(value)
    return values


def _plain(node: Node, parts: list[Any], prop: Callable[[str], Any]) -> Any:
    """The value of a proposition, a constant or a Boolean operator: a truth value, or an array of them."""
    match node.operator:
        case "prop":
            return prop(node.name)
        case "true" | "false":
            return node.operator == "true"
        case "!":
            return np.logical_not(parts[0])
        case "&":
            return np.logical_and(*parts)
        case "|":
            return np.logical_or(*parts)
    raise AssertionError(node.operator)


def _forward(
    root: Node, letters: list[tuple[Letter, tuple[bool, ...]]], past: list[Node], most_states: int
) -> tuple[Int[np.ndarray, "M L"], Bool[np.ndarray, " M"]]:
    """The forward automaton of a formula whose past operators are read from the letters.

    **Returns:** its steps and which of its states accept; it begins in state 0.
    """
    backwards, holds = _backwards(root, letters, past)
    sets: _Numbered[np.ndarray] = _Numbered("states of its automaton", most_states)
    sets.number(holds.tobytes(), holds)
    # Under a letter, a set is entered from the states that the letter leads into it.
    step = [
        [sets.number(before.tobytes(), before) for before in (current[column] for column in backwards.T)]
        for current in sets.items
    ]
    accepting = np.array([current[0] for current in sets.items])  # state 0 is the end of the run
    return np.array(step, dtype=np.int64), accepting


def _backwards(
    root: Node, letters: list[tuple[Letter, tuple[bool, ...]]], past: list[Node]
) -> tuple[Int[np.ndarray, "R L"], Bool[np.ndarray, " R"]]:
    """The automaton that reads from the end, with state 0 before the last letter; where the formula holds.

    A state is what the letter before it needs to know: the values of future operators and of what `X` looks at.
    """
    nodes = list(root.walk())
    kept = [*dict.fromkeys(
        [node for node in nodes if node.operator in ("U", "R", "F", "G")]
        + [node.parts[0] for node in nodes if node.operator in ("X", "WX")] + [root]
    )]  # fmt: skip
    columns = {name: np.array([name in letter for letter, _ in letters]) for name in _names(nodes)}
    seen = {node: np.array([values[place] for _, values in letters]) for place, node in enumerate(past)}
    states: _Numbered[np.ndarray] = _Numbered("combinations of truth values", _MOST_BACKWARDS)
    states.number(b"", np.zeros(len(kept), dtype=bool))  # nothing has been read
    step: list[list[int]] = []
    for number, known in enumerate(states.items):
        after = None if number == 0 else dict(zip(kept, known.tolist(), strict=True))
        values = _at_each_letter(nodes, columns, seen, after, len(letters))
        table = np.stack([values[node] for node in kept], axis=1)
        step.append([states.number(row.tobytes(), row) for row in table])
    holds = np.array([row[kept.index(root)] for row in states.items])
    holds[0] = False
    return np.array(step, dtype=np.int64), holds


def _names(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes if node.operator == "prop"]


def _at_each_letter(
    nodes: list[Node],
    columns: dict[str, np.ndarray],
    seen: dict[Node, np.ndarray],
    after: dict[Node, bool] | None,
    count: int,
) -> dict[Node, Bool[np.ndarray, " L"]]:
    """The truth values of all subformulas at a time, for each letter there, from those one step later."""
    values: dict[Node, np.ndarray] = {}
    for node in nodes:
        parts = [values[part] for part in node.parts] if node not in seen else []
        is_last = after is None
        match node.operator:
            case "X":
                value = not is_last and after[node.parts[0]]
            case "WX":
                value = is_last or after[node.parts[0]]
            case "F":
                value = parts[0] | (not is_last and after[node])
            case "G":
                value = parts[0] & (is_last or after[node])
            case "U":
                value = parts[1] | (parts[0] & (not is_last and after[node]))
            case "R":
                value = parts[1] & (parts[0] | (is_last or after[node]))
            case "last":
                value = is_last
            case _:
                value = seen[node] if node in seen else _plain(node, parts, lambda name: columns[name])
        values[node] = np.broadcast_to(np.asarray(value, dtype=bool), (count,))
    return values


def _determinised(
    monitor: _Monitor, ahead: tuple[np.ndarray, np.ndarray], num_letters: int, most_states: int
) -> tuple[Int[np.ndarray, "M L"], Bool[np.ndarray, " M"]]:
    """The product of monitor and automaton with the guesses dropped: sets of pairs, one pair each without guesses."""
    step, accepting = ahead
    choices = len(monitor.step[0]) // num_letters
    sets: _Numbered[frozenset[tuple[int, int]]] = _Numbered("states of its automaton", most_states)
    begin = frozenset({(0, 0)})
    sets.number(begin, begin)
    result: list[list[int]] = []
    for current in sets.items:
        row = []
        for letter in range(num_letters):
            pairs = set()
            for watched, state in current:
                for guess in range(choices):
                    following, shown = monitor.step[watched][letter * choices + guess]
                    pairs.add((following, int(step[state, shown])))
            row.append(sets.number(frozenset(pairs), frozenset(pairs)))
        result.append(row)
    accepts = np.array([any(accepting[state] for _, state in pairs) for pairs in sets.items])
    return np.array(result, dtype=np.int64), accepts


def _minimal(
    step: Int[np.ndarray, "M L"], accepting: Bool[np.ndarray, " M"]
) -> tuple[Int[np.ndarray, "m L"], Bool[np.ndarray, " m"]]:
    """The smallest automaton of the same language: states are split until those together go together (Moore).

    Its states are numbered in the order in which they are reached from the first.
    """
    kind, count = accepting.astype(np.int64), 1 + int(accepting.any() and not accepting.all())
    while True:
        kind = np.unique(np.column_stack([kind, kind[step]]), axis=0, return_inverse=True)[1].ravel()
        if int(kind.max()) + 1 == count:
            break
        count = int(kind.max()) + 1
    member = np.unique(kind, return_index=True)[1]
    order, place = [int(kind[0])], {int(kind[0]): 0}
    for one in order:
        for following in kind[step[member[one]]].tolist():
            if following not in place:
                place[following] = len(order)
                order.append(following)
    kept = member[order]
    return np.array([[place[one] for one in kind[step[state]].tolist()] for state in kept]), accepting[kept]
