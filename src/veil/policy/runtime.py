"""A policy as a robot executes it: names of states and readings in, names of actions out.

This file needs the standard library of Python 3.8 or newer and nothing else: `veil.export_player` writes a copy of it with one
policy inside. `player = Player(seed=1)` begins a run, `player.step("r3c1", "0")` returns the next action, and `player.reset()`
begins another run; on a map, `player.state_at(x, y)` is the state at a point in metres. `python FILE --states r3c1 r3c2` prints
the actions for a list of states.
"""

import array
import base64
import json  # noqa: F401 - for the policy at the end of an exported copy
import math
import random
import sys
import zlib

_LARGEST = 2**26  # numbers of a table


class PlayerError(ValueError):
    """A step that the policy has no answer for; the run is then as it was before."""


class Player:
    """One run of a policy after another.

    **Attributes:** `states`, `actions`, `readings`: the names; `sees_state`: whether the policy acts on the state, or on
    readings alone; `horizon`: how many steps a run has, None without end; `time`: how many actions were chosen in this run;
    `action`: the index of the last one, None before the first.
    """

    def __init__(self, document=None, seed=0):
        """Begin a run; `document` is what `veil.export_player` writes, by default the policy in this file."""
        if document is None:
            document = globals().get("POLICY")
        if document is None or document.get("format") != "veil-player-2":
            raise PlayerError("there is no policy in this file, expected a document of the format veil-player-2")
        self.name = document["problem"]
        self.states, self.actions = document["states"], document["actions"]
        self.readings, self.horizon = document["readings"], document["horizon"]
        self._memory_rules, self._knowledge = document["memory"], document["knowledge"]
        self.sees_state, self._sees_actions = document["sees_state"], document["sees_actions"]
        self._first_reading, self._frame = document["first_reading"], document["frame"]
        self._times, self._rows, self._choices, self._table = _unpacked(document["table"])
        known = [0] if self._knowledge is None else self._knowledge["known"]
        self._needs_state = self.sees_state or len(known) > 1
        self._state_numbers = {name: number for number, name in enumerate(self.states)}
        self._reading_numbers = {name: number for number, name in enumerate(self.readings or ())}
        self._row_numbers = None
        if document["rows"] is not None:
            self._row_numbers = {tuple(row): number for number, row in enumerate(document["rows"])}
        self._random = random.Random()
        self.reset(seed)

    def reset(self, seed=None):
        """Begin another run; with a seed, draw anew from it."""
        if seed is not None:
            self._random.seed(seed)
        self.time, self.action = 0, None
        self._state = self._held = self._memory = 0

    def step(self, state=None, reading=None):
        """The next action, by name, after entering a state and receiving a reading there (needed if `readings` is not None).

        A policy that does not see its state takes the reading alone, `step(reading="beep")`.
        """
        chances, entered, held, memory = self._look(state, reading)
        choice = self._draw(chances)
        nodes = 1 if self._memory_rules is None else self._memory_rules["nodes"]
        self.action, node = divmod(choice, nodes)
        self._state, self._held, self._memory = entered, held, node if nodes > 1 else memory
        self.time += 1
        return self.actions[self.action]

    def act(self, state=None, observation=None):
        """As `step`; the index of the action."""
        self.step(state, observation)
        return self.action

    def probabilities(self, state=None, reading=None):
        """The probability of each action in the next step, by name, without taking it."""
        chances = self._look(state, reading)[0]
        nodes = len(chances) // len(self.actions)
        return {name: sum(chances[a * nodes : (a + 1) * nodes]) for a, name in enumerate(self.actions)}

    def state_at(self, x, y):
        """The name of the state at a point of the map, in metres."""
        if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in (x, y)):
            raise PlayerError(f"the point ({x!r}, {y!r}) is not two finite numbers, in metres")
        down, right = self._to_grid(x, y)
        name = f"r{math.floor(down)}c{math.floor(right)}"
        if name not in self._state_numbers:
            raise PlayerError(f"the point ({x:g}, {y:g}) lies in no free cell of the map ({name})")
        return name

    def centre(self, state):
        """The centre of a cell, given by its state, as (x, y) in metres."""
        if self._frame is None or state not in self._state_numbers:
            raise PlayerError(f"{state!r} is no cell of a map with metres")
        row, column = map(int, state[1:].split("c"))
        size, turn = self._frame["cell_size"], self._frame["yaw"]
        across, up = (column + 0.5) * size, (self._frame["rows"] - row - 0.5) * size
        x, y = self._frame["origin"]
        return x + math.cos(turn) * across - math.sin(turn) * up, y + math.sin(turn) * across + math.cos(turn) * up

    def _to_grid(self, x, y):
        """A point as (down, right) from the upper left corner of the grid, in cells."""
        if self._frame is None:
            raise PlayerError("the policy is for no map with metres")
        size, turn = self._frame["cell_size"], self._frame["yaw"]
        across, up = x - self._frame["origin"][0], y - self._frame["origin"][1]
        high = (math.cos(turn) * up - math.sin(turn) * across) / size
        return self._frame["rows"] - high, (math.cos(turn) * across + math.sin(turn) * up) / size

    def _look(self, state, reading):
        if self.horizon is not None and self.time >= self.horizon:
            raise PlayerError(f"the policy has {self.horizon} steps: reset() begins a new run")
        entered, seen = self._entered(state), self._seen(reading)
        held, known = self._known(entered)
        memory = self._remembered(entered, seen)
        row = entered
        if self._row_numbers is not None:
            place = entered if self.sees_state else self._place(seen)
            row = None if memory is None else self._row_numbers.get((known, memory, place))
        if row is None:
            where = f" in {self.states[self._state]!r}" if self._state >= 0 else ""
            before = "" if self.time == 0 else f", after {self.actions[self.action]!r}{where}"
            what = f"reading {reading!r}" if state is None else f"state {state!r} with reading {reading!r}"
            raise PlayerError(f"{what} is impossible at time {self.time}{before}")
        time = self.time if self._times > 1 else 0
        begin = (time * self._rows + row) * self._choices
        return self._table[begin : begin + self._choices], entered, held, memory

    def _entered(self, state):
        """The number of the state; -1 for a policy that needs none."""
        if not self._needs_state:
            if state is not None:
                raise PlayerError(f"state {state!r} is given, but the policy does not see it: step(reading=…)")
            return -1
        if state not in self._state_numbers:
            known = f"one of {len(self.states)} names such as {self.states[0]!r}"
            raise PlayerError(f"unknown state {state!r}, expected {known}")
        return self._state_numbers[state]

    def _place(self, seen):
        """The number of the newest reading, told apart by the action before it if the policy's sensors report that too."""
        count = len(self.readings)
        events = count * (len(self.actions) if self._sees_actions else 1)
        if seen < 0:
            return events
        if not self._sees_actions:
            return seen
        return events + seen if self.action is None else self.action * count + seen

    def _seen(self, reading):
        if self.readings is None or (self.time == 0 and not self._first_reading):
            return -1
        if isinstance(reading, (tuple, list)) and len(reading) == 2:
            reading = reading[1]  # (action, observation) of an observer that sees actions
        if reading not in self._reading_numbers:
            known = f"expected one of {self.readings[:20]!r}"
            raise PlayerError(f"the reading is {reading!r} at time {self.time}, {known}")
        return self._reading_numbers[reading]

    def _known(self, entered):
        """What the agent follows of the run beside its state, and what it can tell of it."""
        if self._knowledge is None:
            return 0, 0
        begins, follows = self._knowledge["start"], self._knowledge["step"]
        held = 0 if entered < 0 else begins[entered] if self.time == 0 else follows[self._held][entered]
        return held, self._knowledge["known"][held]

    def _remembered(self, entered, seen):
        if self._memory_rules is None:
            return 0
        if self._memory_rules["nodes"] > 1 and self.time:
            return self._memory
        rule = self._memory_rules["step" if self.time else "start"]
        values = {
            "memory": self._memory,
            "state": self._state,
            "action": self.action,
            "entered": entered,
            "reading": seen,
            "held": self._held,
        }
        return rule["table"].get(" ".join(str(values[name]) for name in rule["by"]))

    def _draw(self, chances):
        at, total = self._random.random() * sum(chances), 0.0
        last = 0
        for choice, chance in enumerate(chances):
            if chance > 0:
                total, last = total + chance, choice
                if at < total:
                    break
        return last


