"""Check a result of veil with plain Python, without NumPy: python -m veil.verify_plain RESULT_FOLDER

This file needs nothing but Python and can be copied: python verify_plain.py RESULT_FOLDER. It recomputes from `problem.bin`,
`policy.safetensors` and `certificate.json` with its arrays everything that the certificate claims: what the policy hides in
each channel, every quantity, and the upper bounds that rules of observers prove. Proven numbers are multiples of 2^-192,
rounded outward; distributions are divided by their sums. Statistical claims are checked with sequences drawn here.

Options: --confidence (of all statistical claims together, 1 - 1e-6 by default), --sequences (to draw for each at first),
--seed (to repeat the draws; by default they come from the randomness of the system).

Exit codes, as of `veil verify`: 0 the certificate holds, 5 it does not hold, 2 it could not be checked: a file is missing or
cannot be read, or this program would take too long.
"""

# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportOptionalSubscript=false, reportOptionalIterable=false, reportGeneralTypeIssues=false
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
from collections import Counter, defaultdict
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import accumulate, groupby, pairwise, product
from pathlib import Path

ONE = 1 << 192  # proven numbers have 192 binary digits after the point
MOST_ENTRIES = 2_000_000  # weights of one layer, about a gigabyte
MOST_BYTES = 1 << 28  # of a file
MOST_STEPS = 2000  # of a horizon
MOST_SEQUENCES = 10_000_000
PRECISE = Context(prec=60)
KINDS = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u1": "B"}
FORM, PROBLEM_FORM, POLICY_FORM = "veil-certificate-6", "veil problem, form 2", "veil-policy-1"


class Lie(ValueError):
    """The certificate does not hold."""


class NotChecked(Exception):
    """The certificate may hold, and this program cannot tell."""


def require(good, message, error=Lie):
    if not good:
        raise error(message)


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


def read_safetensors(path):
    """Metadata, and for each array its type, shape and flat list of numbers."""
    content = read(path)
    end = 8 + int.from_bytes(content[:8], "little")
    head, data = parse(content[8:end]), content[end:]
    metadata, arrays = head.pop("__metadata__", {}), {}
    for name, entry in head.items():
        kind = f"{entry['dtype'][0].lower()}{int(entry['dtype'][1:]) // 8}"
        begin, stop = entry["data_offsets"]
        flat = [value for (value,) in struct.iter_unpack(f"<{KINDS[kind]}", data[begin:stop])]
        arrays[name] = kind, entry["shape"], flat
    return metadata, arrays


def nested(shape, flat):
    """A flat list as lists of lists."""
    size = math.prod(shape)
    require(size == len(flat) and all(part >= 0 for part in shape), "an array has another shape than its numbers")
    if not shape[1:]:
        return list(flat)
    width = math.prod(shape[1:])
    return [nested(shape[1:], flat[row * width : (row + 1) * width]) for row in range(shape[0])]


class Fields:
    """The tagged fields of `problem.bin`, in the order in which they were written."""

    def __init__(self, content):
        self.content, self.place = content, 0

    def take(self, count):
        require(self.place + count <= len(self.content), "problem.bin ends early")
        self.place += count
        return self.content[self.place - count : self.place]

    def number(self):
        return int.from_bytes(self.take(8), "little")

    def count(self):
        """How many things follow: each takes a byte or more."""
        found = self.number()
        require(found <= len(self.content), "problem.bin ends early")
        return found

    def follows(self, tag):
        return self.content[self.place + 8 :].startswith(tag.encode()) and self.content[
            self.place : self.place + 8
        ] == len(tag.encode()).to_bytes(8, "little")

    def next(self, expected):
        """The value of a field: texts, a number, nested lists of numbers, or None where it says that there is none."""
        tag = self.take(self.number()).decode("utf-8", "replace")
        require(expected in (tag, None), f"problem.bin has {tag!r} where {expected!r} is expected", NotChecked)
        kind = self.take(1)
        if kind == b"-":
            return None
        if kind == b"s":
            return [self.take(self.number()).decode("utf-8", "surrogatepass") for _ in range(self.count())]
        shape = [self.number() for _ in range(self.count())]
        form = "<q" if kind == b"i" else "<d"
        flat = [value for (value,) in struct.iter_unpack(form, self.take(8 * math.prod(shape)))]
        return nested(shape, flat) if shape else flat[0]

    def optional(self, tag):
        return self.next(tag) if self.follows(tag) else None


# Numbers


