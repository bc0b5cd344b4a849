"""The statements of a `.pomdp` file: preamble, start, `T`, `O` and `R`, in every form that the format has."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from ...common.checks import SUM_TOLERANCE
from ..text import END, is_whole, shown, to_number
from .entries import Choice, Entries
from .rewards import Rewards
from .tokens import Tokens, is_name

MOST_ACTIONS = 2**14
_SIZES = ("states", "actions", "observations")
_SINGULAR = {"states": "state", "actions": "action", "observations": "observation"}
_PREAMBLE = ("discount", "values", *_SIZES)
_STATEMENTS = (*_PREAMBLE, "start", "T", "O", "R")


@dataclass
class Names:
    """How many states, actions or observations there are, and their names where they have some."""

    kind: str
    size: int
    names: tuple[str, ...] | None = None
    index: dict[str, int] = field(default_factory=dict)

    def text(self, index: int) -> str:
        """An index as the file would write it."""
        return repr(self.names[index]) if self.names is not None else str(index)


@dataclass
class Parsed:
    """Everything that a file says, before the rows are checked. `observations` is None in the file of an MDP."""

    states: Names
    actions: Names
    observations: Names | None
    start: Float[np.ndarray, " S"]
    transitions: Entries
    emissions: Entries | None
    rewards: Rewards
    discount: float = 1.0
    notes: list[str] = field(default_factory=list)


class Reader:
    """Reads the statements of a file, one after the other.

    **Arguments:** `tokens`; `limit`, how many numbers transitions, observations and rewards may each expand to;
    `rescale`, by how much probabilities may miss 1.
    """

    def __init__(self, tokens: Tokens, limit: int, rescale: float):
        self.tokens = tokens
        self._limit = limit
        self._rescale = rescale
        self._sizes: dict[str, Names] = {}
        self._seen: dict[str, int] = {}
        self._discount = 1.0
        self._sign = 1.0
        self._start: np.ndarray | None = None
        self._parsed: Parsed | None = None
        self.notes: list[str] = []

    def read(self) -> Parsed:
        """All statements; raises `ModelFileError` at the first that is not understood."""
        while (word := self.tokens.take()) is not END:
            if word in _PREAMBLE:
                self._read_preamble(word)
            elif word == "start":
                self._read_start()
            elif word in ("T", "O", "R"):
                self._read_entry(word)
            else:
                known = ", ".join(_STATEMENTS)
                raise self.tokens.error(f"{shown(word)} found, expected the beginning of a statement: one of {known}")
        return self._body("the end of the file")

    def _once(self, word: str) -> None:
        """Note a statement that may be there once, before all T, O and R."""
        if word in self._seen:
            raise self.tokens.error(f"{word!r} is given again, expected once: it was given in line {self._seen[word]}")
        if self._parsed is not None:
            raise self.tokens.error(f"{word!r} comes after the first T, O or R, expected before them")
        self._seen[word] = self.tokens.line

    def _read_preamble(self, word: str) -> None:
        self._once(word)
        self.tokens.expect(":", word)
        if word == "discount":
            self._discount = self.tokens.number("a discount in [0, 1]")
            if not 0 <= self._discount <= 1:
                raise self.tokens.error(f"discount is {self._discount:g}, expected a number in [0, 1]")
        elif word == "values":
            kind = self.tokens.take()
            if kind not in ("reward", "cost"):
                raise self.tokens.error(f"{shown(kind)} found, expected 'reward' or 'cost'")
            self._sign = -1.0 if kind == "cost" else 1.0
        else:
            self._sizes[word] = self._read_names(word)

    def _read_names(self, word: str) -> Names:
        kind, most = _SINGULAR[word], MOST_ACTIONS if word == "actions" else self._limit
        if is_whole(self.tokens.peek()):
            token = self.tokens.take()
            size = int(token) if len(token) < 20 else most + 1
            if not 1 <= size <= most:
                raise self.tokens.error(f"{shown(token)} {word} found, expected from 1 to {most:,}")
            return Names(kind, size)
        index: dict[str, int] = {}
        while (token := self.tokens.peek()) is not END and not self._begins_statement():
            self.tokens.take()
            if not is_name(token):
                remedy = "names begin with a letter, or give one number, how many there are"
                raise self.tokens.error(f"{shown(token)} found, expected the name of a {kind}: {remedy}")
            if token in index:
                raise self.tokens.error(f"{kind} {token!r} is named twice, expected distinct names")
            index[token] = len(index)
        if not 1 <= len(index) <= most:
            raise self.tokens.error(f"{len(index)} names of {word} found, expected from 1 to {most:,}")
        return Names(kind, len(index), tuple(index), index)

    def _begins_statement(self) -> bool:
        word, following = self.tokens.peek(), self.tokens.peek(1)
        return word in _STATEMENTS and (following == ":" or (word == "start" and following in ("include", "exclude")))

    def _read_start(self) -> None:
        self._once("start")
        if "states" not in self._sizes:
            raise self.tokens.error("'start' comes before 'states', expected after it")
        states = self._sizes["states"]
        word = self.tokens.take()
        if word in ("include", "exclude"):
            self.tokens.expect(":", f"start {word}")
            self._start = self._read_subset(word, states)
            return
        if word != ":":
            raise self.tokens.error(f"{shown(word)} found, expected ':', 'include' or 'exclude' after start")
        self._start = self._read_distribution(states)

    def _read_distribution(self, states: Names) -> np.ndarray:
        token = self.tokens.peek()
        if token == "uniform":
            self.tokens.take()
            return np.full(states.size, 1 / states.size)
        is_index = is_whole(token) and (states.size > 1 or token == "0") and to_number(self.tokens.peek(1)) is None
        if is_index or token in states.index:
            start = np.zeros(states.size)
            start[self._index(states)] = 1.0
            return start
        if to_number(token) is None:
            self.tokens.take()
            self._unknown(states, token, ", a distribution or 'uniform'")
        line = self._seen["start"]
        start = self.tokens.numbers(states.size, f"the probability of a start in each of {states.size} states")
        self._check_probabilities(start)
        miss = abs(start.sum() - 1)
        if miss > max(self._rescale, SUM_TOLERANCE):
            raise self.tokens.error(f"the start distribution sums to {start.sum():.12g}, expected 1", line)
        if miss > SUM_TOLERANCE:
            self.notes.append(f"the start distribution missed 1 by {miss:.2g} and was divided by its sum")
            start = start / start.sum()
        return start

    def _read_subset(self, word: str, states: Names) -> np.ndarray:
        chosen = np.zeros(states.size, dtype=bool)
        while self.tokens.peek() is not END and not self._begins_statement():
            chosen[self._index(states)] = True
        if not chosen.any():
            raise self.tokens.error(f"start {word} names no state, expected at least one")
        if word == "exclude":
            chosen = ~chosen
            if not chosen.any():
                raise self.tokens.error("start exclude leaves no state, expected at least one")
        return np.where(chosen, 1 / chosen.sum(), 0.0)

    def _body(self, before: str) -> Parsed:
        """What the statements after the preamble are written into, once the preamble is complete."""
        if self._parsed is not None:
            return self._parsed
        missing = [word for word in ("states", "actions") if word not in self._sizes]
        if missing:
            words = f"{before} comes before {missing[0]!r}, expected the sizes first: '{missing[0]}: 5'"
            raise self.tokens.error(words)
        states, actions = self._sizes["states"], self._sizes["actions"]
        observations = self._sizes.get("observations")
        if states.size * actions.size > self._limit:
            raise self.tokens.error(
                f"{states.size:,} states times {actions.size:,} actions found, expected at most {self._limit:,}: raise limit"
            )
        num_observations = 0 if observations is None else observations.size
        if states.size**2 * actions.size * max(num_observations, 1) >= 2**62:
            raise self.tokens.error(
                "states, actions and observations multiply to more than 2^62 rewards, expected fewer"
            )
        if "discount" not in self._seen:
            self.notes.append("no discount is given: 1 is assumed")
        if self._start is None:
            self.notes.append("no start is given: all states are assumed to be equally likely")
        start = np.full(states.size, 1 / states.size) if self._start is None else self._start
        pairs = (actions.size, states.size)
        moves = Entries((*pairs, states.size), self._limit, self.tokens)
        shows = None if observations is None else Entries((*pairs, num_observations), self._limit, self.tokens)
        rewards = Rewards((*pairs, states.size, max(num_observations, 1)), self._sign)
        self._parsed = Parsed(states, actions, observations, start, moves, shows, rewards, self._discount, self.notes)
        return self._parsed

    def _read_entry(self, word: str) -> None:
        parsed = self._body(f"{word!r}")
        line = self.tokens.line
        self.tokens.expect(":", word)
        if word == "R":
            self._read_reward(parsed, line)
        elif word == "T":
            self._read_probabilities("T", parsed, parsed.transitions, parsed.states, line)
        elif parsed.emissions is None or parsed.observations is None:
            raise self.tokens.error("'O' found but no observations are declared, expected 'observations: …' before it")
        else:
            self._read_probabilities("O", parsed, parsed.emissions, parsed.observations, line)

    def _read_probabilities(self, word: str, parsed: Parsed, entries: Entries, columns: Names, line: int) -> None:
        action = self._choice(parsed.actions)
        row = column = None
        depth = 1
        if self._more():
            row, depth = self._choice(parsed.states), 2
            if self._more():
                column, depth = self._choice(columns), 3
        if depth == 3:
            value = self.tokens.number("a probability in [0, 1]")
            self._check_probabilities(value)
            entries.put(action, row, column, value, line)
            return
        token = self.tokens.peek()
        if token == "uniform":
            self.tokens.take()
            entries.put(action, row, None, 1 / columns.size, line)
        elif token == "identity" and depth == 1 and columns.size == parsed.states.size:
            self.tokens.take()
            entries.put_identity(action, line)
        elif token == "reset" and word == "T":
            self.tokens.take()
            entries.put(action, row, None, parsed.start, line)
        else:
            self._read_row_or_matrix(word, entries, action, row, depth, line)

    def _read_row_or_matrix(
        self, word: str, entries: Entries, action: Choice, row: Choice, depth: int, line: int
    ) -> None:
        _, num_rows, num_columns = entries.shape
        also = " or 'uniform'" if depth == 2 else " or 'uniform' or 'identity'"
        if depth == 2:
            values = self.tokens.numbers(num_columns, f"{num_columns} probabilities{also}")
        else:
            what = f"a matrix of {num_rows} by {num_columns} probabilities{also}"
            values = self.tokens.numbers(num_rows * num_columns, what).reshape(num_rows, num_columns)
        self._check_probabilities(values)
        self._check_no_more(word)
        entries.put(action, row, None, values, line)

    def _read_reward(self, parsed: Parsed, line: int) -> None:
        choices: list[Choice] = [self._choice(parsed.actions)]
        observations = parsed.observations or Names("observation", 1)
        for names in (parsed.states, parsed.states, observations):
            if not self._more():
                break
            choices.append(self._choice(names))
        depth = len(choices)
        is_process = parsed.observations is None
        if depth == 4 or (is_process and depth == 3):
            parsed.rewards.put(choices, self.tokens.number("a reward"))
            return
        if depth == 1 and not is_process:
            raise self.tokens.error(
                f"{shown(self.tokens.take())} found, expected ':' and a state after the action", line
            )
        self._read_reward_block(parsed, choices, is_process)

    def _read_reward_block(self, parsed: Parsed, choices: list[Choice], is_process: bool) -> None:
        """The forms with a list: over (next state, observation), over observations, and those of an MDP without them."""
        sizes = parsed.rewards.shape[len(choices) : 3 if is_process else 4]
        wanted = f"{' by '.join(map(str, sizes))} rewards"
        values = self.tokens.numbers(int(np.prod(sizes, dtype=object)), wanted)
        self._check_no_more("R")
        if len(values) > self._limit:
            raise self.tokens.error(f"{len(values):,} rewards found, expected at most {self._limit:,}: raise limit")
        parsed.rewards.put_block(choices, values.reshape(sizes))

    def _more(self) -> bool:
        if self.tokens.peek() == ":":
            self.tokens.take()
            return True
        return False

    def _check_no_more(self, word: str) -> None:
        if to_number(self.tokens.peek()) is not None:
            token = self.tokens.take()
            raise self.tokens.error(f"{shown(token)} found after the last number of {word}, expected a new statement")

    def _choice(self, names: Names) -> Choice:
        if self.tokens.peek() == "*":
            self.tokens.take()
            return None
        return self._index(names)

    def _index(self, names: Names) -> int:
        token = self.tokens.take()
        if token in names.index:
            return names.index[token]
        if is_whole(token):
            if len(token) < 20 and int(token) < names.size:
                return int(token)
            raise self.tokens.error(f"{names.kind} {shown(token)} found, expected an index from 0 to {names.size - 1}")
        return self._unknown(names, token, "")

    def _unknown(self, names: Names, token: str, alternatives: str) -> int:
        known = ", ".join(map(repr, names.names[:6])) if names.names is not None else f"indices 0 to {names.size - 1}"
        more = ", …" if names.names is not None and names.size > 6 else ""
        raise self.tokens.error(f"{shown(token)} found, expected a {names.kind}{alternatives}: known are {known}{more}")

    def _check_probabilities(self, values: float | np.ndarray) -> None:
        array = np.atleast_1d(values)
        wrong = array[(array < 0) | (array > 1 + max(self._rescale, SUM_TOLERANCE))]
        if len(wrong):
            raise self.tokens.error(f"{wrong[0]:g} found, expected a probability in [0, 1]")
