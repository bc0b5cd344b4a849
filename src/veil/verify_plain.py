"""Check a result of veil with plain Python, without NumPy: python -m veil.verify_plain RESULT_FOLDER

This file needs nothing but Python and can be copied: python verify_plain.py RESULT_FOLDER. From `problem.bin`,
`policy.safetensors` and `certificate.json` with its arrays it recomputes every claim of the certificate: what the policy hides
in each channel, every quantity, and the upper bounds that rules of observers prove. Probabilities are whole numbers of 2^-160,
rounded down, after each distribution was divided by its sum. Statistical claims are checked with sequences drawn here.

Options: --confidence (of all statistical claims together, 1 - 1e-6 by default), --sequences (to draw for each at most),
--seed (to repeat the draws; by default they come from the randomness of the system).

Exit codes, as of `veil verify`: 0 the certificate holds, 5 it does not hold, 2 it could not be checked: a file is missing or
cannot be read, or this program would take too long.
"""

# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportOptionalSubscript=false, reportOptionalIterable=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false
# Fields of any kind are read from files; types are checked where numbers are used.
# ruff: noqa: D101, D102, D103

import hashlib
import json
import math
import os
import random
import re
import stat
import struct
import sys
from collections import defaultdict
from fractions import Fraction
from functools import cache, cached_property, reduce
from itertools import accumulate, pairwise, product
from operator import itemgetter, mul
from pathlib import Path

BITS = 160
ONE = 1 << BITS  # probabilities and bits are whole numbers of 2^-160
MOST_ENTRIES = 2_000_000  # of a layer, about a gigabyte
MOST_BYTES = 1 << 28  # of a file
MOST_STEPS = 2000  # of a horizon
MOST_SEQUENCES = 10_000_000
KINDS = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u1": "B"}
FORM, PROBLEM_FORM, POLICY_FORM = "veil-certificate-8", "veil-record-1", "veil-policy-1"
LATER = 1 << 40  # stands for all times at which moves are alike
AGENT = -1  # the number of the agent's own observer, among those of channels


class Lie(ValueError):
    """The certificate does not hold."""


class NotChecked(Exception):
    """The certificate may hold, and this program cannot tell."""


def require(good, message, error=Lie):
    if not good:
        raise error(message)


def limited(count, words):
    require(count <= MOST_ENTRIES, f"{words} for this program", NotChecked)


# Files


def read(path):
    """The bytes of an ordinary file. Pipes, devices and files of any size are refused, without waiting for a pipe."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        require(stat.S_ISREG(found.st_mode), f"{path} is not an ordinary file", NotChecked)
        require(found.st_size <= MOST_BYTES, f"{path} has more than {MOST_BYTES:,} bytes", NotChecked)
        return file.read(MOST_BYTES)


def parse(text):
    """The value of a JSON text whose objects have no key twice, and which is not nested deeper than a parser can go."""
    brackets = re.sub(r"[^\[\]{}]+", "", re.sub(r'"(?:[^"\\]|\\.)*"', "", text.decode(), flags=re.DOTALL))
    depth = accumulate({"[": 1, "{": 1}.get(bracket, -1) for bracket in brackets)
    require(max(depth, default=0) <= 100, "a JSON text has too many levels")

    def once(pairs):
        require(len(dict(pairs)) == len(pairs), "a JSON text has a key twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once)


def nested(shape, flat):
    """A flat list as lists of lists."""
    require(math.prod(shape) == len(flat) and min(shape, default=0) >= 0, "an array has another shape than its numbers")
    if len(shape) < 2:
        return list(flat)
    width = math.prod(shape[1:])
    return [nested(shape[1:], flat[row * width : (row + 1) * width]) for row in range(shape[0])]


def safetensors(content):
    """Metadata, and for each array its type, shape and flat list of numbers."""
    end = 8 + int.from_bytes(content[:8], "little")
    head, data, arrays = parse(content[8:end]), content[end:], {}
    metadata = head.pop("__metadata__", {})
    for name, entry in head.items():
        kind = f"{entry['dtype'][0].lower()}{int(entry['dtype'][1:]) // 8}"
        begin, stop = entry["data_offsets"]
        flat = [value for (value,) in struct.iter_unpack(f"<{KINDS[kind]}", data[begin:stop])]
        arrays[name] = kind, entry["shape"], flat
    return metadata, arrays


# Numbers


def number(value, what):
    """A number of the certificate as a fraction: no text, truth value, infinity or NaN."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    require(plain and abs(value) <= sys.float_info.max, f"{what}: {str(value)[:40]!r} is not a finite number")
    return Fraction(value)


def whole(value, what, low=0, high=1 << 31):
    good = type(value) is int and low <= value <= high
    require(good, f"{what}: {str(value)[:40]!r} is not a whole number in its range")
    return value


def distribution(numbers, places=None):
    """The places of a distribution, given in floats, that have a positive probability, with these, rounded down."""
    exact = [Fraction(value) for value in numbers]
    total = sum(exact)
    require(exact and min(exact) >= 0 and abs(total - 1) < Fraction(1, 10**6), "a row is not a distribution")
    pairs = zip(range(len(exact)) if places is None else places, exact, strict=True)
    return [(place, int(ONE * part / total)) for place, part in pairs if part]


def log2_count(count):
    """log2 of a number of values, rounded up; `math.log2` is wrong by less than 2^-52 of it."""
    exact = not count & (count - 1)
    return Fraction(count.bit_length() - 1) if exact else Fraction(math.log2(count)) * (1 + Fraction(1, 1 << 52))


def entropy(rows):
    """Σ p log2(Σ p / p) of each row of weights, together in bits."""
    terms = []
    for row in rows:
        total = sum(row)
        terms += [p / ONE * math.log2(total / p) for p in row if 0 < p < total]
    return math.fsum(terms)


# The problem


class Rows:
    """Distributions, of which row i has the entries `ends[i] … ends[i + 1] − 1` of `column` and `chance`."""

    def __init__(self, arrays, name, rows, columns):
        self.ends, self.column, self.chance = (arrays[f"{name}.{part}"] for part in ("ends", "column", "chance"))
        fits = len(self.ends) == rows + 1 and self.ends == sorted(self.ends) and self.ends[0] == 0
        fits = fits and self.ends[-1] == len(self.column) == len(self.chance)
        require(fits and all(0 <= one < columns for one in self.column), f"{name} are of another size")
        self.row = cache(self.row_of)

    def row_of(self, number):
        """The places that a row leads to, with their probabilities."""
        part = slice(self.ends[number], self.ends[number + 1])
        places = self.column[part]
        require(len({*places}) == len(places), "a row has an entry twice")
        return distribution(self.chance[part], places) if places else []


class Observer:
    def __init__(self, head, arrays, own, record):
        self.size, self.silent, self.untimed = head["observations"], head["silent"], head["untimed"]
        self.sees_actions, self.sees_first = head["sees_actions"], head["sees_first"]
        self.at, self.tables = arrays[f"{own}at"], []
        for n in range(head["tables"]):
            rows = len(arrays[f"{own}tables.{n}.ends"]) - 1
            require(rows in (record.states, record.states * record.actions), "emissions are of another size")
            self.tables.append((Rows(arrays, f"{own}tables.{n}", rows, self.size), rows > record.states))
        fits = len(self.at) == record.horizon + 1 and all(-1 <= n < len(self.tables) for n in self.at)
        silent = (0 if self.untimed or min(self.at) < 0 else -1) <= self.silent < self.size
        require(fits and silent, "the times of an observer, or its silent observation, are others")
        require(not (self.untimed and self.sees_actions), "an observer without a clock sees actions")
        self.varies = len({*self.at[1:]}) > 1
        self.by_choice = self.sees_actions or any(by_action for _, by_action in self.tables)
        self.events = self.size * (record.actions if self.sees_actions else 1)
        self.states = record.states

    def row(self, time, state, action):
        """The distribution of an observation: at a time at which none is received, the silent one for certain."""
        number_of = self.at[time if time < len(self.at) else min(1, len(self.at) - 1)]
        if number_of < 0:
            return [(self.silent, ONE)]
        table, by_action = self.tables[number_of]
        return table.row(action * self.states * by_action + state)


class Channel:
    """A secret and the observer who wants it; `receives`: the number of that observer."""

    def __init__(self, number_of, head, arrays, record):
        own, self.number = f"channels.{number_of}.", number_of
        self.name, self.min, self.max, self.receives = (head[one] for one in ("name", "min", "max", "receives"))
        self.refused, self.kind, self.time, self.values, self.ahead = (
            head[one] for one in ("refused", "kind", "time", "values", "ahead")
        )
        self.value, self.situation = arrays[f"{own}value"], arrays[f"{own}situation"]
        self.times = arrays[f"{own}weights"] if self.kind == "each" else []
        require(self.kind in ("once", "path", "each"), "a secret is of an unknown kind", NotChecked)
        fits = len(self.value) == len(self.situation) == record.size and all(-1 <= z < self.values for z in self.value)
        require(fits and len(self.times) in (0, record.horizon + 1), "a secret is of another size")

    def most(self, horizon):
        """The most bits that it can hide."""
        if self.kind == "path":
            return log2_count(self.values ** (horizon + 1))
        return log2_count(self.values) * (1 if self.kind == "once" else sum(map(Fraction, self.times)))