def _unpacked(table):
    """Times, rows, choices, and all probabilities in that order."""
    times, rows, choices = table["shape"]
    count = times * rows * choices
    if not 0 <= count <= _LARGEST:
        raise PlayerError(f"the table has {count} numbers, expected at most {_LARGEST}")
    if "values" in table:
        numbers = array.array("d", table["values"])
    else:
        content = zlib.decompressobj().decompress(base64.b64decode(table["packed"]), 8 * count + 1)
        numbers = array.array("d")
        numbers.frombytes(content[: len(content) // 8 * 8])
        if sys.byteorder == "big":
            numbers.byteswap()
    if len(numbers) != count:
        raise PlayerError(f"the table has {len(numbers)} numbers, expected {count}")
    return times, rows, choices, numbers


def main(arguments):
    """Print the action for each state of a run, one on each line."""
    if not arguments or arguments[0] != "--states":
        print(
            f"usage: python {sys.argv[0]} --states STATE[@READING] …, or @READING … if the policy does not see its state"
        )
        return 2
    player = Player(seed=random.randrange(2**32))
    for given in arguments[1:]:
        state, _, reading = given.partition("@")
        try:
            print(player.step(state or None, reading or None))
        except PlayerError as error:
            print(error, file=sys.stderr)
            return 2
    return 0
