"""The lines of a DRN file: header, states, choices and steps."""

import re
from array import array
from pathlib import Path

import numpy as np

from ...common.errors import ModelFileError
from ..rows import rescaled, rescaling_note
from ..text import is_whole, shown, to_number
from .choices import UNLABELLED, Choices

RESCALE = 1e-5  # Storm writes some ten digits
_KINDS = ("DTMC", "MDP", "POMDP")
_PART = re.compile(r'\[([^\]]*)\]|\{([^}]*)\}|"([^"]*)"|([^\s"\[{]+)|(\S)')
_ACTION = re.compile(r'action\s+(?:"([^"]*)"|([^\s\["]+))\s*(?:\[([^\]]*)\])?\s*')
_VARIABLE = re.compile(r"(!?)\s*([A-Za-z_][\w.]*)\s*(?:=\s*(\S+))?")
_NOT_LABELLED = "__NOLABEL__"


class Reader:
    """Goes through the lines once; sizes come from what is there, and are compared with what is declared."""

    def __init__(self, text: str, path: str | Path):
        self.path = path
        self.kind = ""
        self.labels: dict[str, list[int]] = {}
        self._lines = text.split("\n")
        self._line = 0
        self._declared: dict[str, int] = {}
        self._reward_names: list[str] = []
        self._values: dict[str, float] = {}  # of texts that were read, and of placeholders
        self._lists: dict[str, tuple[float, ...]] = {}
        self._state_rewards: dict[int, tuple[float, ...]] = {}
        self._choice_rewards: dict[int, tuple[float, ...]] = {}
        self._observations = array("q")
        self._comments: list[str] = []
        self._owner, self._label = array("q"), array("q")
        self._label_index: dict[str, int] = {}
        self._step_choice, self._step_target, self._step_line = array("q"), array("q"), array("q")
        self._step_value = array("d")
        self._num_states = 0
        self._fresh = False  # a state whose first action has not come yet

    def error(self, message: str, line: int | None = None) -> ModelFileError:
        """A fault at a line, the present one by default."""
        return ModelFileError(self.path, message, self._line if line is None else line)

    def read(self) -> None:
        """The header, then the states."""
        while self._line < len(self._lines):
            line = self._next()
            if line == "@model":
                if not self.kind:
                    raise self.error("@model comes before @type, expected the type first")
                if "@nr_states" not in self._declared:
                    raise self.error("@model comes before @nr_states, expected the number of states first")
                self._read_states()
                return
            if line and not line.startswith("//"):
                self._read_section(line)
        raise self.error("the file ends, expected '@model' and the states")

    def _next(self) -> str:
        self._line += 1
        return self._lines[self._line - 1].strip() if self._line <= len(self._lines) else ""

    def _read_section(self, line: str) -> None:
        if line.startswith("@type:"):
            self._read_kind(line.removeprefix("@type:").strip())
        elif line.startswith("@value_type:"):
            if line.removeprefix("@value_type:").strip() not in ("double", "rational"):
                raise self.error(f"{shown(line)} found, expected values of type double or rational")
        elif line == "@parameters":
            if parameters := self._next():
                raise self.error(f"parameters {shown(parameters)} found, expected none: fix them before exporting")
        elif line == "@placeholders":
            self._read_placeholders()
        elif line == "@reward_models":
            self._reward_names = self._next().split()
            if len(set(self._reward_names)) < len(self._reward_names):
                raise self.error("reward models of one name found, expected distinct names")
        elif line in ("@nr_states", "@nr_choices"):
            token = self._next()
            if not is_whole(token) or len(token) > 18 or int(token) < 1:
                raise self.error(f"{shown(token)} found, expected a number for {line}, 1 or more")
            if line in self._declared:
                raise self.error(f"{line} is given again, expected once")
            self._declared[line] = int(token)
        else:
            known = "@type, @value_type, @parameters, @placeholders, @reward_models, @nr_states, @nr_choices, @model"
            raise self.error(f"{shown(line)} found, expected one of {known}")

    def _read_kind(self, kind: str) -> None:
        if self.kind:
            raise self.error("@type is given again, expected once")
        if kind.upper() not in _KINDS:
            raise self.error(f"type {shown(kind)} found, expected DTMC, MDP or POMDP: discrete time and one agent")
        self.kind = kind.upper()

    def _read_placeholders(self) -> None:
        while self._line < len(self._lines) and self._lines[self._line].strip().startswith("$"):
            name, _, value = self._next().partition(":")
            self._values[name.strip()] = self._value(value.strip())

    def _read_states(self) -> None:
        for number in range(self._line, len(self._lines)):
            line = self._lines[number].strip()
            self._line = number + 1
            head = line[:1]
            if head.isdigit():
                self._read_step(line)
            elif line.startswith("action"):
                self._read_action(line)
            elif line.startswith("state"):
                self._read_state(line)
            elif line.startswith("//["):
                if len(self._comments) == self._num_states - 1:
                    self._comments.append(line)
            elif line and not line.startswith("//"):
                raise self.error(f"{shown(line)} found, expected 'state', 'action' or '<next state> : <probability>'")

    def _read_state(self, line: str) -> None:
        self._end_state()
        parts = line.split(None, 2)
        if len(parts) < 2 or parts[0] != "state" or not is_whole(parts[1]):
            raise self.error(f"{shown(line)} found, expected 'state' and its number")
        if parts[1] != str(self._num_states):
            raise self.error(
                f"state {shown(parts[1])} found, expected state {self._num_states}: in order, without gaps"
            )
        if self._num_states >= self._declared["@nr_states"]:
            raise self.error(
                f"state {parts[1]} found, expected {self._declared['@nr_states']} states as @nr_states says"
            )
        self._num_states += 1
        self._fresh = True
        observation = None
        for rewards, seen, quoted, word, other in _PART.findall(parts[2] if len(parts) > 2 else ""):
            if other:
                raise self.error(
                    f"{shown(other)} found after the state, expected rewards [..], {{observation}} or labels"
                )
            if seen:
                observation = seen.strip()
            elif quoted or word:
                self.labels.setdefault(quoted or word, []).append(self._num_states - 1)
            elif rewards:
                self._state_rewards[self._num_states - 1] = self._list(rewards)
        if self.kind == "POMDP":
            if observation is None or not is_whole(observation) or len(observation) > 9:
                raise self.error(
                    f"observation {shown(observation or '')} found, expected a number in braces, such as {{3}}"
                )
            self._observations.append(int(observation))

    def _read_action(self, line: str) -> None:
        match = _ACTION.fullmatch(line)
        if match is None or not self._num_states:
            raise self.error(f"{shown(line)} found, expected 'action', its label and rewards [..], inside a state")
        if self.kind == "DTMC" and not self._fresh:
            raise self.error(f"state {self._num_states - 1} of a DTMC has a second action, expected one")
        self._end_choice()
        label = match[1] or match[2]
        self._add_choice(UNLABELLED if label == _NOT_LABELLED else label)
        if match[3]:
            self._choice_rewards[len(self._owner) - 1] = self._list(match[3])

    def _add_choice(self, label: str) -> None:
        self._fresh = False
        self._owner.append(self._num_states - 1)
        self._label.append(self._label_index.setdefault(label, len(self._label_index)))

    def _read_step(self, line: str) -> None:
        target, colon, value = line.partition(":")
        target = target.strip()
        if not colon or not is_whole(target) or len(target) > 18:
            raise self.error(f"{shown(line)} found, expected '<next state> : <probability>'")
        if not self._num_states:
            raise self.error("a step comes before the first state, expected 'state 0' first")
        if self._fresh:
            self._add_choice(UNLABELLED)
        if int(target) >= self._declared["@nr_states"]:
            raise self.error(f"next state {target} found, expected one from 0 to {self._declared['@nr_states'] - 1}")
        chance = self._value(value.strip())
        if not 0 <= chance <= 1 + RESCALE:
            raise self.error(f"{chance:g} found, expected a probability in [0, 1]")
        self._step_choice.append(len(self._owner) - 1)
        self._step_target.append(int(target))
        self._step_value.append(chance)
        self._step_line.append(self._line)

    def _end_choice(self) -> None:
        if self._owner and (not self._step_choice or self._step_choice[-1] != len(self._owner) - 1):
            raise self.error(
                f"a choice of state {self._owner[-1]} has no steps, expected '<next state> : <probability>'"
            )

    def _end_state(self) -> None:
        if self._fresh:
            raise self.error(
                f"state {self._num_states - 1} has no choices, expected at least one: add a step to itself"
            )
        self._end_choice()

    def _value(self, text: str) -> float:
        found = self._values.get(text)  # the same few numbers come again and again
        if found is None:
            found = self._values[text] = self._new_value(text)
        return found

    def _new_value(self, text: str) -> float:
        value = to_number(text)
        if value is None and "/" in text:
            above, below = (to_number(part.strip()) for part in text.split("/", 1))
            value = above / below if above is not None and below else None
        if value is None:
            raise self.error(f"{shown(text)} found, expected a number")
        return value

    def _list(self, text: str) -> tuple[float, ...]:
        found = self._lists.get(text)
        if found is None:
            found = tuple(self._value(part.strip()) for part in text.split(",")) if text.strip() else ()
            self._lists[text] = found
        return found

    def finish(self, rescale: float) -> tuple[Choices, list[str]]:
        """Everything read, compared with what was declared, its rows summing to one."""
        self._end_state()
        counts = {"@nr_states": self._num_states, "@nr_choices": len(self._owner)}
        for section, count in counts.items():
            if self._declared.get(section, count) != count:
                raise self.error(f"{count} found, expected {self._declared[section]} as {section} says")
        starts = sorted(set(self.labels.get("init", ())))
        if not starts:
            raise self.error("no state has the label 'init', expected one at least")
        step_choice, step_target = np.array(self._step_choice), np.array(self._step_target)
        lines = np.array(self._step_line)
        keys = step_choice * self._num_states + step_target
        order = np.argsort(keys, kind="stable")
        twice = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        if len(twice):
            raise self.error(
                "the next state was given before for this choice, expected once", int(lines[order[twice[0] + 1]])
            )
        found = rescaled(step_choice, np.array(self._step_value), len(self._owner), rescale)
        if found.wrong.any():
            choice = int(np.flatnonzero(found.wrong)[0])
            line = int(lines[np.searchsorted(step_choice, choice)])
            others = int(found.wrong.sum()) - 1
            more = f" (and {others} more choices)" if others else ""
            state = self._owner[choice]
            raise self.error(
                f"the choice of state {state} that begins here sums to {found.sums[choice]:.12g}, expected 1{more}",
                line,
            )
        notes = rescaling_note("transition row", found.count, found.worst)
        choices = Choices(
            self._num_states,
            np.array(self._owner),
            np.array(self._label),
            list(self._label_index),
            step_choice,
            step_target,
            found.values,
            np.array(starts),
            self._rewards(),
        )
        return choices, notes

    def _rewards(self) -> dict[str, np.ndarray]:
        """Rewards of choices with those of their states, by name; Storm calls those without a name rew0, rew1, …."""
        parts = (self._state_rewards, self._num_states), (self._choice_rewards, len(self._owner))
        count = max((len(values) for rewards, _ in parts for values in rewards.values()), default=0)
        if count * max(size for _, size in parts) > 2**26:
            raise self.error(f"{count:,} reward models for {len(self._owner):,} choices found, expected fewer")
        names = [*self._reward_names[:count], *(f"rew{number}" for number in range(len(self._reward_names), count))]
        tables = [np.zeros((count, size)) for _, size in parts]
        for table, (rewards, _) in zip(tables, parts, strict=True):
            for place, values in rewards.items():
                table[: len(values), place] = values
        return dict(zip(names, tables[0][:, np.array(self._owner)] + tables[1], strict=True))

    def observed(self) -> np.ndarray:
        """The observation of each state, numbered 0, 1, … in order of the numbers in the file."""
        return np.unique(np.array(self._observations), return_inverse=True)[1].ravel()

    def label_mask(self, name: str) -> np.ndarray:
        """Where a label holds."""
        mask = np.zeros(self._num_states, dtype=bool)
        mask[self.labels[name]] = True
        return mask

    def valuations(self) -> dict[str, np.ndarray]:
        """The variables in the comments that Storm writes after each state, `//[!door & x=3]`; none where one is missing."""
        if len(self._comments) != self._num_states:
            return {}
        rows = [[part.strip() for part in comment[3:].rstrip("]").split("&")] for comment in self._comments]
        if len({len(row) for row in rows}) > 1:
            return {}
        columns = [_column(column) for column in zip(*rows, strict=True)]
        return {name: np.array(values) for name, values in columns if name is not None}


def _column(parts: tuple[str, ...]) -> tuple[str | None, list[object]]:
    """A variable from its texts in all states; a name of None where they are not understood.

    Storm 2.0 leaves blanks where a truth value is true: its name is known from the states where it is false.
    """
    names, values = set(), []
    for part in parts:
        match = _VARIABLE.fullmatch(part)
        if match is None:
            values.append(True if not part else None)
            continue
        names.add(match[2])
        values.append(not match[1] if match[3] is None else to_number(match[3]))
    kinds = {type(value) for value in values}
    return (names.pop() if len(names) == 1 and len(kinds) == 1 and None not in values else None), values