class Record:
    """The problem in `problem.bin`: hidden states x with their moves, observers, channels, quantities, and who the agent is."""

    def __init__(self, content):
        self.digest = hashlib.sha256(content).hexdigest()
        metadata, arrays = safetensors(content)
        form, _, text = metadata["veil"].partition(" ")
        require(form == PROBLEM_FORM, "problem.bin has an unknown form", NotChecked)
        head, arrays = parse(text.encode()), {name: nested(shape, flat) for name, (_, shape, flat) in arrays.items()}
        self.states, self.actions = (whole(head[one], one, 1) for one in ("states", "actions"))
        self.horizon, self.endless, self.problem = whole(head["horizon"], "horizon"), head["endless"], head["problem"]
        require(self.horizon <= MOST_STEPS, "the horizon is too long", NotChecked)
        self.model, self.state, self.cell = (arrays[one] for one in ("model", "state", "cell"))
        self.size, self.cells, self.agent = len(self.state), head["cells"], head["agent"]
        self.blind, self.knows_model = head["blind"], head["knows_model"]
        fits = len(self.model) == len(self.cell) == self.size and all(0 <= s < self.states for s in self.state)
        require(fits, "the hidden states are of another size")
        self.moves = Rows(arrays, "moves", self.size * self.actions, self.size)
        self.starts = self.read_starts(arrays)
        self.observers = [Observer(one, arrays, f"observers.{n}.", self) for n, one in enumerate(head["observers"])]
        self.channels = [Channel(n, one, arrays, self) for n, one in enumerate(head["channels"])]
        require(
            len({one.name for one in self.channels}) == len(self.channels), "problem.bin has two channels of one name"
        )
        self.quantities = [Quantity(n, one, arrays, self) for n, one in enumerate(head["quantities"])]

    def read_starts(self, arrays):
        """Every first hidden state, with its probability: that of its model, times that of its state in it."""
        parts = list(zip(arrays["starts"], arrays["starts.model"], arrays["starts.state"], strict=True))
        models = {self.model[x]: weight for x, weight, _ in parts}
        alike = all(models[self.model[x]] == weight for x, weight, _ in parts)
        alike = alike and len({x for x, _, _ in parts}) == len(parts)
        require(alike, "a start comes twice, or a model with two weights")
        found = []
        for k, weight in distribution(models.values(), models):
            own = [(x, chance) for x, _, chance in parts if self.model[x] == k]
            begun = distribution([chance for _, chance in own], [x for x, _ in own])
            found += [(x, weight * chance >> BITS) for x, chance in begun]
        return found

    def source(self, channel):
        """Whose observations the observer of a channel, or the agent, receives: the number of an observer."""
        return self.agent if channel == AGENT else self.channels[channel].receives


class Quantity:
    """`sign · bound ≤ E[Σ d^t rewards + d^T terminal]`, where rewards and terminal carry the sign; in units of `unit`, a power
    of two that is no less than any of them, they are whole numbers of 2^-160, rounded down unless `exact`."""

    def __init__(self, number_of, head, arrays, record):
        own, self.is_return = f"quantities.{number_of}.", number_of == 0
        self.name, self.sign, self.bound = (head[one] for one in ("name", "sign", "bound"))
        self.discount = Fraction(head["discount"])
        rewards, terminal = arrays[f"{own}rewards"], arrays[f"{own}terminal"]
        fits = len(rewards) == len(terminal) == record.size and all(len(row) == record.actions for row in rewards)
        require(fits and self.sign in (-1, 1) and 0 <= self.discount <= 1, "rewards are of another size")
        self.largest = Fraction(max(abs(one) for row in rewards for one in row))
        self.last = Fraction(max(map(abs, terminal)))
        self.unit, self.exact = Fraction(2) ** math.frexp(float(max(self.largest, self.last)))[1], True
        self.scaled = cache(self.scaled_of)
        self.rewards, self.terminal = [[*map(self.scaled, row)] for row in rewards], [*map(self.scaled, terminal)]

    def scaled_of(self, paid):
        found = self.sign * ONE * Fraction(paid) / self.unit
        self.exact = self.exact and found.denominator == 1
        return math.floor(found)

    def most(self, horizon):
        """The largest sum over a run, whatever the signs."""
        return self.largest * sum(self.discount**t for t in range(horizon)) + self.last


class Arena:
    """Some channels of a problem. An event is a tuple of what each observer receives, independently given the hidden state.
    Late, a move shows what it leaves. `heard`: the channels whose observations a policy acts on; `blind`: nothing is seen."""

    def __init__(self, record, asked=(0,), heard=(), late=0, blind=False):
        self.record, self.asked, self.late, self.horizon = record, asked, late, record.horizon
        self.own, self.secrets = record.channels[0], [record.channels[n] for n in asked]
        watched = () if blind else (*asked, *heard)
        self.sources = list(dict.fromkeys(record.source(n) for n in watched))
        self.observers = [record.observers[one] for one in self.sources]
        self.place = {n: self.sources.index(record.source(n)) for n in watched}
        watching = {one.receives for one in self.secrets}
        self.untimed = any(record.observers[one].untimed for one in watching)
        (self.kind, *others), first = [one.kind for one in self.secrets], self.secrets[0]
        self.path, self.each = (first.value if self.kind == kind else None for kind in ("path", "each"))
        self.settling = {one.time for one in self.secrets if one.kind == "once"}
        self.varies = any(one.varies for one in self.observers)
        self.by_choice = any(one.by_choice for one in self.observers)
        self.most = max(one.most(self.horizon) for one in self.secrets)
        self.check_together({self.kind, *others}, watching)
        self.shown, self.actions = cache(self.shown_of), cache(self.actions_of)
        self.starts = [
            (x, event, mass * part >> BITS) for x, mass in record.starts for event, part in self.seen(0, x, x, 0)
        ]

    def check_together(self, kinds, watching):
        """Whether a bound is known for these channels."""
        require(not any(one.refused for one in self.secrets), f"{self.secrets[0].name}: {self.secrets[0].refused}")
        require(kinds == {"once"} or len(self.secrets) == 1, "several channels, and one whose secret is not one value")
        require(len(watching) == 1 or not self.untimed, "several observers, of which one has no clock")
        require(self.each is None or not self.untimed, "values at every time, and an observer without a clock")
        times = {*self.record.observers[self.own.receives].at}
        plain = not (self.by_choice or self.varies or len(times) > 1 or min(times) < 0) and self.asked == (0,)
        require((plain and self.kind == "once") or not self.late, "a bound with a delay is not about such a problem")

    def shown_of(self, time, state, action):
        """What the observers receive of a state: pairs (event, probability)."""
        rows = []
        for one in self.observers:
            more = action * one.size if one.sees_actions and time else 0
            nothing = time == 0 and (self.late or not one.sees_first)
            row = [(0, ONE)] if nothing else one.row(time, state, action)
            rows.append([(event + more, part) for event, part in row])
        parts = [(tuple(event for event, _ in row), [part for _, part in row]) for row in product(*rows)]
        return [(event, reduce(lambda a, b: a * b >> BITS, part, ONE)) for event, part in parts]

    def seen(self, time, x, y, action):
        """What a move from x to y shows: an event of the state that it reaches; late, of that which it leaves."""
        state = self.record.state[x if self.late else y]
        return self.shown(time if self.varies or not time else 1, state, action if self.by_choice else 0)

    def actions_of(self, x):
        """For each action that is available in x the next hidden states: (action, [(y, probability)])."""
        rows = [self.record.moves.row(x * self.record.actions + action) for action in range(self.record.actions)]
        return [(action, row) for action, row in enumerate(rows) if row]

    def settled(self, time, x, before):
        """The value of each secret, 0 before its time."""
        if time and time not in self.settling:
            return before
        found = list(before) or [0] * len(self.secrets)
        for place, one in enumerate(self.secrets):
            if time == one.time and one.kind == "once":
                found[place] = one.value[x]
                require(found[place] >= 0, "a secret has no value in a state that can occur")
        return tuple(found)

    def code(self, x):
        """What a rule for a path tells apart: the situation where path and events tell it, else what the path shows."""
        return self.secrets[0].situation[x] if self.tells else self.path[x]

    @cached_property
    def tells(self):
        """Whether path and events tell the first x, and every next one where x is known, of those that can be reached."""
        if self.path is None or len(self.sources) > 1:
            return False
        known, layers = {}, [{x for x, _, _ in self.starts}]
        steps = [(None, x, event) for x, event, _ in self.starts]

        def moves(time, x):
            for action, rows in self.actions(x):
                for y, _ in rows:
                    yield from ((y, event) for event, _ in self.seen(time, x, y, action))

        for time in range(1, self.horizon + 1):
            layers.append({y for x in layers[-1] for y, _ in moves(time, x)})
        every = set().union(*layers)
        for time in range(1, self.horizon + 1) if self.varies else range(1, min(2, self.horizon + 1)):
            for x in layers[time - 1] if self.varies else every:
                steps += [((time, x), y, event) for y, event in moves(time, x) if self.varies or y in every]
        return all(known.setdefault((x, event, self.path[y]), y) == y for x, y, event in steps)


# The policy