def number(value, what):
    """A number of the certificate as a fraction: no text, truth value, infinity or NaN."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    require(plain and abs(value) <= sys.float_info.max, f"{what}: {str(value)[:40]!r} is not a finite number")
    return Fraction(value)


def whole(value, what, low=0, high=1 << 31):
    require(
        type(value) is int and low <= value <= high, f"{what}: {str(value)[:40]!r} is not a whole number in its range"
    )
    return value


def distribution(numbers, places=None):
    """The places of a distribution, given in floats, that have a positive probability: pairs (place, fraction)."""
    exact = [Fraction(value) for value in numbers]
    total = sum(exact)
    require(exact and min(exact) >= 0 and abs(total - 1) < Fraction(1, 10**6), "a row is not a distribution")
    return [(place, part / total) for place, part in zip(places or range(len(exact)), exact, strict=True) if part]


def log2_bounds(over, under=1):
    """log2 of a ratio of positive whole numbers from below and from above, in units of 2^-192."""
    found = Fraction(PRECISE.divide(PRECISE.ln(PRECISE.divide(over, under)), PRECISE.ln(2)))
    error = (abs(found) + 1) / 10**55
    return math.floor((found - error) * ONE), math.ceil((found + error) * ONE)


def log2_count(count):
    """log2 of a number of values, rounded up."""
    return log2_bounds(count)[1] if count & (count - 1) else (count.bit_length() - 1) * ONE


def entropy(joint):
    """Σ p(row, value) log2(p(row) / p(row, value)), rounded down. Where weights p are too small, so is the sum."""
    total = Counter()
    for (row, _), mass in joint.items():
        total[row] += mass
    return sum(p * log2_bounds(total[row], p)[0] // ONE for (row, _), p in joint.items() if 0 < p < total[row])


# The problem


class Observer:
    def __init__(self, fields, states, actions):
        names, tables = fields.next("observations"), fields.next("emissions")
        self.size, self.by_action = len(names), isinstance(tables[0][0], list)
        self.tables = tables if self.by_action else [tables]
        self.sees_actions, sees_initial = fields.next("sees actions"), fields.next("sees initial")
        self.times, self.at = fields.optional("times"), {}
        while fields.follows("emissions at"):
            when, given = fields.next("emissions at"), fields.next("emissions then")
            self.at[when] = given if isinstance(given[0][0], list) else [given]
        self.untimed = fields.optional("untimed") == 1
        self.silent = fields.optional("silent")
        for table in [*self.tables, *(one for given in self.at.values() for one in given)]:
            require(
                len(table) == states and all(len(row) == self.size for row in table), "emissions are of another size"
            )
        require({self.sees_actions, sees_initial} <= {0, 1}, "what an observer sees is no truth value")
        require(len(self.tables) in (1, actions), "emissions are of another size")
        self.sees_first = bool(sees_initial) and (not self.by_action or 0 in self.at or -2 in self.at)
        self.varies = self.times is not None or any(when not in (0, -2) for when in self.at)
        self.events = self.size * (actions if self.sees_actions else 1)
        self.rows = {}

    def row(self, time, horizon, state, action):
        """The distribution of an observation: at a time at which none is received, the silent one for certain."""
        last = time == horizon
        if self.times is not None and not (last if self.times == [-1] else time in self.times):
            return [(self.silent, Fraction(1))]
        keys = [key for key in ([-2 - time, -1, time] if last else [time]) if key in self.at]
        keys = [key for key in keys if time or key != -1 or not self.by_action]
        tables = self.at[keys[0]] if keys else self.tables
        where = keys[0] if keys else None, min(action, len(tables) - 1), state
        if where not in self.rows:
            self.rows[where] = distribution(tables[where[1]][state])
        return self.rows[where]


class Channel:
    """A secret and the observer who wants it; `receives`: the channel whose sequence of observations that is."""

    def __init__(self, fields, record, own, bounds):
        self.number, (self.name, self.min, self.max) = len(record.channels), bounds
        new, begin = fields.optional("pair: apart"), fields.place
        self.observer = Observer(fields, record.states, record.actions)
        self.bytes = fields.content[begin : fields.place]
        same = own is not None and self.bytes == own.bytes and not new
        self.receives = 0 if own is None or same else self.number
        self.observer = own.observer if same else self.observer
        self.time, self.values = fields.next("secret: time"), len(fields.next("secret: values"))
        self.label, self.start = fields.next("secret: label"), fields.next("secret: memory at the start")
        self.step, _ = fields.next("secret: memory after a step"), fields.next("secret: memories")
        self.weights = fields.next("secret: weights") or [1.0]
        self.known, self.path = fields.next("secret: agent knows"), fields.optional("secret: path")
        require(not fields.follows("secret: at each time"), "a secret with a value at every time", NotChecked)
        self.believes = own is not None and fields.follows("belief: doubt")
        while self.believes and fields.place < len(fields.content) and not fields.follows("pair"):
            fields.next(None)
        self.memories = len(self.step)
        flat = [m for row in [self.start, *self.step] for m in row]
        require(all(0 <= m < self.memories for m in flat), "a secret remembers what does not exist")
        values = [z for table in self.label for row in table for z in row]
        require(all(-1 <= z < self.values for z in values), "a secret has a value that does not exist")


class Record:
    """The problem in `problem.bin`: models, channels, and the quantities (name, sign, bound, rewards, terminal, discount)."""

    def __init__(self, content):
        fields, self.digest = Fields(content), hashlib.sha256(content).hexdigest()
        require(fields.next("form") == [PROBLEM_FORM], "problem.bin has an unknown form", NotChecked)
        self.models = [self.read_model(fields) for _ in range(fields.next("models"))]
        self.channels = []
        self.channels.append(Channel(fields, self, None, ("own", None, None)))
        own, self.horizon = self.channels[0], fields.next("horizon")
        bound, over, sees = (fields.next(tag) for tag in ("min return", "return over", "agent sees observations"))
        require(sees < 2, "the agent does not see its state", NotChecked)
        require(0 <= self.horizon <= MOST_STEPS, "the horizon is too long", NotChecked)
        self.endless = over == ["infinite"]
        terminal = [[model["last"]] * own.memories for model in self.models]
        rewards = [model["rewards"] for model in self.models]
        self.quantities = [("return", 1, bound, rewards, terminal, self.models[0]["discount"])]
        for _ in range(fields.optional("constraints") or 0):
            (name,), sign = fields.next("constraint"), fields.next("constraint: sign")
            tags = ("bound", "rewards", "terminal rewards", "discount")
            self.quantities.append((name, sign, *(fields.next(f"constraint: {tag}") for tag in tags)))
        while fields.place < len(content):
            (name,), *limits = (fields.next(tag) for tag in ("pair", "pair: min", "pair: max"))
            require(name not in [one.name for one in self.channels], "problem.bin has two channels of one name")
            self.channels.append(Channel(fields, self, own, (name, *limits)))
        known = [set(row) for row in own.known]
        self.blind = any(
            one & two for place, one in enumerate(known) for two in known[:place]
        )  # to the model that runs

    def read_model(self, fields):
        self.states, self.actions = len(fields.next("states")), len(fields.next("actions"))
        available, transitions = fields.next("available"), []
        for action in range(self.actions):
            shape, ends, columns, values = (
                fields.next(f"transitions: {tag}") for tag in ("shape", "row ends", "columns", "values")
            )
            inside = all(0 <= column < self.states for column in columns)
            require(
                shape == [self.states] * 2 and len(ends) == self.states + 1 and inside,
                "transitions are of another size",
            )
            rows = []
            for state, (begin, end) in enumerate(pairwise(ends)):
                require(len(set(columns[begin:end])) == end - begin >= 0, "a transition comes twice")
                possible = available[state][action]
                require(bool(possible) == (end > begin), "an action that is not available leads somewhere")
                rows.append(distribution(values[begin:end], columns[begin:end]) if possible else [])
            transitions.append(rows)
        rewards, last, initial = (fields.next(tag) for tag in ("rewards", "terminal rewards", "initial"))
        fits = len(rewards) == len(last) == len(initial) == self.states
        require(fits and all(len(row) == self.actions for row in rewards), "rewards are of another size")
        return {
            "moves": transitions,
            "rewards": rewards,
            "last": last,
            "initial": initial,
            "discount": fields.next("discount"),
        }


class Setting:
    """Some channels of a problem. A hidden state is x = (k, (own memory, that of each asked channel), s), an event a tuple of
    what each observer receives, independently given x. Late, a move shows what it leaves. `heard`: what a policy acts on."""

    def __init__(self, record, asked=(0,), heard=(), delay=0):
        self.record, self.asked, self.delay, self.horizon = record, asked, delay, record.horizon
        own, self.secrets = record.channels[0], [record.channels[n] for n in asked]
        held = [record.channels[n] for n in heard]
        self.sequences = list(dict.fromkeys(one.receives for one in [*self.secrets, *held]))
        self.observers = [record.channels[n].observer for n in self.sequences]
        self.place = {one.number: self.sequences.index(one.receives) for one in [*self.secrets, *held]}
        self.automata = [own, *self.secrets]
        self.untimed = any(one.observer.untimed for one in self.secrets)
        self.check_together(own)
        path = self.secrets[0].path
        self.path = path and (lambda x: path[x[2]])
        self.most = max(log2_count(one.values) for one in self.secrets)
        if path:
            self.most = log2_count((max(path) + 1) ** (self.horizon + 1))
        self.varies = any(one.varies for one in self.observers)
        self.leaving = cache(self.moves_of)
        self.starts = self.first()
        self.tells = bool(path) and self.path_tells()

    def check_together(self, own):
        require(
            not any(one.believes for one in self.secrets), "an observer with a belief has a loss, which is no entropy"
        )
        several = len(self.asked) > 1 or len(self.sequences) > 1
        require(not (several and any(one.path for one in self.secrets)), "several channels, and a whole path")
        clockless = len({one.receives for one in self.secrets}) > 1 and self.untimed
        require(not clockless, "several observers, of which one has no clock")
        alike = all(one.weights == own.weights for one in self.secrets)
        require(len(self.record.models) == 1 or alike, "a secret gives the models other weights than the problem's own")
        if self.delay:
            one = own.observer
            alone = not (one.by_action or one.sees_actions or one.varies or one.at or own.path)
            require(self.asked == (0,) and alone, "a bound with a delay is not about such a problem")

    def seen(self, time, state, action):
        """What the observers receive of a state: pairs (event, probability)."""
        rows = []
        for one in self.observers:
            if time == 0 and (self.delay or not one.sees_first):
                rows.append([(0, Fraction(1))])
                continue
            more = action * one.size if one.sees_actions and time else 0
            rows.append([(event + more, part) for event, part in one.row(time, self.horizon, state, action)])
        return [(tuple(event for event, _ in row), math.prod(part for _, part in row)) for row in product(*rows)]

    def first(self):
        weights, starts = dict(distribution(self.secrets[0].weights)), []
        for k, model in enumerate(self.record.models):
            for s, chance in distribution(model["initial"]) if k in weights else ():
                x = k, tuple(one.start[s] for one in self.automata), s
                starts += [(x, event, weights[k] * chance * part) for event, part in self.seen(0, s, 0)]
        return starts

    def moves(self, time, x):
        """The moves of each action that arrive at a time: (x', event, probability)."""
        return self.leaving(time if self.varies or not time else 1, x)

    def moves_of(self, time, x):
        (k, held, s), found = x, []
        for action, rows in enumerate(self.record.models[k]["moves"]):
            found.append([])
            for after, chance in rows[s]:
                y = k, tuple(one.step[m][after] for one, m in zip(self.automata, held, strict=True)), after
                shown = self.seen(time, s if self.delay else after, action)
                found[-1] += [(y, event, chance * part) for event, part in shown]
        return found

    def settled(self, time, x, before):
        """The value of each secret, 0 before its time."""
        (k, held, s), found = x, []
        for place, one in enumerate(self.secrets):
            value = before[place] if before else 0
            if time == one.time:
                value = one.label[k if len(one.label) > 1 else 0][held[place + 1]][s]
                require(value >= 0, "a secret has no value in a state that can occur")
            found.append(value)
        return tuple(found)

    def code(self, x):
        """What a rule for a path tells apart: the hidden state where path and events tell it, else what the path shows."""
        one, (k, held, s) = self.secrets[0], x
        return (k * one.memories + held[1]) * self.record.states + s if self.tells else self.path(x)

    def path_tells(self):
        """Whether path and events tell the first x, and every next one where x is known, of those that can be reached."""
        layers, known, steps = [{x for x, _, _ in self.starts}], {}, []
        for time in range(1, self.horizon + 1):
            layers.append({y for x in layers[-1] for taken in self.moves(time, x) for y, _, _ in taken})
        every = set().union(*layers)
        times = range(1, self.horizon + 1) if self.varies else range(1, min(2, self.horizon + 1))
        for time in times:
            for x in layers[time - 1] if self.varies else every:
                taken = [move for row in self.moves(time, x) for move in row]
                steps += [((time, x), y, event) for y, event, _ in taken if self.varies or y in every]
        steps += [(None, x, event) for x, event, _ in self.starts]
        return all(known.setdefault((x, event, self.path(y)), y) == y for x, y, event in steps)


class Quantity:
    """`sign · bound ≤ E[Σ d^t rewards + d^T terminal]`, where rewards and terminal carry the sign."""

    def __init__(self, name, sign, bound, rewards, terminal, discount):
        self.name, self.sign, self.bound, self.discount = name, sign, bound, Fraction(discount)
        self.rewards = [[[sign * Fraction(one) for one in row] for row in table] for table in rewards]
        self.terminal = [[[sign * Fraction(one) for one in row] for row in table] for table in terminal]
        self.largest = max(abs(one) for table in self.rewards for row in table for one in row)
        self.last = max(abs(one) for table in self.terminal for row in table for one in row)

    def paid(self, x, action):
        return self.rewards[x[0]][x[2]][action]

    def at_the_end(self, x):
        return self.terminal[x[0]][x[1][0]][x[2]]

    def most(self, horizon):
        """The largest sum over a run, whatever the signs."""
        return self.largest * sum(self.discount**t for t in range(horizon)) + self.last


# The policy


class Policy:
    """A policy by its file; its hash is that of its kind and all numbers in 64 bits. With a memory, `register` (of the
    certificate) says what it remembers; a history policy acts on what the observers of the channels `sees` receive."""

    def __init__(self, path, register):
        metadata, arrays = read_safetensors(path)
        form, kind, *head = metadata["veil"].split(" ", 2)
        require(form == POLICY_FORM, "policy.safetensors is not a policy")
        numbers, shape, flat = arrays["probabilities"]
        self.register, self.history, self.views, self.told_at, self.sees = register, kind == "history", None, None, []
        if self.history:
            kind, arrays = self.read_history(parse(head[0].encode()), bytes(flat))
        else:
            require(kind in ("markov", "timed", "memory"), f"the policy is of the kind {kind!r}", NotChecked)
            timed = kind == "timed" or (kind == "memory" and '"clock":true' in head[0])
            arrays = [("f", shape if timed else [1, *shape], flat)]
            self.stationary, self.table = not timed, nested(*arrays[0][1:])
            self.remembers = kind == "memory"
            kind = ("timed" if timed else "markov") + (f", memory {head[0]}" if self.remembers else "")
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
        self.stationary, self.remembers = False, bool(self.sees)
        self.first, *parts = [nested(shape, flat) for _, shape, flat in arrays]
        self.following, rows, rest = parts[:horizon], parts[horizon : 5 * horizon], parts[5 * horizon :]
        self.table = []
        for *keys, chances in [rows[4 * time : 4 * time + 4] for time in range(horizon)]:
            keys = list(zip(*keys, strict=True))
            require(all(a < b for a, b in pairwise(keys)), "policy: its rows do not increase")
            self.table.append(dict(zip(keys, chances, strict=True)))
        self.told, views = rest[: self.told_at is not None], rest[self.told_at is not None :]
        fits = place == len(content) and len(views) == 2 * len(self.sees)
        require(fits, "policy: its arrays do not fit")
        if self.sees:
            later = [any(row[e] >= 0 for t in self.following for row in t) for e in range(len(views[1]))]
            possible = [node >= 0 for node in self.first], later
            self.views = [
                {seen: n for n, seen in enumerate(zip(*views[i::2], strict=True)) if possible[i][n]} for i in (0, 1)
            ]
        kind = f"history, executable {head['executable']}, told at {self.told_at}"
        return kind + (f", sees {json.dumps(self.sees)}" if "sees" in head else ""), arrays

    def hears(self, record):
        """The numbers of the channels whose observations it acts on."""
        if self.history:
            names = [one.name for one in record.channels]
            require(set(self.sees) <= set(names), "policy: it acts on what a channel sees that does not exist")
            return tuple(names.index(name) for name in self.sees) or (0,)
        held = self.register
        require(held is not None or not self.remembers, "policy: what it remembers is not told")
        return (0,) if self.remembers and (len(held["start"][0]) > 1 or len(held["step"][0][0][0]) > 1) else ()

    def within(self, setting):
        """The policy in a setting: a function for what it remembers, and one for its choices (choice, action, share)."""
        record = setting.record
        require(self.stationary or len(self.table) == record.horizon, "policy: it is not one of so many steps")
        return HistoryAgent(self, setting) if self.history else TableAgent(self, setting)


class TableAgent:
    def __init__(self, policy, setting):
        self.policy, self.setting, self.held = policy, setting, policy.register if policy.remembers else None
        record, self.nodes = setting.record, 1
        known = record.channels[0].known
        rows = (max(max(row) for row in known) + 1) * record.states
        if self.held:
            self.nodes, size = whole(self.held["nodes"], "policy: its nodes", 1), len(self.held["step"])
            require(self.nodes in (1, size), "policy: its nodes are not what it remembers")
            require(all(a < b for a, b in pairwise(self.held["codes"])), "policy: its rows do not increase")
            self.rows, rows = {code: n for n, code in enumerate(self.held["codes"])}, len(self.held["codes"])
        width = {len(row) for table in policy.table for row in table}
        sizes = {len(table) for table in policy.table} <= {rows} and width <= {record.actions * self.nodes}
        require(sizes, "policy: its table is of another size")
        self.place = setting.place.get(0)

    def after(self, time, before, x, y, events):
        if not self.held:
            return 0
        event = 0 if self.place is None else events[self.place]
        if not time:
            first = self.setting.observers[self.place].sees_first if self.place is not None else True
            index, table = [y[2], event + 1 if first else 0], self.held["start"]
        else:
            index, table = [before, x[2], y[2], event], self.held["step"]
        for place, number in enumerate(index):
            always = time and place == 0
            table = table[number if always or len(table) > 1 else 0]
        require(0 <= table < len(self.held["step"]), "policy: it does not say what it remembers")
        return table

    def choices(self, time, memory, x, z):
        k, held, s = x
        record, policy = self.setting.record, self.policy
        cell = record.channels[0].known[k][held[0]] * record.states + s
        if self.held:
            cell = self.rows.get(cell * len(self.held["step"]) + memory)
            require(cell is not None, "policy: it has no row for something that it reaches")
        shares = distribution(policy.table[0 if policy.stationary else time][cell])
        return [(divmod(choice, self.nodes), share) for choice, share in shares]


class HistoryAgent:
    """What it remembers is (node, memory of its situations, value that it acts on, -1 before)."""

    nodes = 1

    def __init__(self, policy, setting):
        self.policy, self.setting, record = policy, setting, setting.record
        own, held = record.channels[0], policy.register
        self.start, self.step, self.label, self.time = own.start, own.step, own.label, own.time
        if policy.sees:
            require(held is not None, "policy: what its situations remember is not told")
            self.start, self.label = [row[0] for row in held["start"]], held["label"]
            self.step = [[cell[0] for cell in row[0]] for row in held["step"]]
            self.time = whole(held["time"], "policy: its time")
        names = [one.name for one in record.channels]
        self.places = [setting.place[names.index(name)] for name in policy.sees or ["own"]]

    def after(self, time, before, x, y, events):
        policy, seen = self.policy, tuple(events[place] for place in self.places)
        event = policy.views[time > 0].get(seen, -1) if policy.views else seen[0]
        require(event >= 0, "policy: it does not know an event that it reaches")
        node, m, value = before or (0, 0, -1)
        node = policy.following[time - 1][node][event] if time else policy.first[event]
        m = self.step[m][y[2]] if time else self.start[y[2]]
        if time == self.time:
            value = self.label[y[0] if len(self.label) > 1 else 0][m][y[2]]
        if time == policy.told_at and node >= 0:
            node = policy.told[0][node][self.situation(m, y)]
        require(node >= 0, "policy: it has no node for something that it reaches")
        return node, m, value

    def situation(self, m, x):
        return (x[0] * len(self.step) + m) * self.setting.record.states + x[2]

    def choices(self, time, memory, x, z):
        node, m, value = memory
        row = self.policy.table[time].get((node, self.situation(m, x), value))
        require(row is not None, "policy: it has no row for something that it reaches")
        return [((action, 0), share) for action, share in distribution(row)]


def steps(setting, agent, time, memory, x, z):
    """The moves of a policy from (memory, x, z): (memory', x', z', events, action, probability)."""
    rows = setting.moves(time + 1, x)
    for (action, node), share in agent.choices(time, memory, x, z):
        require(rows[action], "policy: an action is not available")
        for y, events, chance in rows[action]:
            after = node if agent.nodes > 1 else agent.after(time + 1, memory, x, y, events)
            yield after, y, setting.settled(time + 1, y, z), events, action, share * chance


def begun(setting, agent):
    for x, events, chance in setting.starts:
        yield agent.after(0, None, None, x, events), x, setting.settled(0, x, ()), events, chance


# What the policy hides and earns


def follow(setting, agent):
    """Bounds on what the policy hides from the observer of the first channel, by its histories h, from weights that are rounded
    down. Of a path that tells every W = (memory, x) it is H(W_T | h_T) + Σ_t H(W_t | W_{t+1}, h_{t+1}); of another path z
    is all so far. Where less than ℓ = 2^-130 is lost, it and the logarithms lower the sum by at most
    h(ℓ) + ℓ log2|Z| + 2^-90 < 2^-60."""
    place, tells = setting.place[setting.asked[0]], setting.tells and agent.nodes == 1
    path = setting.path and not tells  # a memory that is drawn does not follow from path and events
    layer, joint, found, size = Counter(), Counter(), 0, setting.observers[0].events + 1
    size = max([size, *(one.events + 1 for one in setting.observers)])
    for memory, x, z, events, chance in begun(setting, agent):
        layer[events[place], memory, x, (setting.path(x),) if path else z] += math.floor(chance * ONE)
    for time in range(setting.horizon):
        before, layer, arrived = layer, Counter(), Counter()
        for (history, memory, x, z), mass in before.items():
            for after, y, value, events, _, chance in steps(setting, agent, time, memory, x, () if path else z):
                there = history * size + events[place], after, y
                moved = mass * chance.numerator // chance.denominator
                layer[*there, (*z, setting.path(y)) if path else value] += moved
                if tells:
                    arrived[there, (memory, x)] += moved
        found += entropy(arrived)
        require(len(layer) <= MOST_ENTRIES, "the policy has too many histories for this program", NotChecked)
    for (history, memory, x, z), mass in layer.items():
        joint[history, (memory, x) if tells else z if path else z[0]] += mass
    require(ONE - sum(joint.values()) < ONE >> 130, "the policy has histories that are too improbable", NotChecked)
    found += entropy(joint)
    return found, setting.most if setting.untimed else min(found + (ONE >> 60), setting.most)


def backward(setting, priced, ahead, charged, choices, last=None, together=False):
    """What a policy is worth, rounded up: what the prices pay and what is charged; where choices have no shares, the best.
    Where `together`, the best first action in a state is one for all models. `last`: what x earns at the end, of each price."""
    last = last or [one.at_the_end for _, one in priced]

    @cache
    def value(time, node, x, z):
        if time == setting.horizon:
            ends = [(node, Fraction(1))]
            if setting.delay:
                ends = [
                    (ahead(time + 1, node, event, None, x), part) for event, part in setting.seen(time or 1, x[2], 0)
                ]
            pays = sum(price * one.discount**time * earns(x) for (price, one), earns in zip(priced, last, strict=True))
            return math.ceil(ONE * pays + sum(part * charged(-1, end, x, z) for end, part in ends))
        scores = actions(time, node, x, z)
        return (
            math.ceil(sum(share * score for _, share, score in scores))
            if scores[0][1]
            else max(one[2] for one in scores)
        )

    def actions(time, node, x, z):
        """Each choice that is made or can be, with its share, and what it is worth."""
        scores, rows = [], setting.moves(time + 1, x)
        for (action, chosen), share in choices(time, node, x, z):
            score = ONE * sum(price * one.discount**time * one.paid(x, action) for price, one in priced)
            for y, event, chance in rows[action]:
                there = ahead(time + 1, node, event, x, y) if chosen is None else chosen
                after = value(time + 1, there, y, setting.settled(time + 1, y, z))
                score += chance * (after + (charged(time, there, y, x) if setting.path else 0))
            scores += [(action, share, math.ceil(score))] if rows[action] else []
        return scores

    starts = [(ahead(0, None, event, None, x), x, mass) for x, event, mass in setting.starts]
    if not (together and setting.horizon):
        return math.ceil(sum(mass * value(0, node, x, setting.settled(0, x, ())) for node, x, mass in starts))
    pooled = defaultdict(int)
    for node, x, mass in starts:
        for action, _, score in actions(0, node, x, setting.settled(0, x, ())):
            pooled[x[2], action] += mass * score
    return math.ceil(sum(max(v for (s, _), v in pooled.items() if s == state) for state in {s for s, _ in pooled}))


def any_action(setting):
    """The choices of all policies: every action that is available."""
    return lambda _time, _node, _x, _z: [((action, None), 0) for action in range(setting.record.actions)]


def earned(setting, agent, quantity):
    """Bounds on `sign` times a quantity under a policy, in units of 2^-192; over an infinite horizon see `endless`."""
    ends = []
    for sign in (1, -1):
        ends.append(sign * backward(setting, [(sign, quantity)], following(agent), lambda *_: 0, chosen(agent)))
    return min(ends), max(ends)


def chosen(agent):
    """The choices of a policy, whose next memory is part of a choice where it has nodes."""

    def choices(time, memory, x, z):
        return [
            ((action, node if agent.nodes > 1 else None), share)
            for (action, node), share in agent.choices(time, memory, x, z)
        ]

    return choices


def following(agent):
    """What a policy remembers, as the graph of an observer."""
    return lambda time, memory, events, x, y: agent.after(time, memory, x, y, events)


def endless(setting, agent, quantity, values):
    """The same for the return over an infinite horizon: of a policy that acts alike at all times until the rest is small, of
    another one with `values` of what an optimal continuation earns, and their error."""
    horizon, discount = setting.horizon, quantity.discount
    require(discount < 1, "the return over an infinite horizon has no discount")
    if agent.policy.stationary:
        law, total, time = Counter(), [0, 0], 0
        for memory, x, z, _, chance in begun(setting, agent):
            law[memory, x, z] += chance
        while discount**time * quantity.largest / (1 - discount) > Fraction(1, 10**14) * (1 + quantity.largest):
            before, law, time = law, Counter(), time + 1
            require(time <= MOST_STEPS and len(before) < 2000, "the discount is too close to one", NotChecked)
            for (memory, x, z), mass in before.items():
                for after, y, value, _, action, chance in steps(setting, agent, min(time - 1, horizon), memory, x, z):
                    moved = Fraction(math.floor(mass * chance * ONE), ONE)
                    total[0] += mass * chance * discount ** (time - 1) * quantity.paid(x, action)
                    law[after, y, value] += moved
        rest = (
            discount**time * quantity.largest / (1 - discount)
            + Fraction(time * len(before) + 1, 1 << 120) * quantity.largest
        )
        return math.floor((total[0] - rest) * ONE), math.ceil((total[0] + rest) * ONE)
    require(not setting.record.blind, "policy: after the horizon its agent cannot know the model")
    worth, error = continuation(setting, quantity, values)
    ends = []
    for sign in (1, -1):
        last = [lambda x, sign=sign: worth(x) + sign * error]
        ends.append(sign * backward(setting, [(sign, quantity)], following(agent), lambda *_: 0, chosen(agent), last))
    return min(ends), max(ends)


def continuation(setting, quantity, values):
    """What is earned after the horizon by the best continuation, as claimed, and a bound on its error."""
    record, worst = setting.record, Fraction(0)
    exact = [[number(one, "values") for one in row] for row in values]
    require(
        len(exact) == len(record.models) and {len(row) for row in exact} == {record.states}, "values: of another size"
    )
    for k, model in enumerate(record.models):
        for s in range(record.states):
            rows = [(a, rows[s]) for a, rows in enumerate(model["moves"]) if rows[s]]
            best = max(
                quantity.rewards[k][s][a] + quantity.discount * sum(p * exact[k][after] for after, p in row)
                for a, row in rows
            )
            worst = max(worst, abs(best - exact[k][s]))
    return lambda x: exact[x[0]][x[2]], worst / (1 - quantity.discount)


def check_percentage(setting, quantity, claimed):
    """A percentage is a share of what policies can reach, within 1e-9 of it and the rounding of floats."""
    bound, share = number(claimed, f"{quantity.name}: its bound"), Fraction(quantity.bound[0].removesuffix("%")) / 100
    require(0 <= share <= 1, f"{quantity.name}: its bound is no percentage")
    ends, together = [], setting.record.blind and quantity.name == "return" and quantity.sign > 0
    require(not setting.record.endless or quantity.name != "return", "a percentage of an infinite return", NotChecked)
    for sign in (1, -1):
        worth = backward(setting, [(sign, quantity)], lambda *_: 0, lambda *_: 0, any_action(setting), None, together)
        ends.append(quantity.sign * Fraction(sign * worth, ONE))
    low, high = min(ends), max(ends)
    rounding = (setting.horizon + 2) * quantity.most(setting.horizon) * Fraction(1, 1 << 40) + (high - low) / 10**9
    found = low + share * (high - low)
    require(abs(bound - found) <= rounding, f"{quantity.name}: {quantity.bound[0]} is {float(found)}, not {claimed}")


def check_value(setting, agent, claim, quantity, values):
    """A quantity has the value that is claimed, within an error of rounding, and meets its bound or not as claimed."""
    name, value, error = quantity.name, number(claim["value"], "a value"), number(claim["error"], "an error")
    infinite = setting.record.endless and name == "return"
    least, most = endless(setting, agent, quantity, values) if infinite else earned(setting, agent, quantity)
    largest = (setting.horizon + 2) * quantity.most(setting.horizon) / (1 << 24) + Fraction(1, 1 << 800)
    largest /= (1 - quantity.discount) if infinite else 1
    require(0 <= error <= largest, f"{name}: an error of {claim['error']} is claimed, {float(largest)} is the most")
    where = f"{name}: {claim['value']} is claimed, {quantity.sign * least / ONE} ± {(most - least) / ONE} is found"
    signed = value * quantity.sign * ONE
    require(max(most - signed, signed - least) <= error * ONE, where)
    if claim["bound"] is None:
        return
    limit = quantity.sign * number(claim["bound"], "a bound") * ONE
    if claim["met"] and least < limit:
        require(most >= limit, f"{claim['bound']} is to be met; {where}")
        raise NotChecked(f"within rounding of the bound {claim['bound']}; {where}")


# Upper bounds


def check_upper(record, claim, bound, arrays, under, kept):
    """The upper bound that rules of observers prove: those of channels in `kept` have lower bounds, the others are hidden.
    The last
    rule of each has the costs −log2 q(z | node) by (node, 0, z). A path has one for each time, −log2 q(x_t | x_{t+1}, m) by
    (m, x_{t+1}, x_t), m the node at t + 1. With a delay a decision is made before the event of its state."""
    rules, delay, upper = bound["rules"], whole(bound["delay"], "delay", 0, 1), number(bound["upper"], "an upper bound")
    channels = tuple(whole(one["channel"], "a channel", 0, len(record.channels) - 1) for one in rules)
    require(rules and len({*channels}) == len(channels), "a rule is missing, or there are two for a channel")
    require(
        {*channels} <= {*claim["hidden"], *kept}, "a rule is for a channel that is neither hidden nor has a lower bound"
    )
    setting, prices = Setting(record, channels, (), delay), [number(price, "a price") for price in bound["prices"]]
    quantities = [Quantity(*one) for one in record.quantities]
    require(len(prices) == len(quantities) and min(prices) >= 0, "the prices are not one for each quantity")
    graphs = [read_graph(setting, one, n, arrays, under) for n, one in enumerate(rules)]
    weights = [number(one["weight"], "a weight") for one in rules]
    hidden = sum(weight for weight, channel in zip(weights, channels, strict=True) if channel in claim["hidden"])
    require(
        hidden >= 1 and min(weights) > 0 and (len(rules) > 1 or hidden == 1), "the weights are not those of a bound"
    )
    limit = sum(weight * kept.get(channel, 0) for weight, channel in zip(weights, channels, strict=True))
    for price, quantity, one in zip(prices, quantities, claim["quantities"], strict=True):
        require(price == 0 or one["bound"] is not None, "there is a price, and no bound for it")
        limit += price * quantity.sign * number(one["bound"] or 0, "a bound")

    def ahead(time, nodes, event, _x, _y):
        found = []
        for place, (graph, channel) in enumerate(zip(graphs, channels, strict=True)):
            table = graph["tables"][time]
            found.append(table[nodes[place] if nodes else 0][event[setting.place[channel]]])
        require(min(found) >= 0, "a rule's graph ends before the horizon does")
        return tuple(found)

    def charged(time, nodes, x, z):
        total = Fraction(0)
        for place, (graph, weight) in enumerate(zip(graphs, weights, strict=True)):
            first = setting.code(x) if time >= 0 else 0
            last = (setting.code(z) if time >= 0 else setting.code(x)) if setting.path else z[place]
            cost = graph["costs"][time].get((nodes[place], first, last), math.inf)
            require(cost != math.inf, "a rule excludes something that a policy can reach")
            total += Fraction(cost) * weight
        return ONE * total

    last = None
    if record.endless:
        worth, error = continuation(setting, quantities[0], arrays.get("values", []))
        last = [lambda x: worth(x) + error, *(one.at_the_end for one in quantities[1:])]
    priced = list(zip(prices, quantities, strict=True))
    best = backward(setting, priced, ahead, charged, any_action(setting), last) - math.floor(ONE * limit)
    most = (
        min(log2_count(record.channels[n].values) for n in channels if n in claim["hidden"])
        if len(channels) > 1
        else setting.most
    )
    found = min(best, most)
    require(found <= upper * ONE, f"an upper bound of {bound['upper']} with delay {delay}: {found / ONE} is found")
    return found


def read_graph(setting, rule, number_of, arrays, under):
    """The graph of an observer and its rule, each row of which is one of probabilities."""
    require({*rule} == {"channel", "weight", "memory", "steps"}, "a rule has other fields")
    own = f"{under}rules.{number_of}."
    observer = setting.record.channels[rule["channel"]].observer
    first = arrays[own + "first"]
    require(len(first) == (observer.size if observer.sees_first else 1), "a rule's graph is of another size")
    start = [[first[0]] * observer.events if setting.delay and not observer.sees_first else first]
    tables = [start, *(arrays[f"{own}following.{whole(n, 'a step')}"] for n in rule["steps"])]
    require(len(tables) == setting.horizon + 1, "a rule's graph does not have one table for each step")
    if setting.path:
        costs = []
        for time in range(setting.horizon + 1):
            keys, bits = arrays[f"{own}path_keys.{time}"], arrays[f"{own}path_costs.{time}"]
            costs.append(dict(zip(map(tuple, keys), bits, strict=True)))
            require(len(costs[-1]) == len(keys), "a rule for paths has a key twice")
    else:
        costs = [{(node, 0, z): cost for node, row in enumerate(arrays[own + "costs"]) for z, cost in enumerate(row)}]
    for part in costs:
        for _, row in groupby(sorted(part.items()), lambda entry: entry[0][:2]):
            bits = [cost for _, cost in row]
            total = sum(Fraction(PRECISE.power(2, Decimal(-cost))) for cost in bits if cost != math.inf)
            require(min(bits) >= 0 and total * (1 + Fraction(1, 10**50)) <= 1, "a node's probabilities exceed one")
    if observer.untimed:
        require(holds_strings(observer, tables) and not setting.path, "a rule of an observer without a clock needs one")
    return {"tables": [[[0]], *tables] if setting.delay else tables, "costs": costs}


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
                if target >= 0 and after.setdefault(target, (*string, event) if loud else string) != (
                    (*string, event) if loud else string
                ):
                    return False
        layer = after
    return len(set(layer.values())) == len(layer)


# Statistical claims


class Draws:
    """The draws of this program: `doubt` is what is left of 1 by the confidence, `source` the randomness."""

    def __init__(self, confidence=1 - 1e-6, sequences=None, seed=None):
        require(0 < confidence < 1, "the confidence is not between 0 and 1", NotChecked)
        self.doubt, self.sequences = 1 - confidence, sequences
        self.source = random.SystemRandom() if seed is None else random.Random(seed)

    def bear_out(self, draw, low, high, sequences, claims, error, within):
        """Draw until an interval for the mean lies within what is claimed; each round has its own share of the doubt."""
        sums, count, rounds, target = [0.0, 0.0], 0, 0, min(512, self.sequences or sequences)
        while target <= 16 * (self.sequences or sequences) + 1:
            while count < target:
                value = draw() - low
                sums, count = [sums[0] + value, sums[1] + value * value], count + 1
            rounds += 1
            logarithm = math.log(4 * claims * 2**rounds / self.doubt)
            mean, variance = sums[0] / count, max(0.0, (sums[1] - sums[0] ** 2 / count) / (count - 1))
            off = math.sqrt(2 * variance * logarithm / count) + 7 * (high - low) * logarithm / (3 * (count - 1))
            off = 1.0001 * (off + error) + 1e-9 * (high - low)
            found = max(low, low + mean - off), min(high, low + mean + off)
            if within(*found):
                return found, count
            target = (
                min(2 * target, 16 * (self.sequences or sequences))
                if count < 16 * (self.sequences or sequences)
                else math.inf
            )
        raise Lie(f"claimed with confidence, and {found[0]} … {found[1]} is found in {count:,} sequences")


class Sampler:
    """Runs of a policy, and the entropy that the sequence of each leaves, by a filter in floats along it."""

    def __init__(self, setting, agent, source):
        self.setting, self.agent, self.source, self.place = setting, agent, source, setting.place[setting.asked[0]]
        self.kernel = cache(self.moves)
        self.begin = [((m, x, z), events[self.place], float(p)) for m, x, z, events, p in begun(setting, agent)]

    def moves(self, time, entry):
        """The moves from an entry: lists to draw from, and by event for the filter."""
        targets, events, actions, ends, by_event, total = [], [], [], [], defaultdict(list), 0.0
        for after, y, value, seen, action, chance in steps(self.setting, self.agent, time, *entry):
            weight = float(chance)
            total += weight
            targets.append((after, y, value))
            events.append(seen[self.place])
            actions.append(action)
            ends.append(total)
            by_event[seen[self.place]].append(((after, y, value), weight))
        return targets, events, actions, ends, dict(by_event)

    def run(self):
        """The entries that are passed, the observer's events, and the actions."""
        weights = [weight for _, _, weight in self.begin]
        ((entry, event, _),) = self.source.choices(self.begin, weights)
        entries, events, actions = [entry], [event], []
        for time in range(self.setting.horizon):
            targets, seen, taken, ends, _ = self.kernel(time, entries[-1])
            (place,) = self.source.choices(range(len(targets)), cum_weights=ends)
            entries.append(targets[place])
            events.append(seen[place])
            actions.append(taken[place])
        return entries, events, actions

    def bits(self):
        """The entropy of the secret after one sequence; of a path by that of each hidden state given the next."""
        _, events, _ = self.run()
        message, spent = defaultdict(float), defaultdict(float)
        for entry, event, weight in self.begin:
            if event == events[0]:
                message[entry] += weight
        for time, event in enumerate(events[1:]):
            message, spent = self.filtered(time, message, spent, event)
        total, values = sum(message.values()), defaultdict(float)
        if self.setting.path:
            return sum(p / total * (spent[entry] - math.log2(p / total)) for entry, p in message.items() if p)
        for (_, _, z), weight in message.items():
            values[z[0]] += weight / total
        return -sum(p * math.log2(p) for p in values.values() if p > 0)

    def filtered(self, time, message, spent, event):
        scale, after, paths, path = sum(message.values()), defaultdict(float), defaultdict(float), self.setting.path
        for entry, weight in message.items():
            for target, chance in self.kernel(time, entry)[4].get(event, ()):
                moved = weight / scale * chance
                after[target] += moved
                if path and moved:
                    paths[target] += moved * (spent[entry] - math.log2(moved))
        if path:
            paths = defaultdict(float, {one: paths[one] / p + math.log2(p) for one, p in after.items() if p})
        return after, paths

    def paid(self, quantity):
        """What one run pays of a quantity, with its sign."""
        entries, _, actions = self.run()
        paid = sum(
            float(quantity.discount) ** t * float(quantity.paid(entries[t][1], a)) for t, a in enumerate(actions)
        )
        return paid + float(quantity.discount) ** self.setting.horizon * float(quantity.at_the_end(entries[-1][1]))


def check_drawn(setting, agent, channel, draws, claims):
    """A statistical claim on the bits of a channel."""
    told, sampler = channel["sampled"], Sampler(setting, agent, draws.source)
    require({*told} == {"lower", "upper", "sequences"}, f"{channel['name']}: what is drawn has other fields")
    require(not setting.path or (setting.tells and agent.nodes == 1), "a path with too many values", NotChecked)
    lower, upper = (number(told[end], f"{channel['name']}: {end}") for end in ("lower", "upper"))
    count, most = whole(told["sequences"], "sequences", 2, MOST_SEQUENCES), setting.most / ONE

    def within(low, high):
        return lower <= low and (most if setting.untimed else high) <= upper

    try:
        found, count = draws.bear_out(sampler.bits, 0.0, most, count, claims, 1e-9 * (1 + most), within)
    except Lie as error:
        raise Lie(f"{channel['name']}: {told['lower']} … {told['upper']} is {error}") from None
    return f"at least {found[0]:.6f} bits in {channel['name']} with confidence ({count:,} sequences)"


def check_drawn_value(setting, agent, claim, quantity, draws, claims):
    """A statistical claim on a quantity."""
    value, error = number(claim["value"], "a value"), number(claim["error"], "an error")
    sampler, most = Sampler(setting, agent, draws.source), float(quantity.most(setting.horizon)) * (1 + 1e-12)
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
    channels, names = (
        claim["channels"],
        {"number", "name", "min", "max", "lower", "upper", "window", "prune", "merge", "sampled"},
    )
    lists = ("hidden", "quantities", "channels", "bounds")
    require(all(isinstance(claim[name], list) for name in lists), "a list of the certificate is none")
    require(claim["goal"] in ("opaque", "transparent"), "the goal is an unknown one")
    hidden = [whole(one, "hidden", 0, len(record.channels) - 1) for one in claim["hidden"]]
    require(len({*hidden}) == len(hidden) > 0, "hidden: a channel comes twice, or there is none")
    wanted = [one.number for one in record.channels if one.number in (0, *hidden) or one.min or one.max is not None]
    told = [whole(one["number"], "a channel") for one in channels]
    require(told == wanted or (told == hidden == [0]), f"the channels are {told}, expected {wanted}")
    require(claim["goal"] == "opaque" or told == [0], "nothing is proven of other channels with this goal")
    for one in channels:
        asked = record.channels[one["number"]]
        require({*one} == names, f"{asked.name}: it has other fields")
        require(
            [one["name"], one["min"], one["max"]] == [asked.name, asked.min, asked.max],
            f"{asked.name}: its bounds are others",
        )
    fields = {"name", "relation", "bound", "value", "error", "met", "sequences"}
    require(len(claim["quantities"]) == len(record.quantities), "the quantities are not those of the problem")
    for one, (name, sign, bound, *_) in zip(claim["quantities"], record.quantities, strict=True):
        require({*one} == fields and isinstance(one["met"], bool), f"{name}: it has other fields")
        require((one["name"], one["relation"]) == (name, "≤≥"[sign > 0]), f"{name}: another quantity is claimed")
        given = isinstance(bound, list) or (type(one["bound"]) is type(bound) and one["bound"] == bound)
        require(given and (one["bound"] is not None or (bound is None and one["met"])), f"{name}: its bound is another")
    delays = [one["delay"] for one in claim["bounds"]]
    fits = delays in ([0], [0, 1]) if claim["goal"] == "opaque" else not delays
    require(
        fits and all({*one} == {"delay", "upper", "prices", "rules"} for one in claim["bounds"]),
        "the bounds are others",
    )
    require(len(delays) < 2 or 0 in hidden, "a bound with a delay is about the problem's own channel")


def check_quantities(record, policy, claim, arrays, draws, claims):
    """Every quantity of the certificate, and that percentages are what they say."""
    setting = Setting(record, (0,), policy.hears(record))
    agent, values = policy.within(setting), arrays.get("values", [])
    for one, given in zip(claim["quantities"], record.quantities, strict=True):
        quantity = Quantity(*given)
        if isinstance(given[2], list):
            check_percentage(Setting(record), quantity, one["bound"])
        if whole(one["sequences"], "sequences", 0, MOST_SEQUENCES):
            check_drawn_value(setting, agent, one, quantity, draws, claims)
        else:
            check_value(setting, agent, one, quantity, values)


def check_channels(record, policy, claim, draws, claims):
    """What the policy hides in each channel that is told of; returns the lower bounds that are found, and what was drawn."""
    lowers, drawn = {}, []
    for one in claim["channels"]:
        setting = Setting(record, (one["number"],), policy.hears(record))
        agent = policy.within(setting)
        lower, upper = (number(one[what], f"{one['name']}: {what}") for what in ("lower", "upper"))
        require(0 <= lower <= upper, f"{one['name']}: its bounds do not fit each other")
        lowers[one["number"]] = 0
        if lower > 0 or upper * ONE < setting.most:
            least, most = follow(setting, agent)
            within = lower * ONE <= least and most <= upper * ONE
            require(
                within,
                f"{one['name']}: {one['lower']} … {one['upper']} is claimed, {least / ONE} … {most / ONE} is found",
            )
            lowers[one["number"]] = least
        if one["sampled"] is not None:
            drawn.append(check_drawn(setting, agent, one, draws, claims))
    return lowers, drawn


def check(folder, draws=None):
    """Raise `Lie` unless everything that the certificate claims is so; returns the recomputed numbers in words."""
    claim, draws = parse(read(folder / "certificate.json")), draws or Draws()
    require(claim["form"] == FORM, "certificate.json has an unknown form", NotChecked)
    content, place = read(folder / "problem.bin"), folder / Path(claim["arrays"]).name
    require(hashlib.sha256(read(place)).hexdigest() == claim["arrays_sha256"], "the arrays are others")
    arrays = {name: nested(shape, flat) for name, (_, shape, flat) in read_safetensors(place)[1].items()}
    register = claim["register"]
    if register is not None:
        register = {**register, **{name: arrays[f"register.{name}"] for name in ("start", "step", "codes", "label")}}
    record, policy = Record(content), Policy(folder / "policy.safetensors", register)
    require(record.digest == claim["problem_hash"], "problem.bin is another problem")
    require(policy.digest.hexdigest() == claim["policy_hash"], "policy.safetensors is another policy")
    sys.setrecursionlimit(100_000)  # a few calls for each step
    check_form(claim, record)
    claims = sum(one["sampled"] is not None for one in claim["channels"])
    claims = max(1, claims + sum(whole(one["sequences"], "sequences") > 0 for one in claim["quantities"]))
    lowers, drawn = check_channels(record, policy, claim, draws, claims)
    check_quantities(record, policy, claim, arrays, draws, claims)
    channels = [one for one in claim["channels"] if one["number"] not in claim["hidden"] and one["min"]]
    kept = {one["number"]: number(one["min"], "a bound") for one in channels}
    require(
        len(claim["bounds"]) < 2 or not policy.hears(record),
        "a bound with a delay, and a policy that acts on observations",
    )
    found = [check_upper(record, claim, one, arrays, f"bounds.{n}.", kept) for n, one in enumerate(claim["bounds"])]
    lower = min(lowers[one] for one in claim["hidden"])
    bits = " and ".join([f"{lower / ONE:.9f}", *(f"{upper / ONE:.9f}" for upper in found)])
    return "; ".join(
        [f"the certificate holds: recomputed {bits} bits, return {claim['quantities'][0]['value']:.9g}", *drawn]
    )


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