class Policy:
    """A policy by its file; its hash is that of its kind and all numbers in 64 bits. With a memory, or for an agent that does
    not see its state, `register` (of the certificate) says what it remembers; a history policy acts on what the observers of
    the channels `sees` receive."""

    def __init__(self, path, register):
        metadata, arrays = safetensors(read(path))
        form, kind, *head = metadata["veil"].split(" ", 2)
        require(form == POLICY_FORM, "policy.safetensors is not a policy")
        _, shape, flat = arrays["probabilities"]
        self.register, self.history, self.views, self.told_at, self.sees = register, kind == "history", None, None, []
        if self.history:
            kind, arrays = self.read_history(parse(head[0].encode()), bytes(flat))
        else:
            require(kind in ("markov", "timed", "memory"), f"the policy is of the kind {kind!r}", NotChecked)
            self.timed = kind == "timed" or (kind == "memory" and '"clock":true' in head[0])
            arrays = [("f", shape if self.timed else [1, *shape], flat)]
            self.table = nested(*arrays[0][1:])
            self.remembers = kind == "memory"
            kind = ("timed" if self.timed else "markov") + (f", memory {head[0]}" if self.remembers else "")
        self.digest = hashlib.sha256(f"veil policy, form 1: {kind}; {len(arrays)} arrays".encode())
        for letter, shape, flat in arrays:
            numbers, code = ([one + 0.0 for one in flat], "d") if letter == "f" else (flat, "q")
            self.digest.update(f"<{letter}8{tuple(shape)};".encode() + struct.pack(f"<{len(flat)}{code}", *numbers))

    def read_history(self, head, content):
        arrays, place = [], 0
        for name, *shape in head["arrays"]:
            size = struct.calcsize(form := f"<{math.prod(shape)}{KINDS[name.lstrip('<>|')]}")
            arrays.append((name.lstrip("<>|")[0], shape, struct.unpack(form, content[place : place + size])))
            place += size
        horizon, self.told_at, self.sees = head["horizon"], head["told_at"], head.get("sees") or []
        self.timed, self.remembers, self.table = True, bool(self.sees), []
        self.first, *parts = [nested(shape, flat) for _, shape, flat in arrays]
        self.following, rows, rest = parts[:horizon], parts[horizon : 5 * horizon], parts[5 * horizon :]
        for *keys, chances in [rows[4 * time : 4 * time + 4] for time in range(horizon)]:
            keys = list(zip(*keys, strict=True))
            require(all(a < b for a, b in pairwise(keys)), "policy: its rows do not increase")
            self.table.append(dict(zip(keys, chances, strict=True)))
        self.told, views = rest[: self.told_at is not None], rest[self.told_at is not None :]
        require(place == len(content) and len(views) == 2 * len(self.sees), "policy: its arrays do not fit")
        if self.sees:
            later = [any(row[e] >= 0 for t in self.following for row in t) for e in range(len(views[1]))]
            possible = [node >= 0 for node in self.first], later
            seen = [list(zip(*views[i::2], strict=True)) for i in (0, 1)]
            self.views = [{one: n for n, one in enumerate(seen[i]) if possible[i][n]} for i in (0, 1)]
        kind = f"history, executable {head['executable']}, told at {self.told_at}"
        return kind + (f", sees {json.dumps(self.sees)}" if "sees" in head else ""), arrays

    def hears(self, record):
        """The numbers of the channels whose observations it acts on."""
        if self.history:
            names = [one.name for one in record.channels]
            require({*self.sees} <= {*names}, "policy: it acts on what a channel sees that does not exist")
            return tuple(names.index(name) for name in self.sees) or (0,)
        held = self.register
        require(held is not None or not (self.remembers or record.blind), "policy: what it remembers is not told")
        if record.blind:
            return (AGENT,)
        return (0,) if self.remembers and (len(held["start"][0]) > 1 or len(held["step"][0][0][0]) > 1) else ()


class TableAgent:
    """A table over what the agent knows and holds: m · nodes + node, m of an automaton on events, the node chosen by itself."""

    def __init__(self, policy, arena):
        self.policy, self.arena, record = policy, arena, arena.record
        self.held = policy.register if policy.remembers or record.blind else None
        self.nodes, self.rows, self.timed, rows, self.state = 1, {}, policy.timed, record.cells, record.state
        if self.held:
            self.nodes = whole(self.held["nodes"], "policy: its nodes", 1)
            require(all(a < b for a, b in pairwise(self.held["codes"])), "policy: its rows do not increase")
            self.rows, rows = {code: n for n, code in enumerate(self.held["codes"])}, len(self.held["codes"])
            alone = len(self.held["start"]) == len(self.held["step"][0]) == len(self.held["step"][0][0]) == 1
            require(alone or not record.blind, "policy: what it remembers depends on the state, which it does not see")
        width = {len(row) for table in policy.table for row in table}
        sizes = {len(table) for table in policy.table} <= {rows} and width <= {record.actions * self.nodes}
        require(sizes, "policy: its table is of another size")
        self.place = arena.place.get(AGENT if record.blind else 0)

    def holds(self, time, before, x, y, events):
        """What it holds on reaching y, but for the node."""
        if not self.held:
            return 0
        event, table = 0 if self.place is None else events[self.place], self.held["step"]
        index = [0 if before is None else before // self.nodes, 0 if x is None else self.state[x], self.state[y], event]
        if not time:
            first = self.place is None or self.arena.observers[self.place].sees_first
            index, table = [self.state[y], event + 1 if first else 0], self.held["start"]
        for place, one in enumerate(index):
            table = table[one if (time and place == 0) or len(table) > 1 else 0]
        known = 0 <= table < len(self.held["step"]) * (1 if time else self.nodes)
        require(known, "policy: it does not say what it remembers")
        return table * self.nodes if time else table

    def choices(self, time, memory, x, z):
        """Pairs ((action, next node), probability)."""
        cell = self.arena.record.cell[x]
        if self.held:
            cell = self.rows.get(cell * len(self.held["step"]) * self.nodes + memory)
            require(cell is not None, "policy: it has no row for something that it reaches")
        shares = distribution(self.policy.table[time if self.timed else 0][cell])
        return [(divmod(choice, self.nodes), share) for choice, share in shares]


class HistoryAgent:
    """What it remembers is (node, m of its situations beside the hidden state, value that it acts on, -1 before)."""

    nodes, timed = 1, True

    def __init__(self, policy, arena):
        self.policy, self.record, own = policy, arena.record, arena.record.channels[0]
        self.held, self.time, self.value = policy.register if policy.sees else None, own.time, own.value
        if own.kind != "once":
            self.value = [0] * self.record.size
        require(self.held is not None or not policy.sees, "policy: what its situations remember is not told")
        if self.held:
            self.time = whole(self.held["time"], "policy: its time")
        self.places = [arena.place[n] for n in policy.hears(arena.record)]

    def holds(self, time, before, x, y, events):
        policy, seen, s = self.policy, tuple(events[place] for place in self.places), self.record.state[y]
        event = policy.views[time > 0].get(seen, -1) if policy.views else seen[0]
        require(event >= 0, "policy: it does not know an event that it reaches")
        node, m, value = before or (0, 0, -1)
        node = policy.following[time - 1][node][event] if time else policy.first[event]
        if self.held:
            m = self.held["step"][m][0][s][0] if time else self.held["start"][s][0]
        if time == self.time:
            label = self.held["label"] if self.held else None
            value = label[self.record.model[y] if len(label) > 1 else 0][m][s] if label else self.value[y]
        if time == policy.told_at and node >= 0:
            node = policy.told[0][node][self.situation(m, y)]
        require(node >= 0, "policy: it has no node for something that it reaches")
        return node, m, value

    def situation(self, m, x):
        if not self.held:
            return self.record.channels[0].situation[x]
        return (self.record.model[x] * len(self.held["step"]) + m) * self.record.states + self.record.state[x]

    def choices(self, time, memory, x, z):
        node, m, value = memory
        row = self.policy.table[time].get((node, self.situation(m, x), value))
        require(row is not None, "policy: it has no row for something that it reaches")
        return [((action, 0), share) for action, share in distribution(row)]


class Run:
    """A policy in an arena. Its entries (memory, x, z) have numbers; of a path that events do not tell, z is all it showed."""

    def __init__(self, arena, policy):
        self.arena, record = arena, arena.record
        require(not policy.timed or len(policy.table) == record.horizon, "policy: it is not one of so many steps")
        self.agent = HistoryAgent(policy, arena) if policy.history else TableAgent(policy, arena)
        self.tells = arena.tells and self.agent.nodes == 1  # a drawn memory does not follow from path and events
        self.entries, self.numbers = [], {}
        self.moves, self.choices = cache(self.moves_of), cache(self.choices_of)

    def entry(self, memory, x, z, time):
        if self.arena.path and not self.tells:
            z = (*z, self.arena.path[x])
        elif not self.arena.path:
            z = self.arena.settled(time, x, z)
        found = self.numbers.setdefault((memory, x, z), len(self.entries))
        if found == len(self.entries):
            self.entries.append((memory, x, z))
        return found

    def begin(self):
        """Every start: (entry, events, probability)."""
        for x, events, chance in self.arena.starts:
            yield self.entry(self.agent.holds(0, None, None, x, events), x, (), 0), events, chance

    def step(self, time, entry):
        """The moves from an entry: [((entry, events), probability)], those to the same together."""
        return self.moves(self.at(time), entry)

    def at(self, time):
        """A time, or what stands for all times at which moves are alike."""
        return time if self.agent.timed or self.arena.varies or time + 1 in self.arena.settling else LATER

    def choices_of(self, time, entry):
        memory, x, z = self.entries[entry]
        taken, possible = self.agent.choices(time, memory, x, z), {action for action, _ in self.arena.actions(x)}
        require({action for (action, _), _ in taken} <= possible, "policy: an action is not available")
        return taken

    def moves_of(self, time, entry):
        arena, (memory, x, z) = self.arena, self.entries[entry]
        reached, found = defaultdict(int), defaultdict(int)
        for (action, node), share in self.choices(time, entry):
            for y, chance in dict(arena.actions(x))[action]:
                reached[y, node, action if arena.by_choice else 0] += share * chance >> BITS
        for (y, node, action), chance in reached.items():
            for events, part in arena.seen(time + 1, x, y, action):
                there = self.agent.holds(time + 1, memory, x, y, events)
                there = there + node if self.agent.nodes > 1 else there
                found[self.entry(there, y, z, time + 1), events] += chance * part >> BITS
        return list(found.items())


# What the policy hides and earns


def hidden_bits(run):
    """Bounds on what the policy hides from the observer of the first channel, by its histories, from weights that are rounded
    down. Of a path that tells every W = (memory, x) it is H(W_T | h_T) + Σ_t H(W_t | W_{t+1}, h_{t+1}); with a value at every
    time, Σ_t w_t H(Z_t | h_t). Where less than ℓ = 2^-100 is lost, it lowers the sum by at most h(ℓ) + ℓ log2|Z|; logarithms
    and sums of floats have relative errors below 2^-50."""
    arena, secret = run.arena, run.arena.secrets[0]
    place, found, starts = arena.place[arena.asked[0]], [], defaultdict(lambda: defaultdict(int))
    for entry, events, chance in run.begin():
        starts[events[place]][entry] += chance
    layer = list(starts.values())
    for time in range(arena.horizon + 1):
        if arena.each and secret.times[time]:
            rows = (values_now(run, weights, time).values() for weights in layer)
            found.append(secret.times[time] * entropy(rows))
        if time < arena.horizon:
            layer, arrived = moved(run, layer, time, place)
            found += [entropy(arrived)] if run.tells else []
            limited(sum(map(len, layer)), "the policy has too many histories")
    lost = ONE - sum(sum(weights.values()) for weights in layer)
    require(lost < ONE >> 100, "the policy has histories that are too improbable", NotChecked)
    if not arena.each:
        found.append(entropy(last_values(run, weights).values() for weights in layer))
    bits, error = math.fsum(found), (math.fsum(found) + len(found) + 1) * 2.0**-49
    return max(0, Fraction(bits - error)), arena.most if arena.untimed else min(Fraction(bits + error), arena.most)


def moved(run, layer, time, place):
    """The histories after a step, each with the weights of its entries; and, of a path that tells everything, the weights of
    what each entry was reached from."""
    after, arrived = [], []
    for weights in layer:
        longer, sources = defaultdict(lambda: defaultdict(int)), defaultdict(list)
        for entry, mass in weights.items():
            for (there, events), chance in run.step(time, entry):
                part = mass * chance >> BITS
                longer[events[place]][there] += part
                if run.tells:
                    sources[events[place], there].append(part)
        after += longer.values()
        arrived += sources.values()
    return after, arrived


def last_values(run, weights):
    """The weights of what is secret at the end of a history: the value, or the rest of the path."""
    found = defaultdict(int)
    for entry, mass in weights.items():
        found[entry if run.tells else run.entries[entry][2] if run.arena.path else run.entries[entry][2][0]] += mass
    return found


def values_now(run, weights, time):
    """The weights of the value at a time: of the state, or whether value 1 comes within `ahead` steps."""
    secret, found = run.arena.secrets[0], defaultdict(int)
    ends = min(time + secret.ahead, run.arena.horizon)
    for step in range(time, ends + 1):
        after = defaultdict(int)
        for entry, mass in weights.items():
            value = secret.value[run.entries[entry][1]]
            if step == ends or (value == 1 and secret.ahead):
                found[value] += mass
                continue
            for (there, _), chance in run.step(step, entry):
                after[there] += mass * chance >> BITS
        weights = after
    return found


def earned(run, quantity, values):
    """Bounds on `sign` times a quantity under a policy, from the last step to the first. Over an infinite horizon a policy that
    acts alike at all times is followed until the rest is small; for another one `values` are what an optimal continuation
    earns."""
    steps, starts = steps_followed(run, quantity), [(entry, chance) for entry, _, chance in run.begin()]
    layers = entries_of_times(run, {entry for entry, _ in starts}, steps)
    found = paid_after(run, quantity, values, layers.pop())
    up = int(not quantity.exact)
    for time in range(len(layers) - 1, -1, -1):
        later, found = found, {}
        for entry in layers[time]:
            pays = quantity.rewards[run.entries[entry][1]]
            shares = [(share, (pays[a], pays[a] + up)) for (a, _), share in run.choices(run.at(time), entry)]
            low, high = mean([(chance, later[there]) for (there, _), chance in run.step(time, entry)])
            now = mean(shares)
            found[entry] = now[0] + math.floor(quantity.discount * low), now[1] + math.ceil(quantity.discount * high)
    low, high = mean([(chance, found[entry]) for entry, chance in starts])
    return low * quantity.unit / ONE, high * quantity.unit / ONE


def steps_followed(run, quantity):
    """How many steps of a policy are followed for a quantity."""
    record, discount, steps = run.arena.record, quantity.discount, run.arena.horizon
    if not (record.endless and quantity.is_return):
        return steps
    require(discount < 1, "the return over an infinite horizon has no discount")
    if run.agent.timed:
        require(record.knows_model, "policy: after the horizon its agent cannot know the model")
        return steps
    while discount**steps * quantity.largest > (1 - discount) * quantity.unit / 10**14:
        steps += 1
        require(steps <= MOST_STEPS, "the discount is too close to one", NotChecked)
    return steps


def entries_of_times(run, layer, steps):
    """The entries that are reached after 0, 1, … steps."""
    layers = [layer]
    for time in range(steps):
        layers.append({there for entry in layers[-1] for (there, _), _ in run.step(time, entry)})
        limited(len(layers[-1]), "the policy has too many situations")
    return layers


def paid_after(run, quantity, values, layer):
    """Bounds on what each entry is still paid after the steps that are followed."""
    at_end = {entry: run.entries[entry][1] for entry in layer}
    if not (run.arena.record.endless and quantity.is_return):
        up = int(not quantity.exact)
        return {entry: (quantity.terminal[x], quantity.terminal[x] + up) for entry, x in at_end.items()}
    worth, rest = [0] * run.arena.record.size, quantity.largest / (1 - quantity.discount)
    if run.agent.timed:
        worth, rest = continuation(run.arena, values)
    scale = ONE / quantity.unit
    ends = {entry: (worth[x] - rest, worth[x] + rest) for entry, x in at_end.items()}
    return {entry: (math.floor(low * scale), math.ceil(high * scale)) for entry, (low, high) in ends.items()}


def mean(parts):
    """The mean of intervals, weighted by probabilities that were rounded down: what is missing may be at either end."""
    missing = ONE - sum(weight for weight, _ in parts)
    low = sum(weight * one for weight, (one, _) in parts) + missing * min(one for _, (one, _) in parts)
    high = sum(weight * one for weight, (_, one) in parts) + missing * max(one for _, (_, one) in parts)
    return low >> BITS, -(-high >> BITS)


def continuation(arena, values, sign=1):
    """What is earned after the horizon by the best continuation, as claimed, and a bound on its error; with sign −1 what is
    lost by the worst."""
    worst, quantity = Fraction(0), arena.record.quantities[0]
    require(len(values) == 2 and len(values[0]) == len(values[1]) == arena.record.size, "values: of another size")
    exact = [number(one, "values") for one in values[0 if sign > 0 else 1]]
    for x, claimed in enumerate(exact):
        worst = max(worst, abs(max(worths(arena, exact, sign, x).values()) - claimed))
    reach = (max(map(abs, exact)) + quantity.largest) * (arena.record.states + 4)
    return exact, (worst + reach / (1 << 150)) / (1 - quantity.discount)


def worths(arena, exact, sign, x):
    """What the return, or its negative, is worth in x with each action, if `exact` is what it is worth afterwards."""
    quantity, found = arena.record.quantities[0], {}
    for action, row in arena.actions(x):
        after = sum(chance * exact[y] for y, chance in row) / ONE
        found[action] = sign * quantity.rewards[x][action] * quantity.unit / ONE + quantity.discount * after
    return found


def check_value(run, claim, quantity, values):
    """A quantity has the value that is claimed, within an error of rounding, and meets its bound or not as claimed."""
    name, value, error = quantity.name, number(claim["value"], "a value"), number(claim["error"], "an error")
    least, most = earned(run, quantity, values)
    largest = (run.arena.horizon + 2) * quantity.most(run.arena.horizon) / (1 << 24) + Fraction(1, 1 << 800)
    largest /= (1 - quantity.discount) if run.arena.record.endless and quantity.is_return else 1
    require(0 <= error <= largest, f"{name}: an error of {claim['error']} is claimed, {float(largest)} is the most")
    where = f"{name}: {claim['value']} is claimed, {float(quantity.sign * least)} ± {float(most - least)} is found"
    require(max(most - quantity.sign * value, quantity.sign * value - least) <= error, where)
    if claim["bound"] is None:
        return
    limit = quantity.sign * number(claim["bound"], "a bound")
    if claim["met"] and least < limit:
        require(most >= limit, f"{claim['bound']} is to be met; {where}")
        raise NotChecked(f"within rounding of the bound {claim['bound']}; {where}")


# Upper bounds


class Guesses:
    """The observers of a bound: what they remember, the nodes of their graphs, and what their guesses cost, in bits."""

    def __init__(self, arena, bound, claim, arrays, under):
        self.arena, self.rules = arena, [(one, f"{under}rules.{n}.") for n, one in enumerate(bound["rules"])]
        self.places = [arena.place[one["channel"]] for one in bound["rules"]]
        self.tables, self.costs = [], []
        for rule, own in self.rules:
            require({*rule} == {"channel", "weight", "memory", "steps"}, "a rule has other fields")
            weight = number(rule["weight"], "a weight")
            self.tables.append(self.graph(rule, own, arrays))
            self.costs.append({time: self.priced(part, weight) for time, part in self.parts(own, arrays).items()})

    def graph(self, rule, own, arrays):
        """The tables of a graph: from a node (0 at first) by an event to the next. Late, a step comes before any event."""
        observer, first = self.arena.observers[self.arena.place[rule["channel"]]], arrays[own + "first"]
        require(len(first) == (observer.size if observer.sees_first else 1), "a rule's graph is of another size")
        start = [[first[0]] * observer.events if self.arena.late and not observer.sees_first else first]
        tables = [start, *(arrays[f"{own}following.{whole(n, 'a step')}"] for n in rule["steps"])]
        require(len(tables) == self.arena.horizon + 1, "a rule's graph does not have one table for each step")
        strings = not observer.untimed or (holds_strings(observer, tables) and not self.arena.path)
        require(strings, "a rule of an observer without a clock needs one")
        return [[[0]], *tables] if self.arena.late else tables

    def parts(self, own, arrays):
        """The costs of a rule, −log2 q: at the end of (node, 0, value); with a value at every time, at each; of a path at each
        of (node, next state, state) on the way to that node, and at the end of (node, 0, state)."""
        horizon = self.arena.horizon
        if self.arena.path is not None:
            found = {}
            for time in range(horizon + 1):
                keys, bits = arrays[f"{own}path_keys.{time}"], arrays[f"{own}path_costs.{time}"]
                found[time + 1 if time < horizon else "end"] = dict(zip(map(tuple, keys), bits, strict=True))
                require(len({*map(tuple, keys)}) == len(keys), "a rule for paths has a key twice")
            return found
        tables = {horizon: arrays[own + "costs"]}
        if self.arena.each is not None:
            tables = {time: arrays[f"{own}each.{time}"] for time in range(horizon + 1)}
        rows = {time: [((node, 0, z), bits) for node, row in enumerate(table) for z, bits in enumerate(row)]
                for time, table in tables.items()}  # fmt: skip
        return {time: dict(part) for time, part in rows.items()}

    def priced(self, part, weight):
        """Costs as whole numbers of 2^-160, rounded up, if each row of them is one of probabilities."""
        rows = defaultdict(list)
        for (node, after, _), bits in part.items():
            require(bits >= 0, "a cost is negative")
            rows[node, after].append(2.0**-bits)
        require(all(math.fsum(row) <= 1 - 2.0**-42 for row in rows.values()), "a node's probabilities exceed one")
        return {key: math.ceil(Fraction(bits) * weight * ONE) for key, bits in part.items() if bits != math.inf}

    def after(self, time, nodes, event):
        """The nodes after an event that comes at a time."""
        found = []
        for number_of, (tables, place) in enumerate(zip(self.tables, self.places, strict=True)):
            found.append(tables[time][nodes[number_of] if nodes else 0][event[place]])
        require(min(found, default=0) >= 0, "a rule's graph ends before the horizon does")
        return tuple(found)

    def pays(self, time, nodes, x, z):
        """What the guesses made at a time cost; of a path those at the end."""
        total, arena = 0, self.arena
        for place, (node, costs) in enumerate(zip(nodes, self.costs, strict=True)):
            if arena.path is not None:
                total += self.cost(costs["end"], (node, 0, arena.code(x))) if time == arena.horizon else 0
            elif arena.each is not None:
                factor, value = Fraction(arena.secrets[0].times[time]), arena.each[x]
                total += math.ceil(factor * self.cost(costs[time], (node, 0, value))) if factor else 0
            elif time == arena.horizon:
                total += self.cost(costs[time], (node, 0, z[place]))
        return total

    def moving(self, time, nodes, x, y):
        """What a guess of x costs at the node that is reached with y."""
        if self.arena.path is None or not nodes:
            return 0
        return self.cost(self.costs[0][time], (nodes[0], self.arena.code(y), self.arena.code(x)))

    @staticmethod
    def cost(costs, key):
        require(key in costs, "a rule excludes something that a policy can reach")
        return costs[key]


def best(arena, priced, guesses, after=None, together=False):
    """The most that `Σ price · quantity + costs of the guesses` is under any policy, in bits, rounded up: over the layers of
    (nodes, x, z) that some policy reaches. Where `together`, the first action in a state is one for all models. `after`: what
    the return pays after the end."""
    horizon, paying = arena.horizon, [(price * one.unit, one) for price, one in priced if price and one.most(1)]
    if not (paying or guesses.rules):
        return Fraction(0)
    layers = layers_of(arena, guesses)
    powers = [[one.discount**time for _, one in paying] for time in range(horizon + 1)]
    ends = cache(lambda x: paid_last(paying, powers[horizon], after, x))
    values = {key: ends(key[1]) + guessed_last(arena, guesses, *key) for key in layers[-1]}
    largest = max(map(abs, values.values()))
    for time in range(horizon - 1, -1, -1):
        later, values = values, {}
        scored = scoring(arena, guesses, paying, powers[time], time, later)
        for key in layers[time]:
            values[key] = max(scored(*key).values()) + (guesses.pays(time, *key) if arena.each else 0)
        largest = max(largest, *map(abs, values.values()))
    # Each of the at most so many products of a layer was rounded, and each probability.
    width = arena.record.size * max([1, *(one.events for one in arena.observers)]) + 8
    error = (horizon + 2) * width * ((largest >> BITS) + 4)
    starts = [((guesses.after(0, (), event), x, arena.settled(0, x, ())), mass) for x, event, mass in arena.starts]
    if not (together and horizon):
        return Fraction(sum(mass * values[key] >> BITS for key, mass in starts) + error, ONE)
    pooled = defaultdict(lambda: defaultdict(int))
    for key, mass in starts:
        for action, score in scored(*key).items():
            pooled[arena.record.state[key[1]]][action] += mass * score >> BITS
    return Fraction(sum(max(scores.values()) for scores in pooled.values()) + error, ONE)


def layers_of(arena, guesses):
    """The situations (nodes, x, z) of each time that some policy reaches."""
    layers = [{(guesses.after(0, (), event), x, arena.settled(0, x, ())) for x, event, _ in arena.starts}]
    for time in range(arena.horizon):
        moves = {(nodes, x if arena.late else y, y, z, action * arena.by_choice)
                 for nodes, x, z in layers[-1] for action, rows in arena.actions(x) for y, _ in rows}  # fmt: skip
        layers.append({key for move in moves for key, _ in reached(arena, guesses, time, *move)})
        limited(len(layers[-1]), "a bound has too many situations")
    return layers


def reached(arena, guesses, time, nodes, leaving, y, z, action):
    """What a move to y leads to: [((nodes, y, z), probability)]."""
    value = arena.settled(time + 1, y, z)
    seen = arena.seen(time + 1, leaving, y, action)
    return [((guesses.after(time + 1, nodes, event), y, value), part) for event, part in seen]


def paid_last(paying, powers, after, x):
    """What the prices pay at the end."""
    pays = Fraction(0)
    for (price, one), power in zip(paying, powers, strict=True):
        last = Fraction(one.terminal[x] + (not one.exact), ONE)
        if after is not None and one.is_return:
            last = (after[0][x] + after[1]) / one.unit
        pays += price * power * last
    return math.ceil(ONE * pays)


def guessed_last(arena, guesses, nodes, x, z):
    """What the last guess costs; late, it is made after an event that x shows."""
    horizon = arena.horizon
    if not arena.late:
        return guesses.pays(horizon, nodes, x, z)
    shown = arena.shown(horizon or 1, arena.record.state[x], 0)
    costs = sum(part * guesses.pays(horizon, guesses.after(horizon + 1, nodes, event), x, z) for event, part in shown)
    return (costs >> BITS) + 1


def scoring(arena, guesses, paying, powers, time, later):
    """What each action is worth in a situation."""

    @cache
    def pay(x, action):
        parts = zip(paying, powers, strict=True)
        pays = (price * power * (one.rewards[x][action] + (not one.exact)) for (price, one), power in parts)
        return math.ceil(sum(pays))

    @cache
    def worth(nodes, leaving, y, z, action, x):
        found = reached(arena, guesses, time, nodes, leaving, y, z, action)
        moving = (guesses.moving(time + 1, key[0], x, y) if arena.path else 0 for key, _ in found)
        return sum(part * (later[key] + cost) for (key, part), cost in zip(found, moving, strict=True)) >> BITS

    def scored(nodes, x, z):
        scores = {}
        for action, rows in arena.actions(x):
            seen, before = action * arena.by_choice, x if arena.path else None
            ahead = sum(chance * worth(nodes, x if arena.late else y, y, z, seen, before) for y, chance in rows)
            scores[action] = pay(x, action) + (ahead >> BITS)
        return scores

    return scored


def endless(arena, values, sign, pooled):
    """The most of the return over an infinite horizon, or of its negative, from claimed values, and their error."""
    exact, error = continuation(arena, values, sign)
    if not pooled:
        return sum(mass * exact[x] for x, mass in arena.record.starts) / ONE, error
    scores = defaultdict(lambda: defaultdict(Fraction))
    for x, mass in arena.record.starts:
        for action, worth in worths(arena, exact, sign, x).items():
            scores[arena.record.state[x]][action] += Fraction(mass, ONE) * worth
    return sum(max(one.values()) for one in scores.values()), error


def check_percentage(arena, quantity, claimed, values):
    """A percentage is a share of what policies can reach, within 1e-9 of it and the rounding of floats."""
    bound, share = number(claimed, f"{quantity.name}: its bound"), Fraction(quantity.bound.removesuffix("%")) / 100
    require(0 <= share <= 1, f"{quantity.name}: its bound is no percentage")
    own = quantity.is_return
    nobody, ends, error, pooled = Guesses(arena, {"rules": []}, {}, {}, ""), [], 0, own and not arena.record.knows_model
    for sign in (1, -1):
        if own and arena.record.endless:
            worth, slack = endless(arena, values, sign, pooled)
            error = max(error, slack)
        else:
            worth = best(arena, [(sign / quantity.unit, quantity)], nobody, None, pooled) * quantity.unit
        ends.append(quantity.sign * sign * worth)
    low, high = min(ends), max(ends)
    rounding = (arena.horizon + 2) * quantity.most(arena.horizon) * Fraction(1, 1 << 40) + (high - low) / 10**9
    found, rounding = low + share * (high - low), rounding + 2 * error
    require(abs(bound - found) <= rounding, f"{quantity.name}: {quantity.bound} is {float(found)}, not {claimed}")


def check_upper(record, claim, bound, arrays, under, kept):
    """The upper bound that rules of observers prove: those of channels in `kept` have lower bounds, the others are hidden. With
    a delay a decision is made before the event of its state."""
    rules, delay, upper = bound["rules"], whole(bound["delay"], "delay", 0, 1), number(bound["upper"], "an upper bound")
    channels = tuple(whole(one["channel"], "a channel", 0, len(record.channels) - 1) for one in rules)
    require(rules and len({*channels}) == len(channels), "a rule is missing, or there are two for a channel")
    fits = {*channels} <= {*claim["hidden"], *kept}
    require(fits, "a rule is for a channel that is neither hidden nor has a lower bound")
    limit = sum(weight * kept.get(channel, 0) for channel, weight in checked_weights(rules, claim["hidden"]).items())
    prices, slack = checked_prices(bound["prices"], record, claim)
    factors = [number(one["factor"], "a factor") for one in claim["quantities"]]
    parts = zip(prices, factors, record.quantities, strict=True)
    priced = [(price + one.sign * factor, one) for price, factor, one in parts]
    arena = Arena(record, channels, (), delay)
    if any(one.ahead for one in arena.secrets):
        require(upper >= arena.most and not (limit or any(prices)), "no rule is known for values that lie ahead")
        return arena.most
    after = continuation(arena, arrays.get("values", [])) if record.endless else None
    found = best(arena, priced, Guesses(arena, bound, claim, arrays, under), after) - limit - slack
    if not any(factors):
        found = min(found, *(record.channels[n].most(record.horizon) for n in channels if n in claim["hidden"]))
    require(found <= upper, f"an upper bound of {bound['upper']} with delay {delay}: {float(found)} is found")
    return found


def checked_weights(rules, hidden):
    """The weight of each rule's channel: those of hidden channels sum to one or more, and that of one rule alone is one."""
    weights = {one["channel"]: number(one["weight"], "a weight") for one in rules}
    total = sum(weight for channel, weight in weights.items() if channel in hidden)
    right = total >= 1 and min(weights.values()) > 0 and (len(rules) > 1 or total == 1)
    require(right, "the weights are not those of a bound")
    return weights


def checked_prices(told, record, claim):
    """The prices of the quantities, each of a bound, and what the bounds are worth at these prices."""
    prices, limit = [number(price, "a price") for price in told], Fraction(0)
    right = len(prices) == len(record.quantities) and min(prices) >= 0
    require(right, "the prices are not one for each quantity")
    for price, quantity, one in zip(prices, record.quantities, claim["quantities"], strict=True):
        require(price == 0 or one["bound"] is not None, "there is a price, and no bound for it")
        limit += price * quantity.sign * number(one["bound"] or 0, "a bound")
    return prices, limit


def holds_strings(observer, tables):
    """Whether each node stands for one string of the events that are not silent, and in the last layer each for another; or
    there is one node."""
    if all(node <= 0 for table in tables for row in table for node in row):
        return True
    layer = {0: ()}
    for time, table in enumerate(tables):
        after = {}
        for node, string in layer.items():
            for event, target in enumerate(table[node]):
                loud = event != observer.silent and (time or observer.sees_first)
                longer = (*string, event) if loud else string
                if target >= 0 and after.setdefault(target, longer) != longer:
                    return False
        layer = after
    return len({*layer.values()}) == len(layer)


# Lower bounds over all policies of agents that see what the observer sees


class Witness:
    """The values of unnormalised beliefs over (x, value of the secret, 0 before it is settled), from the last step back:
    `W_t(b) = min_a [paid(a) + Σ_e (h(b_e) + W_t+1(b_e))]`. W is concave, homogeneous and monotone, so that for a belief p of
    the witness `W(b) ≥ c W(p) + W(b − c p)`; and `W(b) ≥ Σ_x (m_x told(x) + H(z | x))`, since to be told x now and at all later
    times leaves less, and what follows says nothing more of a settled value."""

    def __init__(self, arena, priced, told, arrays):
        self.arena, self.secret, self.horizon = arena, arena.secrets[0], arena.horizon
        self.priced, self.shift = [(price, one) for price, one in priced if price], Fraction(0)
        self.pays = {time: self.paid(time) for time in range(self.horizon + 1)}
        self.points = [self.read(time, arrays, f"beliefs.{time}.") for time in range(whole(told["times"], "times"))]
        self.forecast, self.coming = cache(self.forecast_of), cache(self.coming_of)
        if self.secret.ahead:
            rows = [[row for _, row in arena.actions(x)] for x in range(arena.record.size)]
            free = all(len(row) == arena.record.actions and row.count(row[0]) == len(row) for row in rows)
            require(free, "beliefs: the secret lies ahead, and depends on actions that are not chosen yet")

    def paid(self, time):
        """What each action costs in each x, or x at the end, more than the least of all: that is added to `shift`."""
        found = {}
        for x in range(self.arena.record.size):
            for action in range(self.arena.record.actions if time < self.horizon else 1):
                found[x, action] = Fraction(0)
                for price, one in self.priced:
                    pays = one.rewards[x][action] if time < self.horizon else one.terminal[x]
                    found[x, action] -= price * one.discount**time * one.unit * (pays + (not one.exact)) / ONE
        least = min(Fraction(0), *found.values())
        self.shift += least
        return {key: float(value - least) for key, value in found.items()}

    def read(self, time, arrays, own):
        """The beliefs of a time, each with those that its events lead to."""
        ends, places, weights, child = (arrays[own + name] for name in ("ends", "place", "weight", "child"))
        values = self.secret.values if self.is_settled(time) else 1
        require(len(ends) == len(child) + 1 and time < self.horizon, "beliefs: of another size")
        found = []
        for low, high, after in zip(ends, ends[1:], child, strict=False):
            require(0 <= low <= high <= len(places) == len(weights), "beliefs: of another size")
            belief = {divmod(place, values): int(ONE * Fraction(weight))
                      for place, weight in zip(places[low:high], weights[low:high], strict=True)}  # fmt: skip
            inside = all(0 <= x < self.arena.record.size for x, _ in belief) and min(belief.values(), default=1) > 0
            require(inside and len(belief) == high - low, "beliefs: one of them is none")
            found.append((belief, after))
        return found

    def is_settled(self, time):
        return self.secret.kind == "once" and self.secret.time <= time

    def place(self, time, x, z):
        """The place of x in a belief, with the value that was or is settled."""
        if not self.is_settled(time):
            return x, 0
        value = self.secret.value[x] if self.secret.time == time else z
        require(value >= 0, "a secret has no value in a state that can occur")
        return x, value

    def after(self, time, belief):
        """For each action that is available in all states of a belief: the beliefs that its events lead to, by event."""
        open_to_all = set(range(self.arena.record.actions))
        found = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
        for (x, z), mass in belief.items():
            open_to_all &= {action for action, _ in self.arena.actions(x)}
            for action, row in self.arena.actions(x):
                for y, chance in row:
                    for (event,), part in self.arena.seen(time + 1, x, y, action):
                        found[action][event][self.place(time + 1, y, z)] += (mass * chance >> BITS) * part >> BITS
        require(open_to_all, "beliefs: no action is available in all states of one")
        return {action: found[action] for action in open_to_all}

    def forecast_of(self, time, x):
        """The probabilities of the values 0 and 1 at a time that may lie ahead by so many steps."""
        ahead = min(self.secret.ahead, self.horizon - time)
        if self.secret.value[x] == 1 or not ahead:
            return [ONE * (self.secret.value[x] == value) for value in range(self.secret.values)]
        return self.coming(ahead, x)

    def coming_of(self, steps, x):
        """The probabilities that value 1 does not come and that it comes, within so many steps."""
        if self.secret.value[x] == 1 or not steps:
            return [ONE * (self.secret.value[x] != 1), ONE * (self.secret.value[x] == 1)]
        rows = [(chance, self.coming(steps - 1, y)) for y, chance in self.arena.actions(x)[0][1]]
        return [sum(chance * row[value] >> BITS for chance, row in rows) for value in (0, 1)]

    def counted(self, time, belief):
        """The entropy that counts at a time."""
        factor = self.secret.times[time] if self.secret.kind == "each" else float(time == self.horizon)
        joint = defaultdict(int)
        for (x, z), mass in belief.items() if factor else ():
            for value, share in enumerate(self.forecast(time, x)) if self.secret.kind == "each" else [(z, ONE)]:
                joint[value] += mass * share >> BITS
        return factor * entropy([joint.values()])

    def left(self, time, belief):
        """What still counts if x is told."""
        rows = defaultdict(list)
        for (x, _), mass in belief.items():
            rows[x].append(mass)
        later = entropy(rows.values()) if self.is_settled(time) and time < self.horizon else 0.0
        return math.fsum([later, *(sum(row) / ONE * self.told[time][x] for x, row in rows.items())])

    def worth(self, time, belief, child):
        """What still counts, at least: by a belief of the witness and what is left, or by x alone."""
        plain = self.left(time, belief)
        if child < 0:
            return plain
        point = self.points[time][child][0]
        ratio = min((belief.get(key, 0) << BITS) // mass for key, mass in point.items()) if point else 0
        rest = {key: mass - (-(-ratio * point.get(key, 0) // ONE)) for key, mass in belief.items()}
        rest = {key: mass for key, mass in rest.items() if mass > 0}
        return max(plain, ratio / ONE * self.values[child] + self.left(time, rest))

    def least(self, time, belief, child):
        """The least of all actions; who is told x has no further beliefs."""
        scores = []
        for action, events in self.after(time, belief).items():
            pays = [mass / ONE * self.pays[time][x, action] for (x, _), mass in belief.items()]
            for event, one in events.items():
                counts = child is not None or not self.is_settled(time)
                pays.append(self.counted(time + 1, one) if counts else 0.0)
                pays.append(self.left(time + 1, one) if child is None else self.worth(time + 1, one, child[event]))
            scores.append(math.fsum(pays))
        return min(scores)

    def total(self, first):
        """The bound, from the starts on; each of its sums has a relative error below 2^-49."""
        arena, size = self.arena, self.arena.record.size
        self.told, self.values = {self.horizon: [self.pays[self.horizon][x, 0] for x in range(size)]}, []
        for time in range(self.horizon - 1, -1, -1):
            points = self.points[time] if time < len(self.points) else []
            self.values = [self.least(time, belief, child) for belief, child in points]
            self.told[time] = [self.least(time, {(x, 0): ONE}, None) for x in range(size)]
        starts = defaultdict(lambda: defaultdict(int))
        for x, (event,), mass in arena.starts:
            starts[event][self.place(0, x, 0)] += mass
        events = max(1, arena.observers[0].size * arena.observers[0].sees_first)
        require(len(first) == events, "beliefs: the first are not one for each event")
        found = [self.counted(0, one) + self.worth(0, one, first[event]) for event, one in starts.items()]
        return Fraction(math.fsum(found)) * (1 - (self.horizon + 4) * Fraction(1, 1 << 48)) + self.shift


def check_beliefs(record, claim, arrays):
    """A lower bound on what is hidden by all policies of agents that see what the observer sees, if there is one."""
    told, own = claim["beliefs"], record.channels[0]
    if told is None:
        return []
    observer = record.observers[own.receives]
    alike = record.blind and record.agent == own.receives and record.cells == 1 and observer.sees_actions
    alike = alike and not (observer.untimed or record.endless or own.kind == "path")
    require(alike and claim["goal"] == "transparent", "beliefs: the agent does not see just what its observer sees")
    require({*told} == {"lower", "prices", "times"}, "beliefs: they have other fields")
    prices, limit = checked_prices(told["prices"], record, claim)
    witness = Witness(Arena(record), list(zip(prices, record.quantities, strict=True)), told, arrays)
    lower, found = number(told["lower"], "beliefs: the lower bound"), witness.total(arrays["beliefs.first"]) + limit
    require(lower <= found, f"beliefs: a lower bound of {told['lower']} is claimed, and {float(found)} is found")
    require(lower <= number(claim["channels"][0]["upper"], "an upper bound"), "beliefs: more than the policy hides")
    return [f"no policy that sees what the observer sees hides less than {float(found):.9f} bits"]


# Statistical claims


class Draws:
    """The draws of this program: `doubt` is what is left of 1 by the confidence, `source` the randomness."""

    def __init__(self, confidence=1 - 1e-6, sequences=None, seed=None):
        require(0 < confidence < 1, "the confidence is not between 0 and 1", NotChecked)
        self.doubt, self.sequences = 1 - confidence, sequences
        self.source = random.SystemRandom() if seed is None else random.Random(seed)

    def bear_out(self, draw, low, high, sequences, claims, error, within):
        """Draw until an interval for the mean lies within what is claimed; each round has its own share of the doubt."""
        sums, count, rounds, most = [0.0, 0.0], 0, 0, 16 * (self.sequences or sequences)
        while True:
            target = min(most, max(512, 3 * count // 2))
            for value in (draw() - low for _ in range(target - count)):
                sums = [sums[0] + value, sums[1] + value * value]
            count, rounds = target, rounds + 1
            logarithm = math.log(4 * claims * 2**rounds / self.doubt)
            mean, variance = sums[0] / count, max(0.0, (sums[1] - sums[0] ** 2 / count) / (count - 1))
            off = math.sqrt(2 * variance * logarithm / count) + 7 * (high - low) * logarithm / (3 * (count - 1))
            off = 1.0001 * (off + error) + 1e-9 * (high - low)
            found = max(low, low + mean - off), min(high, low + mean + off)
            if within(*found):
                return found, count
            where = f"claimed with confidence, and {found[0]} … {found[1]} is found in {count:,} sequences"
            require(count < most, where)


class Sampler:
    """Runs of a policy, and the entropy that the sequence of each leaves, by a filter in floats along it."""

    def __init__(self, run, source):
        self.run, self.source, self.place = run, source, run.arena.place[run.arena.asked[0]]
        self.begin = [(entry, events[self.place], chance / ONE) for entry, events, chance in run.begin()]
        self.layers = [sorted({entry for entry, _, _ in self.begin})]
        self.ways, self.table = cache(self.ways_of), cache(self.table_of)

    def ways_of(self, time, entry):
        """What an entry leads to, and running sums of the probabilities, to draw from."""
        moves = [((there, events[self.place]), chance / ONE) for (there, events), chance in self.run.step(time, entry)]
        return [one for one, _ in moves], list(accumulate(chance for _, chance in moves)), moves

    def layer(self, time):
        """The entries that can be reached at a time."""
        while len(self.layers) <= time:
            before = len(self.layers) - 1
            found = {there for entry in self.layers[before] for there, _ in self.ways(before, entry)[0]}
            limited(len(found) * len(self.layers) // 8, "a filter is too large")
            self.layers.append(sorted(found))
        return self.layers[time]

    def table_of(self, time, event):
        """How an event moves a belief over one layer to the next: the targets, and columns of sources and probabilities, one
        source of each target in a column."""
        rows = defaultdict(list)
        for place, entry in enumerate(self.layer(time)):
            for (there, seen), chance in self.ways(time, entry)[2]:
                if seen == event:
                    rows[there].append((place, chance))
        numbers = {entry: place for place, entry in enumerate(self.layer(time + 1))}
        columns = [
            [row[n] if n < len(row) else (0, 0.0) for row in rows.values()] for n in range(max(map(len, rows.values())))
        ]
        pairs = [(itemgetter(*(place for place, _ in one), 0), [chance for _, chance in one]) for one in columns]
        return [numbers[there] for there in rows], pairs, len(numbers)

    def sequence(self):
        """The entries that are passed, and the observer's events."""
        ((entry, event, _),) = self.source.choices(self.begin, [weight for _, _, weight in self.begin])
        entries, events = [entry], [event]
        for time in range(self.run.arena.horizon):
            ways, ends, _ = self.ways(time, entries[-1])
            (place,) = self.source.choices(range(len(ways)), cum_weights=ends)
            entries.append(ways[place][0])
            events.append(ways[place][1])
        return entries, events

    def bits(self):
        """The entropy of the secret after one sequence; of a path by that of each hidden state given the next."""
        run, (_, events), spent, found = self.run, self.sequence(), None, 0.0
        belief, numbers = [0.0] * len(self.layer(0)), {entry: place for place, entry in enumerate(self.layers[0])}
        for entry, event, weight in self.begin:
            belief[numbers[entry]] += weight * (event == events[0])
        spent = [0.0] * len(belief)
        times = run.arena.secrets[0].times
        for time, event in enumerate([*events[1:], None]):
            if times and times[time]:
                weights = {entry: p for entry, p in zip(self.layer(time), belief, strict=True) if p}
                found += times[time] * self.left(self.now(weights, time).values())
            if event is not None:
                belief, spent = self.filtered(time, belief, spent, event)
        if run.arena.path:
            total = sum(belief)
            return sum(p / total * (cost - math.log2(p / total)) for p, cost in zip(belief, spent, strict=True) if p)
        if times:
            return found
        values = defaultdict(float)
        for entry, p in zip(self.layer(run.arena.horizon), belief, strict=True):
            values[run.entries[entry][2][0]] += p
        return self.left(values.values())

    def now(self, weights, time):
        """The belief in each value at a time."""
        require(not self.run.arena.secrets[0].ahead, "draws of values that lie ahead", NotChecked)
        found = defaultdict(float)
        for entry, p in weights.items():
            found[self.run.arena.each[self.run.entries[entry][1]]] += p
        return found

    @staticmethod
    def left(weights):
        """The entropy of weights that need not sum to one."""
        total = sum(weights)
        return -sum(p / total * math.log2(p / total) for p in weights if p > 0)

    def filtered(self, time, belief, spent, event):
        """The belief after an event; of a path also the entropy of what led to each hidden state."""
        targets, columns, size = self.table(time, event)
        parts = [list(map(mul, take(belief), chances)) for take, chances in columns]
        sums = list(map(sum, zip(*parts, strict=True)))
        total, after, costs = sum(sums), [0.0] * size, [0.0] * size
        for target, mass in zip(targets, sums, strict=True):
            after[target] = mass / total
        if self.run.arena.path:
            for (take, _), part in zip(columns, parts, strict=True):
                for target, mass, all_of, cost in zip(targets, part, sums, take(spent), strict=False):
                    if mass:
                        costs[target] += mass / all_of * (cost - math.log2(mass / all_of))
        return after, costs

    def paid(self, quantity):
        """What one run pays of a quantity, with its sign, by the mean of each decision."""
        run, (entries, _) = self.run, self.sequence()
        total, power = 0.0, 1.0
        for time, entry in enumerate(entries[:-1]):
            x = run.entries[entry][1]
            shares = run.choices(run.at(time), entry)
            total += power * sum(share * quantity.rewards[x][action] / ONE / ONE for (action, _), share in shares)
            power *= float(quantity.discount)
        x = run.entries[entries[-1]][1]
        return float(quantity.unit) * (total + power * (quantity.terminal[x] / ONE))


def check_drawn(run, channel, draws, claims):
    """A statistical claim on the bits of a channel."""
    told, sampler, arena = channel["sampled"], Sampler(run, draws.source), run.arena
    require({*told} == {"lower", "upper", "sequences"}, f"{channel['name']}: what is drawn has other fields")
    require(arena.path is None or run.tells, "a path with too many values", NotChecked)
    lower, upper = (number(told[end], f"{channel['name']}: {end}") for end in ("lower", "upper"))
    count, most = whole(told["sequences"], "sequences", 2, MOST_SEQUENCES), float(arena.most)

    def within(low, high):
        return lower <= low and (arena.most if arena.untimed or high == most else high) <= upper

    try:
        found, count = draws.bear_out(sampler.bits, 0.0, most, count, claims, 1e-9 * (1 + most), within)
    except Lie as error:
        raise Lie(f"{channel['name']}: {told['lower']} … {told['upper']} is {error}") from None
    return f"at least {found[0]:.6f} bits in {channel['name']} with confidence ({count:,} sequences)"


def check_drawn_value(run, claim, quantity, draws, claims):
    """A statistical claim on a quantity."""
    value, error = number(claim["value"], "a value"), number(claim["error"], "an error")
    sampler, most = Sampler(run, draws.source), float(quantity.most(run.arena.horizon)) * (1 + 1e-12)
    count = whole(claim["sequences"], "sequences", 2, MOST_SEQUENCES)

    def within(low, high):
        low, high = sorted((quantity.sign * low, quantity.sign * high))
        return value - error <= low and high <= value + error

    draws.bear_out(lambda: sampler.paid(quantity), -most, most, count, claims, 1e-12 * most, within)
    if claim["bound"] is not None:
        bound, sign = number(claim["bound"], "a bound"), quantity.sign
        require(claim["met"] is (sign * (value - bound) >= error), f"{quantity.name}: met is {claim['met']}")


# The certificate


def check_form(claim, record):
    """The lists of a certificate: their fields, and that they are about the channels, quantities and bounds of the problem."""
    lists = ("hidden", "quantities", "channels", "bounds")
    require(all(isinstance(claim[name], list) for name in lists), "a list of the certificate is none")
    require(claim["goal"] in ("opaque", "transparent"), "the goal is an unknown one")
    hidden = [whole(one, "hidden", 0, len(record.channels) - 1) for one in claim["hidden"]]
    require(len({*hidden}) == len(hidden) > 0, "hidden: a channel comes twice, or there is none")
    check_channel_items(claim, record, hidden)
    fields = {"name", "relation", "bound", "value", "error", "met", "sequences", "factor"}
    require(len(claim["quantities"]) == len(record.quantities), "the quantities are not those of the problem")
    for one, given in zip(claim["quantities"], record.quantities, strict=True):
        name, bound = given.name, given.bound
        require({*one} == fields and isinstance(one["met"], bool), f"{name}: it has other fields")
        require((one["name"], one["relation"]) == (name, "≤≥"[given.sign > 0]), f"{name}: another quantity is claimed")
        alone = claim["goal"] == "opaque" and one["sequences"] == 0
        require(number(one["factor"], "a factor") == 0 or alone, f"{name}: a task counts what is not proven")
        same = isinstance(bound, str) or (type(one["bound"]) is type(bound) and one["bound"] == bound)
        require(same and (one["bound"] is not None or (bound is None and one["met"])), f"{name}: its bound is another")
    delays = [one["delay"] for one in claim["bounds"]]
    fits = delays in ([0], [0, 1]) if claim["goal"] == "opaque" else not delays
    items = all({*one} == {"delay", "upper", "prices", "rules"} for one in claim["bounds"])
    require(fits and items, "the bounds are others")
    require(len(delays) < 2 or 0 in hidden, "a bound with a delay is about the problem's own channel")


def check_channel_items(claim, record, hidden):
    """The items of the channels: the own one, those that are hidden, and those with bounds."""
    names = {"number", "name", "min", "max", "lower", "upper", "window", "prune", "merge", "sampled"}
    wanted = [one.number for one in record.channels if one.number in (0, *hidden) or one.min or one.max is not None]
    told = [whole(one["number"], "a channel") for one in claim["channels"]]
    require(told == wanted or (told == hidden == [0]), f"the channels are {told}, expected {wanted}")
    require(claim["goal"] == "opaque" or told == [0], "nothing is proven of other channels with this goal")
    for one in claim["channels"]:
        asked = record.channels[one["number"]]
        require({*one} == names, f"{asked.name}: it has other fields")
        same = [one["name"], one["min"], one["max"]] == [asked.name, asked.min, asked.max]
        require(same, f"{asked.name}: its bounds are others")


def check_quantities(record, policy, claim, arrays, draws, claims):
    """Every quantity of the certificate, and that percentages are what they say."""
    hears, values = policy.hears(record), arrays.get("values", [])
    run = Run(Arena(record, (0,), hears, blind=not hears), policy)
    for one, quantity in zip(claim["quantities"], record.quantities, strict=True):
        if isinstance(quantity.bound, str):
            check_percentage(Arena(record), quantity, one["bound"], values)
        if whole(one["sequences"], "sequences", 0, MOST_SEQUENCES):
            check_drawn_value(Run(Arena(record, (0,), hears), policy), one, quantity, draws, claims)
        else:
            check_value(run, one, quantity, values)


def check_channels(record, policy, claim, draws, claims):
    """What the policy hides in each channel that is told of; returns the lower bounds that are found, and what was drawn."""
    lowers, drawn = {}, []
    for one in claim["channels"]:
        run = Run(Arena(record, (one["number"],), policy.hears(record)), policy)
        lower, upper = (number(one[what], f"{one['name']}: {what}") for what in ("lower", "upper"))
        require(0 <= lower <= upper, f"{one['name']}: its bounds do not fit each other")
        lowers[one["number"]] = 0
        if lower > 0 or upper < run.arena.most:
            least, most = hidden_bits(run)
            where = f"{one['lower']} … {one['upper']} is claimed, {float(least)} … {float(most)} is found"
            require(lower <= least and most <= upper, f"{one['name']}: {where}")
            lowers[one["number"]] = least
        if one["sampled"] is not None:
            drawn.append(check_drawn(run, one, draws, claims))
    return lowers, drawn


def check(folder, draws=None):
    """Raise `Lie` unless everything that the certificate claims is so; returns the recomputed numbers in words."""
    claim, draws = parse(read(folder / "certificate.json")), draws or Draws()
    require(claim["form"] == FORM, "certificate.json has an unknown form", NotChecked)
    content, place = read(folder / "problem.bin"), folder / Path(claim["arrays"]).name
    require(hashlib.sha256(read(place)).hexdigest() == claim["arrays_sha256"], "the arrays are others")
    arrays = {name: nested(shape, flat) for name, (_, shape, flat) in safetensors(read(place))[1].items()}
    register = claim["register"]
    if register is not None:
        register = {**register, **{name: arrays[f"register.{name}"] for name in ("start", "step", "codes", "label")}}
    record, policy = Record(content), Policy(folder / "policy.safetensors", register)
    told = [record.problem, record.digest, policy.digest.hexdigest()]
    wanted = [claim[f"{one}_hash"] for one in ("problem", "record", "policy")]
    require(told == wanted, "the problem or the policy is another one")
    check_form(claim, record)
    claims = sum(one["sampled"] is not None for one in claim["channels"])
    claims = max(1, claims + sum(whole(one["sequences"], "sequences") > 0 for one in claim["quantities"]))
    lowers, drawn = check_channels(record, policy, claim, draws, claims)
    check_quantities(record, policy, claim, arrays, draws, claims)
    channels = [one for one in claim["channels"] if one["number"] not in claim["hidden"] and one["min"]]
    kept = {one["number"]: number(one["min"], "a bound") for one in channels}
    seeing = len(claim["bounds"]) > 1 and (policy.hears(record) or record.blind)
    require(not seeing, "a bound with a delay, and a policy that acts on observations")
    found = [check_upper(record, claim, one, arrays, f"bounds.{n}.", kept) for n, one in enumerate(claim["bounds"])]
    lower = min(lowers[one] for one in claim["hidden"])
    bits = " and ".join([f"{float(lower):.9f}", *(f"{float(upper):.9f}" for upper in found)])
    words = f"the certificate holds: recomputed {bits} bits, return {claim['quantities'][0]['value']:.9g}"
    return "; ".join([words, *check_beliefs(record, claim, arrays), *drawn])


def options(arguments):
    """The folder, and the draws that options ask for."""
    given, rest = {}, list(arguments)
    for name, kind in (("--confidence", float), ("--sequences", int), ("--seed", int)):
        if name in rest[:-1]:
            place = rest.index(name)
            given[name[2:]] = kind(rest[place + 1])
            del rest[place : place + 2]
    require(len(rest) == 1, __doc__, NotChecked)
    return Path(rest[0]), Draws(**given)


def main(arguments):
    if arguments in (["--help"], ["-h"]):
        return __doc__, 0
    try:
        folder, draws = options(arguments)
    except (NotChecked, ValueError) as error:
        return f"not checked: {error}", 2
    try:
        return check(folder, draws), 0
    except NotChecked as error:
        return f"not checked: {error}", 2
    except OSError as error:
        return f"not checked: {error.filename}: {error.strerror}", 2
    except (MemoryError, RecursionError) as error:
        return f"not checked: there is not enough memory ({type(error).__name__})", 2
    except (LookupError, ValueError, TypeError, ArithmeticError, AttributeError, struct.error) as error:
        return f"the certificate does not hold: {error or type(error).__name__}", 5


if __name__ == "__main__":
    answer, code = main(sys.argv[1:])
    print(answer)
    sys.exit(code)
