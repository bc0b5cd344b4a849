"""Check a result of veil with plain Python, without NumPy: python -m veil.verify_plain RESULT_FOLDER

This file needs nothing but Python and can be copied: python verify_plain.py RESULT_FOLDER. From `problem.bin`,
`policy.safetensors` and `certificate.json` with its arrays it recomputes every number that the certificate claims: what
the policy hides in each channel, every quantity, and the bounds over all policies. It does not read the words of a
certificate: it prints its own. Probabilities are whole numbers of 2^-160, rounded down, after each distribution was
divided by its sum. Statistical claims are checked with sequences drawn here.

Options: --confidence (of all statistical claims together, 1 - 1e-6 by default), --sequences (to draw for each at most),
--seed (to repeat the draws; by default they come from the randomness of the system).

Exit codes, as of `veil verify`: 0 the certificate holds, 5 it does not hold, 2 it could not be checked: a file is
missing or cannot be read, or this program would take too long.

How it works: a `Walk` reaches keys (memory, x, z): x is the hidden state, z has the values of secrets, and memory is
what a follower remembers: a policy (`TablePolicy`, `HistoryPolicy`), the observers of a bound (`Guesses`), or nobody.
Everything is one pass over keys: forward with the weights of each history (`hidden_bits`, `drawn_bits`), or backward
with the most that is paid (`most_paid`: quantities of a policy, upper bounds over all, ranges of percentages).
`Witness` goes backward over beliefs.
"""

# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportOptionalSubscript=false, reportOptionalIterable=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# Fields of any kind are read from files; types are checked where numbers are used.
# ruff: noqa: D102, D103

import gc
import hashlib
import json
import math
import os
import random
import stat
import struct
import sys
from collections import defaultdict, namedtuple
from fractions import Fraction
from functools import cache, cached_property, reduce
from itertools import accumulate, pairwise, product
from operator import iadd, mul
from pathlib import Path

BITS = 160
ONE = 1 << BITS  # probabilities and bits are whole numbers of 2^-160
MOST_ENTRIES = 4_000_000  # of a pass, about a gigabyte
MOST_AT_ONCE = 200_000  # weights of histories that are followed together
MOST_HISTORIES = 1 << 17  # that are kept apart at a time where others are merged
MOST_MOVES = 300_000_000  # of all histories of a channel: a few minutes
MOST_BYTES = 1 << 28  # of a file
MOST_STEPS = 2000  # of a horizon
MOST_SEQUENCES = 10_000_000
KINDS = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u1": "B"}
FORM, PROBLEM_FORM, POLICY_FORM = "veil-certificate-8", "veil-record-1", "veil-policy-1"
ALWAYS = 1 << 40  # stands for all times at which moves are alike
EXACTLY = 80  # histories of one belief alone are merged: roots of probabilities are rounded to multiples of 2^-40
FOR_THIS = "for this program: use `veil verify`"
TOO_MANY = f"the policy has too many histories {FOR_THIS}"
Key = namedtuple("Key", "memory x z")  # what the follower remembers, the hidden state, and the values of secrets


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
        status = os.fstat(file.fileno())
        require(stat.S_ISREG(status.st_mode), f"{path} is not an ordinary file", NotChecked)
        require(status.st_size <= MOST_BYTES, f"{path} has more than {MOST_BYTES:,} bytes", NotChecked)
        return file.read(MOST_BYTES)


def parse(text):
    """The value of a JSON text whose objects have no key twice."""

    def once(pairs):
        require(len(dict(pairs)) == len(pairs), "a JSON text has a key twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once)


def unpack(kind, content):
    return struct.unpack(f"<{len(content) // struct.calcsize(KINDS[kind])}{KINDS[kind]}", content)


def nested(shape, flat):
    """A flat list as lists of lists."""
    require(math.prod(shape) == len(flat) and min(shape, default=0) >= 0, "an array has another shape than its numbers")
    if len(shape) < 2:
        return list(flat)
    width = math.prod(shape[1:])
    return [nested(shape[1:], flat[row * width : (row + 1) * width]) for row in range(shape[0])]


def safetensors(content):
    """Metadata, and for each array its shape and flat list of numbers."""
    end, arrays = 8 + int.from_bytes(content[:8], "little"), {}
    head, data = parse(content[8:end]), content[end:]
    metadata = head.pop("__metadata__", {})
    for name, entry in head.items():
        kind, (begin, stop) = entry["dtype"], entry["data_offsets"]
        arrays[name] = entry["shape"], unpack(f"{kind[0].lower()}{int(kind[1:]) // 8}", data[begin:stop])
    return metadata, arrays


# The forms of JSON texts: a type, what a function accepts, a list of a form, or an object with fields


def real(least=-sys.float_info.max, most=sys.float_info.max):
    """What accepts a number of a double in a range: no text, truth value, infinity or NaN."""
    return lambda value: type(value) in (int, float) and least <= value <= most


def whole(least=0, most=(1 << 31) - 1):
    return lambda value: type(value) is int and least <= value <= most


def among(*words):
    return lambda value: type(value) in map(type, words) and value in words


def optional(form):
    return lambda value: value is None or check_form(value, form, "a field")


def check_form(value, form, where):
    """Raise `Lie` unless a value has a form."""
    if isinstance(form, dict):
        require(type(value) is dict and {*value} == {*form}, f"{where}: its fields are not {', '.join(sorted(form))}")
        for name, own in form.items():
            check_form(value[name], own, f"{where}, {name}")
    elif isinstance(form, list):
        require(type(value) is list, f"{where} is no list")
        for place, one in enumerate(value):
            check_form(one, form[0], f"{where} {place}")
    else:
        good = type(value) is form if isinstance(form, type) else form(value)
        require(good, f"{where}: {str(value)[:40]!r} is not what is expected")
    return True


NUMBER, AMOUNT, COUNT, POSITIVE = real(), real(0), whole(), whole(1)
PROBLEM = {
    "problem": str, "states": POSITIVE, "actions": POSITIVE, "horizon": COUNT, "endless": bool, "cells": POSITIVE,
    "agent": COUNT, "blind": bool, "knows_model": bool,
    "observers": [{
        "observations": POSITIVE, "tables": POSITIVE, "silent": whole(-1), "sees_actions": bool, "sees_first": bool,
        "untimed": bool,
    }],
    "channels": [{
        "name": str, "min": optional(AMOUNT), "max": optional(AMOUNT), "receives": COUNT, "refused": str,
        "kind": among("once", "path", "each"), "time": COUNT, "values": POSITIVE, "ahead": COUNT,
    }],
    "quantities": [{
        "name": str, "sign": among(-1, 1), "bound": optional(lambda one: type(one) is str or NUMBER(one)),
        "discount": real(0, 1),
    }],
}  # fmt: skip
CERTIFICATE = {
    "form": str, "arrays": str, "arrays_sha256": str, "problem_hash": str, "record_hash": str, "policy_hash": str,
    "goal": among("opaque", "transparent"), "hidden": [COUNT],
    "quantities": [{
        "name": str, "relation": among("≤", "≥"), "bound": optional(NUMBER), "value": NUMBER, "error": AMOUNT,
        "met": bool, "sequences": whole(0, MOST_SEQUENCES), "factor": NUMBER,
    }],
    "channels": [{
        "number": COUNT, "name": str, "min": optional(AMOUNT), "max": optional(AMOUNT), "lower": AMOUNT,
        "upper": AMOUNT, "window": [int], "prune": AMOUNT, "merge": COUNT, "sampled": optional({
            "lower": AMOUNT, "upper": AMOUNT, "sequences": whole(2, MOST_SEQUENCES),
        }),
    }],
    "bounds": [{
        "delay": among(0, 1), "upper": NUMBER, "prices": [AMOUNT],
        "rules": [{"channel": COUNT, "weight": AMOUNT, "memory": str, "steps": [COUNT]}],
    }],
    "register": optional({"nodes": POSITIVE, "time": int}),
    "beliefs": optional({"lower": NUMBER, "prices": [AMOUNT], "times": COUNT}),
    **dict.fromkeys(("best_known", "policy_class", "bound_class", "versions", "claim", "seal"), lambda one: True),
}  # fmt: skip


# Numbers


def distribution(numbers, places=None):
    """The places of a distribution, given in floats, that have a positive probability, with these, rounded down."""
    exact = [value.as_integer_ratio() for value in numbers]
    one = max((whole for _, whole in exact), default=0)  # denominators are powers of two
    parts = [part * (one // whole) for part, whole in exact]
    total = sum(parts)
    require(parts and min(parts) >= 0 and abs(total - one) * 10**6 < one, "a row is not a distribution")
    pairs = zip(range(len(parts)) if places is None else places, parts, strict=True)
    return [(place, ONE * part // total) for place, part in pairs if part]


def above(parts):
    """A mean of whole numbers, rounded up. The weights are probabilities that were rounded down: what is missing of ONE
    may be the weight of the largest number."""
    weights, values = zip(*parts, strict=True)
    return -(-(sum(map(mul, weights, values)) + (ONE - sum(weights)) * max(values)) >> BITS)


def log2_count(values):
    """log2 of a number of values, rounded up; `math.log2` is wrong by less than 2^-52 of it."""
    exact = not values & (values - 1)
    return Fraction(values.bit_length() - 1) if exact else Fraction(math.log2(values)) * (1 + Fraction(1, 1 << 52))


def entropy(rows):
    """Σ p log2(Σ p / p) of each row of weights, together in bits."""
    terms = []
    for row in rows:
        total = sum(row)
        terms += [p / ONE * math.log2(total / p) for p in row if 0 < p < total]
    return math.fsum(terms)


def together(histories):
    """The sums of weights."""
    weights = defaultdict(int)
    for history in histories:
        for key, mass in history.items():
            weights[key] += mass
    return weights


# The problem


def rows_of(arrays, name, rows, columns):
    """The function from a row of a table to the places that it leads to, with their probabilities: row i has the
    entries `ends[i] … ends[i + 1] − 1`."""
    ends, column, chance = (arrays[f"{name}.{part}"] for part in ("ends", "column", "chance"))
    fits = len(ends) == rows + 1 and ends == sorted(ends) and ends[0] == 0 and ends[-1] == len(column) == len(chance)
    require(fits and all(0 <= one < columns for one in column), f"{name} are of another size")

    def row_of(row):
        part = slice(ends[row], ends[row + 1])
        places = column[part]
        require(len({*places}) == len(places), "a row has an entry twice")
        return distribution(chance[part], places) if places else []

    return cache(row_of)


class Observer:
    """What is received of a state, or (action, state): `at` has the number of the table of each time, -1 for none."""

    def __init__(self, head, arrays, own, record):
        vars(self).update(head)
        self.states, self.at, tables = record.states, arrays[f"{own}at"], range(head["tables"])
        sizes = [len(arrays[f"{own}tables.{n}.ends"]) - 1 for n in tables]
        self.tables = [rows_of(arrays, f"{own}tables.{n}", sizes[n], self.observations) for n in tables]
        self.by_action = [size > record.states for size in sizes]
        fits = {*sizes} <= {record.states, record.states * record.actions}
        fits = fits and len(self.at) == record.horizon + 1 and all(-1 <= n < len(sizes) for n in self.at)
        silent = (0 if self.untimed or min(self.at) < 0 else -1) <= self.silent < self.observations
        require(fits and silent, "the times of an observer, or its silent observation, are others")
        require(not (self.untimed and self.sees_actions), "an observer without a clock sees actions")
        self.varies, self.by_choice = len({*self.at[1:]}) > 1, self.sees_actions or any(self.by_action)
        self.first = self.observations if self.sees_first else 1  # events at first

    def row(self, time, state, action):
        """The probabilities of events; at a time at which nothing is received, the silent one is certain."""
        if not time and not self.sees_first:
            return [(0, ONE)]
        table = self.at[time if time < len(self.at) else min(1, len(self.at) - 1)]
        more = action * self.observations if self.sees_actions and time else 0
        if table < 0:
            return [(self.silent + more, ONE)]
        row = self.tables[table](action * self.states * self.by_action[table] + state)
        return [(event + more, part) for event, part in row]


class Channel:
    """A secret and the observer who wants it; `receives`: that observer's number; `most`: bits that it can hide."""

    def __init__(self, number_of, head, arrays, record):
        vars(self).update(head)
        own, self.number = f"channels.{number_of}.", number_of
        self.value, self.situation = arrays[f"{own}value"], arrays[f"{own}situation"]
        each, steps = self.kind == "each", record.horizon + 1
        self.weights = arrays[f"{own}weights"] if each else [1.0] * steps
        fits = len(self.value) == len(self.situation) == record.size and all(-1 <= z < self.values for z in self.value)
        fits = fits and len(self.weights) == steps and all(map(AMOUNT, self.weights))
        fits = fits and self.time <= record.horizon and max(self.receives, record.agent) < len(record.observers)
        require(fits, "a secret, or its time, is of another size, or there is no such observer")
        self.most = log2_count(self.values ** (steps if self.kind == "path" else 1))
        self.most *= sum(map(Fraction, self.weights)) if each else 1


class Quantity:
    """`sign · bound ≤ sign · E[Σ d^t rewards + d^T terminal]`; `most`: the largest sum over a run, of any sign."""

    def __init__(self, number_of, head, arrays, record):
        vars(self).update(head)
        own, self.is_return, self.discount = f"quantities.{number_of}.", number_of == 0, Fraction(head["discount"])
        self.rewards, self.terminal = arrays[f"{own}rewards"], arrays[f"{own}terminal"]
        fits = len(self.rewards) == len(self.terminal) == record.size
        require(fits and all(len(row) == record.actions for row in self.rewards), "rewards are of another size")
        self.largest, last = (Fraction(max(map(abs, row))) for row in (reduce(iadd, self.rewards, []), self.terminal))
        self.unit = Fraction(2) ** math.frexp(float(max(self.largest, last)))[1]
        self.endless = self.is_return and record.endless
        require(not self.endless or self.discount < 1, "the return over an infinite horizon has no discount")
        self.most = self.largest * sum(self.discount**t for t in range(record.horizon)) + last
        if self.endless:
            self.most = self.largest / (1 - self.discount)


class Record:
    """The problem in `problem.bin`: hidden states x with their moves, observers, channels, quantities, and agent."""

    def __init__(self, content):
        self.digest = hashlib.sha256(content).hexdigest()
        metadata, arrays = safetensors(content)
        form, _, text = metadata["veil"].partition(" ")
        require(form == PROBLEM_FORM, "problem.bin has an unknown form", NotChecked)
        head, arrays = parse(text), {name: nested(*one) for name, one in arrays.items()}
        check_form(head, PROBLEM, "problem.bin")
        vars(self).update(head)
        require(self.horizon <= MOST_STEPS, "the horizon is too long", NotChecked)
        self.model, self.state, self.cell = (arrays[one] for one in ("model", "state", "cell"))
        self.size = len(self.state)
        fits = len(self.model) == len(self.cell) == self.size and all(0 <= s < self.states for s in self.state)
        require(fits, "the hidden states are of another size")
        row = rows_of(arrays, "moves", self.size * self.actions, self.size)
        every = range(self.actions)
        self.moves = cache(lambda x: {a: moves for a in every if (moves := row(x * self.actions + a))})
        self.starts = self.read_starts(arrays)
        self.observers = [Observer(one, arrays, f"observers.{n}.", self) for n, one in enumerate(head["observers"])]
        self.channels = [Channel(n, one, arrays, self) for n, one in enumerate(head["channels"])]
        self.names = {one.name: one.number for one in self.channels}
        require(len(self.names) == len(self.channels), "problem.bin has two channels of one name")
        self.quantities = [Quantity(n, one, arrays, self) for n, one in enumerate(head["quantities"])]

    def read_starts(self, arrays):
        """Every first hidden state, with its probability: that of its model, times that of its state in it."""
        parts = list(zip(arrays["starts"], arrays["starts.model"], arrays["starts.state"], strict=True))
        models = {self.model[x]: weight for x, weight, _ in parts}
        alike = all(models[self.model[x]] == weight for x, weight, _ in parts)
        require(alike and len({x for x, *_ in parts}) == len(parts), "a start comes twice, or a model has two weights")
        starts = []
        for k, weight in distribution(models.values(), models):
            own = [(x, chance) for x, _, chance in parts if self.model[x] == k]
            begun = distribution([chance for _, chance in own], [x for x, _ in own])
            starts += [(x, weight * chance >> BITS) for x, chance in begun]
        return starts


# Who follows what is seen


class Nobody:
    """Remembers nothing. A follower says what it remembers after a move and what that costs, in bits that are whole
    numbers; a policy also says what it chooses."""

    decides, timed = False, True  # whether it is a policy, and whether it may act otherwise at other times
    hears = ()  # the numbers of the observers whose events count
    looks_back = False  # whether what it remembers depends on the state that is left
    draws = 1  # among how many nodes a policy draws together with the action

    def after(self, time, memory, x, y, events):
        """What it remembers on reaching y from x, but for the node that it drew; `events`: one of each observer."""
        return ()

    def told(self, time, memory):
        """What of its memory tells all that it will do from a time on."""
        return memory

    def cost(self, time, before, key):
        """What it costs to reach a key at a time; `before`: the values of the secrets in the key that is left."""
        return 0


def digest_of(kind, arrays):
    """The hash of a policy: that of its kind and all numbers in 64 bits."""
    digest = hashlib.sha256(f"veil policy, form 1: {kind}; {len(arrays)} arrays".encode())
    for letter, shape, flat in arrays:
        numbers, code = ([one + 0.0 for one in flat], "d") if letter == "f" else (flat, "q")
        digest.update(f"<{letter}8{tuple(shape)};".encode() + struct.pack(f"<{len(flat)}{code}", *numbers))
    return digest.hexdigest()


def read_policy(path, register, record):
    """A policy by its file. With a memory, or for an agent that does not see its state, `register` (of the certificate)
    says what it remembers."""
    metadata, arrays = safetensors(read(path))
    form, kind, *head = metadata["veil"].split(" ", 2)
    require(form == POLICY_FORM, "policy.safetensors is not a policy")
    require(kind in ("markov", "timed", "memory", "history"), f"the policy is of the kind {kind!r}", NotChecked)
    found = (HistoryPolicy if kind == "history" else TablePolicy)(kind, head, arrays["probabilities"], register, record)
    require(not found.timed or len(found.table) == record.horizon, "policy: it is not one of so many steps")
    return found


class TablePolicy(Nobody):
    """A table over what the agent knows and holds: m · draws + node, m of an automaton on events, node its choice."""

    decides = True

    def __init__(self, kind, head, stored, register, record):
        (shape, flat), self.record, memory = stored, record, "".join(head)
        self.timed = kind == "timed" or (kind == "memory" and '"clock":true' in memory)
        shape = shape if self.timed else [1, *shape]
        kind = ("timed" if self.timed else "markov") + (f", memory {memory}" if kind == "memory" else "")
        self.digest, self.table = digest_of(kind, [("f", shape, flat)]), nested(shape, flat)
        nothing = {"nodes": 1, "codes": range(record.cells), "start": [[0]], "step": [[[[0]]]]}
        self.held = register if head or record.blind else nothing
        require(self.held is not None, "policy: what it remembers is not told")
        self.draws, codes, start, step = (self.held[one] for one in ("nodes", "codes", "start", "step"))
        width = {len(row) for table in self.table for row in table}
        fits = {len(table) for table in self.table} <= {len(codes)} and width <= {record.actions * self.draws}
        require(fits, "policy: its table is of another size")
        require(all(a < b for a, b in pairwise(codes)), "policy: its rows do not increase")
        self.rows = {code: n for n, code in enumerate(codes)}
        self.looks_back, heard = len(step[0]) > 1, len(start[0]) > 1 or len(step[0][0][0]) > 1
        alone = len(start) == len(step[0]) == len(step[0][0]) == 1
        require(alone or not record.blind, "policy: what it remembers depends on the state, which it does not see")
        self.hears = (record.agent if record.blind else record.channels[0].receives,) if heard or record.blind else ()

    def after(self, time, memory, x, y, events):
        state, event = self.record.state, events[self.hears[0]] if self.hears else 0
        if time:
            left, table = state[x] if self.looks_back else 0, self.held["step"]
            index = memory // self.draws, left, state[y], event
        else:
            heard = self.hears and self.record.observers[self.hears[0]].sees_first
            index, table = (state[y], event + 1 if heard else 0), self.held["start"]
        for place in index:  # an axis of length 1 stands for what does not matter
            table = table[place if len(table) > 1 else 0]
        known = 0 <= table < len(self.held["step"]) * (1 if time else self.draws)
        require(known, "policy: it does not say what it remembers")
        return table * self.draws if time else table

    def choices(self, time, memory, x):
        """Pairs ((action, next node), probability)."""
        row = self.rows.get(self.record.cell[x] * len(self.held["step"]) * self.draws + memory)
        require(row is not None, "policy: it has no row for something that it reaches")
        shares = distribution(self.table[time if self.timed else 0][row])
        return [(divmod(choice, self.draws), share) for choice, share in shares]


class HistoryPolicy(Nobody):
    """A graph of nodes on the events of the observers that it acts on, and for each time rows (node, situation, value)
    with their probabilities. It remembers (node, m of its situations beside the hidden state, value that it acts on, -1
    before)."""

    decides = True

    def __init__(self, kind, head, stored, register, record):
        head, content, arrays, place = parse(head[0]), bytes(stored[1]), [], 0
        for name, *shape in head["arrays"]:
            name = name.lstrip("<>|")
            size = math.prod(shape) * struct.calcsize(KINDS[name])
            arrays.append((name[0], shape, unpack(name, content[place : place + size])))
            place += size
        self.record, horizon, self.told_at, sees = record, head["horizon"], head["told_at"], head.get("sees") or []
        self.first, *parts = [nested(shape, flat) for _, shape, flat in arrays]
        self.following, rows, rest = parts[:horizon], parts[horizon : 5 * horizon], parts[5 * horizon :]
        self.table = [self.read_rows(*rows[4 * time : 4 * time + 4]) for time in range(horizon)]
        self.told_of, views = rest[: self.told_at is not None], rest[self.told_at is not None :]
        require(place == len(content) and len(views) == 2 * len(sees), "policy: its arrays do not fit")
        kind = f"history, executable {head['executable']}, told at {self.told_at}"
        self.digest = digest_of(kind + (f", sees {json.dumps(sees)}" if "sees" in head else ""), arrays)
        own, self.held, self.views = record.channels[0], None, None
        self.value, self.time = own.value if own.kind == "once" else [0] * record.size, own.time
        if sees:
            require({*sees} <= {*record.names}, "policy: it acts on what a channel sees that does not exist")
            require(register is not None, "policy: what its situations remember is not told")
            self.held, self.time, self.views = register, register["time"], self.read_views(views)
        self.hears = tuple(record.channels[record.names[name]].receives for name in sees) or (own.receives,)

    def read_rows(self, nodes, situations, values, chances):
        keys = list(zip(nodes, situations, values, strict=True))
        require(all(a < b for a, b in pairwise(keys)), "policy: its rows do not increase")
        return dict(zip(keys, chances, strict=True))

    def read_views(self, views):
        """The number of each tuple of events, at first and later, of those that lead to a node."""
        later = [any(row[event] >= 0 for step in self.following for row in step) for event in range(len(views[1]))]
        possible = [node >= 0 for node in self.first], later
        seen = [list(zip(*views[late::2], strict=True)) for late in (0, 1)]
        return [{one: n for n, one in enumerate(seen[late]) if possible[late][n]} for late in (0, 1)]

    @cached_property
    def last_use(self):
        """The last time at which the value tells choices apart."""
        last = -1
        for time, table in enumerate(self.table):
            rows = defaultdict(set)
            for (node, situation, _), chances in table.items():
                rows[node, situation].add(tuple(chances))
            last = time if any(len(row) > 1 for row in rows.values()) else last
        return last

    def told(self, time, memory):
        return memory if self.last_use >= time else memory[:2]

    def after(self, time, memory, x, y, events):
        seen, s, held = tuple(events[place] for place in self.hears), self.record.state[y], self.held
        event = self.views[time > 0].get(seen, -1) if self.views else seen[0]
        require(event >= 0, "policy: it does not know an event that it reaches")
        node, m, value = memory or (0, 0, -1)
        node = self.following[time - 1][node][event] if time else self.first[event]
        if held:
            m = held["step"][m][0][s][0] if time else held["start"][s][0]
        if time == self.time:
            label = held["label"] if held else None
            value = label[self.record.model[y] if len(label) > 1 else 0][m][s] if label else self.value[y]
        if time == self.told_at and node >= 0:
            node = self.told_of[0][node][self.situation(m, y)]
        require(node >= 0, "policy: it has no node for something that it reaches")
        return node, m, value

    def situation(self, m, x):
        if not self.held:
            return self.record.channels[0].situation[x]
        return (self.record.model[x] * len(self.held["step"]) + m) * self.record.states + self.record.state[x]

    def choices(self, time, memory, x):
        node, m, value = memory
        row = self.table[time].get((node, self.situation(m, x), value))
        require(row is not None, "policy: it has no row for something that it reaches")
        return [((action, 0), share) for action, share in distribution(row)]


class Guesses(Nobody):
    """The observers of a bound: what they remember, the nodes of their graphs, and what their guesses cost, in bits."""

    def __init__(self, record, rules, arrays, under, late):
        channels = [record.channels[rule["channel"]] for rule in rules]
        self.hears, self.path = [one.receives for one in channels], channels[0].kind == "path"
        self.horizon, self.tables, self.costs = record.horizon, [], []
        for n, (rule, channel) in enumerate(zip(rules, channels, strict=True)):
            own, observer = f"{under}rules.{n}.", record.observers[channel.receives]
            graph = [[arrays[f"{own}first"]], *(arrays[f"{own}following.{step}"] for step in rule["steps"])]
            require(len(graph[0][0]) == observer.first, "a graph is of another size")
            require(len(graph) == record.horizon + 1, "a rule's graph does not have one table for each step")
            strings = not observer.untimed or (holds_strings(observer, graph) and not self.path)
            require(strings, "a rule of an observer without a clock needs one")
            self.tables.append([[[0]], *graph] if late else graph)  # late, a step comes before events
            costs = self.read_costs(own, arrays, channel.kind)
            factors = {time: Fraction(rule["weight"]) * Fraction(channel.weights[time]) for time in costs}
            self.costs.append({time + late: priced(costs[time], factors[time]) for time in costs if factors[time]})

    def read_costs(self, own, arrays, kind):
        """By time the costs of (node, value); of a path of (node there, next code, code), the last with code 0."""
        times = range(self.horizon + 1)
        if kind != "path":
            names = {t: f"each.{t}" for t in times} if kind == "each" else {self.horizon: "costs"}
            rows = {t: enumerate(arrays[own + name]) for t, name in names.items()}
            return {t: {(node, z): bits for node, row in rows[t] for z, bits in enumerate(row)} for t in rows}
        keys = [list(map(tuple, arrays[f"{own}path_keys.{time}"])) for time in times]
        require(all(len({*one}) == len(one) for one in keys), "a rule for paths has a key twice")
        return {time: dict(zip(keys[time], arrays[f"{own}path_costs.{time}"], strict=True)) for time in times}

    def after(self, time, memory, x, y, events):
        nodes = tuple([
            table[time][memory[n] if time else 0][events[place]]
            for n, (table, place) in enumerate(zip(self.tables, self.hears, strict=True))
        ])  # fmt: skip
        require(min(nodes) >= 0, "a rule's graph ends before the horizon does")
        return nodes

    def cost(self, time, before, key):
        asked = [(self.costs[n], time, (key.memory[n], z)) for n, z in enumerate(key.z) if time in self.costs[n]]
        if self.path:  # that of the code before; at the end also of the last
            (costs,), (node,) = self.costs, key.memory
            asked = [(costs, time - 1, (node, *key.z, *before))] if time else []
            asked += [(costs, time, (node, 0, *key.z))] if time == self.horizon else []
        require(all(one in costs[at] for costs, at, one in asked), "a rule excludes something that a policy can reach")
        return sum(costs[at][one] for costs, at, one in asked)


def priced(costs, factor):
    """Costs −log2 q of (…, value), times a factor, in whole numbers rounded up, if those q are probabilities."""
    rows = defaultdict(list)
    for (*given, _), bits in costs.items():
        require(bits >= 0, "a cost is negative")
        rows[tuple(given)].append(2.0**-bits)
    require(all(math.fsum(row) <= 1 - 2.0**-42 for row in rows.values()), "a node's probabilities exceed one")
    return {key: math.ceil(Fraction(bits) * factor * ONE) for key, bits in costs.items() if bits != math.inf}


def holds_strings(observer, tables):
    """Whether each node stands for one string of the events that are not silent, and in the last layer each for
    another; or there is one node."""
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


# Moves


class Walk:
    """The keys that are reached, with the values of the secrets of the channels `asked`. What observers receive is a
    tuple of events, one of each, 0 where nobody counts it; given the hidden state they are independent. Late, an
    observation is received one step later, and a last step follows the end.

    A decision is (share, action, moves), of which any may be taken if the follower decides nothing; a move is (chance,
    departure), and a departure leads to keys by what is seen on arriving."""

    def __init__(self, record, asked=(), follower=None, late=0):
        self.record, self.follower, self.late, self.horizon = record, follower or Nobody(), late, record.horizon + late
        self.secrets = [record.channels[n] for n in asked]
        self.own, self.place = (self.secrets[0], self.secrets[0].receives) if asked else (None, 0)
        self.kind = self.own.kind if asked else ""
        self.sources = {*self.follower.hears, *(one.receives for one in self.secrets)}
        watched = [record.observers[one] for one in self.sources]
        self.settling = {one.time for one in self.secrets if one.kind == "once"}
        self.varies, self.by_choice = any(one.varies for one in watched), any(one.by_choice for one in watched)
        self.most = max((one.most for one in self.secrets), default=0)
        self.untimed = any(record.observers[one.receives].untimed for one in self.secrets)
        self.check_together()
        self.shown, self.size = cache(self.shown_of), 0
        self.moves, self.coming, self.decided = cache(self.moves_of), cache(self.coming_of), cache(self.decisions_of)
        begun = ((x, mass, *one) for x, mass in record.starts for one in self.seen(0, x, x, 0))
        self.starts = [(x, events, mass * part >> BITS) for x, mass, events, part in begun]
        # A memory that is drawn does not follow from path and events.
        self.decides, self.tells = self.follower.decides, self.tells_state and self.follower.draws == 1
        self.grows = self.kind == "path" and self.decides and not self.tells
        if asked:
            self.shows = self.own.situation if self.tells_state and not self.grows else self.own.value

    def check_together(self):
        """Whether a bound is known for these channels."""
        kinds, watching = {one.kind for one in self.secrets}, {one.receives for one in self.secrets}
        for one in self.secrets:
            require(not one.refused, f"{one.name}: {one.refused}")
        require(kinds <= {"once"} or len(self.secrets) == 1, "several channels, and one whose secret is not one value")
        require(len(watching) < 2 or not self.untimed, "several observers, of which one has no clock")
        require(self.kind != "each" or not self.untimed, "values at every time, and an observer without a clock")
        if self.late:
            observer = self.record.observers[self.place]
            plain = [one.number for one in self.secrets] == [0] and kinds == {"once"} and len({*observer.at}) == 1
            plain = plain and not observer.by_choice and observer.at[0] >= 0
            require(plain, "a bound with a delay is not about such a problem")

    def shown_of(self, time, state, action):
        """What the observers receive of a state: pairs (events, probability)."""
        watched = [(n in self.sources, one) for n, one in enumerate(self.record.observers)]
        rows = product(*(one.row(time, state, action) if counts else [(0, ONE)] for counts, one in watched))
        parts = [tuple(zip(*row, strict=True)) for row in rows]
        return [(events, reduce(lambda a, b: a * b >> BITS, part, ONE)) for events, part in parts]

    def seen(self, time, x, y, action):
        """What is received at a time, after a move from x to y: of the state y; late, of the state x."""
        if self.late and not time:
            return [((0,) * len(self.record.observers), ONE)]
        time, state = time - self.late, self.record.state[x if self.late else y]
        return self.shown(time if self.varies or not time else 1, state, action if self.by_choice else 0)

    @cached_property
    def tells_state(self):
        """Whether path and events tell the first x, and every next one where x is known, of those that are reached."""
        if self.kind != "path" or len(self.sources) > 1:
            return False
        known, layers, path = {}, [{x for x, _, _ in self.starts}], self.own.value
        moves = cache(lambda x: {(action, y) for action, row in self.record.moves(x).items() for y, _ in row})
        for _ in range(self.horizon):
            layers.append({y for x in layers[-1] for _, y in moves(x)})
        every = set().union(*layers)
        steps = [(None, x, event) for x, event, _ in self.starts]
        for time in range(1, self.horizon + 1 if self.varies else min(2, self.horizon + 1)):
            before, after = (layers[time - 1], layers[time]) if self.varies else (every, every)
            reached = ((x, action, y) for x in before for action, y in moves(x) if y in after)
            steps += [((time, x), y, event) for x, action, y in reached for event, _ in self.seen(time, x, y, action)]
        return all(known.setdefault((x, event, path[y]), y) == y for x, y, event in steps)

    def follow(self, time, x, z):
        """The values of the secrets, 0 before their times; of a path what a rule for it tells apart: the situation
        where path and events tell it, else what the path shows, and of that under a policy all."""
        if self.kind in ("path", "each"):
            return (*z, self.shows[x]) if self.grows else (self.shows[x],)
        if time and time not in self.settling:
            return z
        old = z or (0,) * len(self.secrets)
        values = tuple(one.value[x] if time == one.time else z for one, z in zip(self.secrets, old, strict=True))
        require(min(values, default=0) >= 0, "a secret has no value in a state that can occur")
        return values

    def begin(self):
        """Every start: (key, events, probability)."""
        for x, events, chance in self.starts:
            yield Key(self.follower.after(0, (), None, x, events), x, self.follow(0, x, ())), events, chance

    def begun(self):
        """The weights of the keys at the start, by the event of the observer that counts."""
        weights = defaultdict(lambda: defaultdict(int))
        for key, events, chance in self.begin():
            weights[events[self.place]][key] += chance
        return weights

    def at(self, time):
        """A time, or what stands for all times at which a policy moves alike."""
        return time if self.follower.timed or self.varies or time + 1 in self.settling else ALWAYS

    def decisions(self, time, key):
        """The decisions in a key: [(share, action, [(chance, departure)])]."""
        return self.decided(self.at(time), key) if self.decides else self.decisions_of(time, key)

    def decisions_of(self, time, key):
        left, shown, x = key.x if self.follower.looks_back or self.late else None, self.by_choice, key.x
        moves = {0: [(x, ONE)]} if self.late and time >= self.record.horizon else self.record.moves(x)
        taken = self.follower.choices(time, key.memory, x) if self.decides else [((a, 0), ONE) for a in moves]
        require({action for (action, _), _ in taken} <= {*moves}, "policy: an action is not available")
        found = []
        for (action, node), share in taken:
            ways = [(chance, (key.memory, left, y, key.z, action * shown, node)) for y, chance in moves[action]]
            found.append((share, action, ways))
        return found

    def arrivals(self, time, departure):
        """What a departure leads to at a time: [(key, events, probability)]."""
        memory, x, y, z, action, node = departure
        value = self.follow(time, y, z)
        for events, part in self.seen(time, x, y, action):
            there = self.follower.after(time, memory, x, y, events)
            yield Key(there + node if node else there, y, value), events, part

    def step(self, time, key, action=None):
        """All that a decision of a policy, or an action, leads to, by the event of the observer that counts:
        {event: [(key, chance)]}."""
        return self.moves(self.at(time), key, action)

    def moves_of(self, time, key, action):
        chances, weights = defaultdict(int), defaultdict(lambda: defaultdict(int))
        for share, taken, moves in self.decisions(time, key):
            for chance, departure in moves if action in (None, taken) else ():
                chances[departure] += share * chance >> BITS
        for departure, chance in chances.items():
            for there, events, part in self.arrivals(time + 1, departure):
                weights[events[self.place]][there] += chance * part >> BITS
        self.size += sum(map(len, weights.values()))
        require(self.size <= 2 * MOST_ENTRIES, f"a policy has too many moves {FOR_THIS}", NotChecked)
        return {event: list(ways.items()) for event, ways in weights.items()}

    def layers(self, steps):
        """The keys that are reached after 0, 1, … steps."""
        layers = [dict.fromkeys(key for key, _, _ in self.begin())]
        for time in range(steps):
            left = {one for key in layers[-1] for _, _, moves in self.decisions(time, key) for _, one in moves}
            layers.append(dict.fromkeys(key for one in left for key, _, _ in self.arrivals(time + 1, one)))
            require(sum(map(len, layers)) <= MOST_ENTRIES, f"a pass has too many situations {FOR_THIS}", NotChecked)
        return layers

    def counted(self, time, histories):
        """The bits that are secret at a time after some histories, weighted by these."""
        ahead, rows = min(self.own.ahead, self.horizon - time), []
        for history in histories if self.own.weights[time] else ():
            values = defaultdict(int)
            for key, mass in history.items():
                if ahead:
                    for value, part in enumerate(self.coming(time, key, ahead)):
                        values[value] += mass * part >> BITS
                else:
                    values[key if self.tells else key.z] += mass
            rows.append(values.values())
        return self.own.weights[time] * entropy(rows)

    def now(self, time, history):
        """What counts at a time of the whole horizon after one history."""
        return self.counted(time, [history]) if self.kind == "each" or time >= self.horizon else 0.0

    def coming_of(self, time, key, steps):
        """The probabilities that value 1 does not come and that it comes, within so many steps."""
        if key.z == (1,) or not steps:
            return [ONE * (key.z != (1,)), ONE * (key.z == (1,))]
        action = None if self.decides else min(self.record.moves(key.x))  # which are all alike
        ways = [way for ways in self.step(time, key, action).values() for way in ways]
        rows = [(chance, self.coming(time + 1, there, steps - 1)) for there, chance in ways]
        return [sum(chance * row[value] >> BITS for chance, row in rows) for value in (0, 1)]

    def longer(self, time, history, event=None, action=None):
        """What a history leads to by one event, or each: (event, {key: [weights, by what it is reached from]})."""
        moves, at = self.moves, self.at(time)
        ways = [(mass, moves(at, key, action)) for key, mass in history.items()]
        for one in set().union(*(step for _, step in ways)) if event is None else (event,):
            sources = defaultdict(list)
            for mass, step in ways:
                for there, chance in step.get(one, ()):
                    sources[there].append(mass * chance >> BITS)
            yield one, sources


def summed(sources):
    return {key: sum(parts) for key, parts in sources.items()}


# What is paid


def payments(parts, steps, after=None):
    """What is paid of Σ factor · quantity, in whole numbers of 2^-160 that are rounded up: a function of (time, x,
    action); at the time `steps` what is paid at the end. `after`: what the return over an infinite horizon pays then
    at most, and what its negative does."""
    parts = [(factor, one) for factor, one in parts if factor]
    powers = [[one.discount**time for _, one in parts] for time in range(steps + 1)]
    steady = all(power == 1 for power in powers[-1])

    @cache
    def paid(time, x, action):
        total = Fraction(0)
        for (factor, one), power in zip(parts, powers[time], strict=True):
            if time < steps:
                total += factor * power * Fraction(one.rewards[x][action])
            elif one.endless:
                total += abs(factor) * power * after[factor < 0][x]
            else:
                total += factor * power * Fraction(one.terminal[x])
        return math.ceil(ONE * total)

    return lambda time, x, action: paid(time if time == steps or not steady else 0, x, action)


def most_paid(walk, pays, steps, pooled=False):
    """The most that is paid, with what the follower of the walk costs, in whole numbers of 2^-160 that are rounded up:
    under the policy of the walk, or under any. If `pooled`, the first action in a state is one for all models."""
    cost, layers = walk.follower.cost, walk.layers(steps)
    values = {key: 0 if walk.late else pays(steps, key.x, 0) for key in layers[-1]}
    for time in range(steps - 1, -1, -1):

        @cache
        def worth(departure, time=time, values=values):
            parts, z = walk.arrivals(time + 1, departure), departure[3]
            return above([(part, values[key] + cost(time + 1, z, key)) for key, _, part in parts])

        scores = {key: [(share, action, pays(time, key.x, action) + above([(part, worth(one)) for part, one in moves]))
                        for share, action, moves in walk.decisions(time, key)] for key in layers[time]}  # fmt: skip
        if pooled and not time:
            return first_together(walk, scores)
        values = {key: above([(share, score) for share, _, score in own]) if walk.decides
                  else max(score for _, _, score in own) for key, own in scores.items()}  # fmt: skip
    return above([(mass, values[key] + cost(0, (), key)) for key, _, mass in walk.begin()])


def first_together(walk, scores):
    """The largest mean of scores where the first action in a state of the model is one for all models."""
    sums = defaultdict(lambda: defaultdict(int))
    for key, _, mass in walk.begin():
        for _, action, score in scores[key]:
            sums[walk.record.state[key.x]][action] += mass * score
    return sum(max(own.values()) for own in sums.values()) >> BITS


def ends_of(walk, quantity, steps, after=None, pooled=False):
    """The least and the most of a quantity under the policy of a walk, or any."""
    pays = [payments([(sign / quantity.unit, quantity)], steps, after) for sign in (-1, 1)]
    least, most = (most_paid(walk, one, steps, pooled) * quantity.unit / ONE for one in pays)
    return -least, most


def continuation(record, values, sign):
    """Between what the best continuation earns after the horizon in each x, for the return, or with sign −1 for its
    negative: the claimed values v, with an error of at most max |v − max_a (R + γ P v)| / (1 − γ)."""
    worst, quantity = Fraction(0), record.quantities[0]
    require(len(values) == 2 and len(values[0]) == len(values[1]) == record.size, "values: of another size")
    exact = [Fraction(one) for one in values[0 if sign > 0 else 1]]
    for x, claimed in enumerate(exact):
        later = {a: sum(chance * exact[y] for y, chance in moves) / ONE for a, moves in record.moves(x).items()}
        worths = [sign * Fraction(quantity.rewards[x][a]) + quantity.discount * worth for a, worth in later.items()]
        worst = max(worst, abs(max(worths) - claimed))
    reach = (max(map(abs, exact)) + quantity.largest) * (record.states + 4)
    error = (worst + reach / (1 << 150)) / (1 - quantity.discount)
    return [one - error for one in exact], [one + error for one in exact]


def earned(record, policy, quantity, values):
    """Bounds on a quantity under a policy. Over an infinite horizon one that acts alike at all times is followed until
    the rest is small; for another one `values` are what an optimal continuation earns."""
    steps, after = record.horizon, None
    if quantity.endless and not policy.timed:
        rest = quantity.largest / (1 - quantity.discount)
        while quantity.discount**steps * rest > quantity.unit / 10**14:
            steps += 1
            require(steps <= MOST_STEPS, "the discount is too close to one", NotChecked)
        after = [[rest] * record.size] * 2
    elif quantity.endless:
        require(record.knows_model, "policy: after the horizon its agent cannot know the model")
        low, high = continuation(record, values, 1)
        after = [high, [-one for one in low]]
    return ends_of(Walk(record, (), policy), quantity, steps, after)


def check_value(record, policy, claim, quantity, values):
    """A quantity has the value that is claimed, within an error of rounding, and meets its bound or not as claimed."""
    name, value, error, sign = quantity.name, Fraction(claim["value"]), Fraction(claim["error"]), quantity.sign
    least, most = earned(record, policy, quantity, values)
    largest = (record.horizon + 2) * quantity.most / (1 << 24) + Fraction(1, 1 << 800)
    require(error <= largest, f"{name}: an error of {claim['error']} is claimed, {float(largest)} is the most")
    where = f"{name}: {claim['value']} is claimed, {float(least)} … {float(most)} is found"
    require(least <= value + error and value - error <= most, where)
    require(max(most - value, value - least) <= error, f"within rounding of the error; {where}", NotChecked)
    if claim["bound"] is None or not claim["met"]:
        return
    bound = Fraction(claim["bound"])
    require(most >= bound if sign > 0 else least <= bound, f"{claim['bound']} is to be met; {where}")
    close = f"within rounding of the bound {claim['bound']}; {where}"
    require(least >= bound if sign > 0 else most <= bound, close, NotChecked)


def check_percentage(record, quantity, claimed, values):
    """A percentage is a share of what policies can reach, within 1e-9 of it and the rounding of floats. If the agent
    does not know which model runs, the first action in a state is one for all of them."""
    share, error, allowed, after = Fraction(quantity.bound.removesuffix("%")) / 100, 0, 0, []
    require(0 <= share <= 1, f"{quantity.name}: its bound is no percentage")
    pooled = quantity.is_return and not record.knows_model
    if quantity.endless:
        ranges = [continuation(record, values, sign) for sign in (1, -1)]
        error, after = max(high[0] - low[0] for low, high in ranges), [high for _, high in ranges]
        allowed = quantity.largest * (record.states + 64) / (1 - quantity.discount) ** 2 / (1 << 44)
    least, most = ends_of(Walk(record), quantity, int(pooled) if quantity.endless else record.horizon, after, pooled)
    same = (most - least) / 10**9
    require(error <= allowed + same, "values: they are not those of the best and the worst policies")
    rounding = (record.horizon + 2) * quantity.most / (1 << 40) + same + error
    found = least + share * (most - least)
    where = f"{quantity.name}: {quantity.bound} is {float(found)}, not {claimed}"
    require(abs(Fraction(claimed) - found) <= rounding, where)


# Upper bounds


def check_upper(record, claim, bound, arrays, under):
    """The upper bound that rules of observers prove; channels that are not hidden keep their lower bounds. With a delay
    a decision is made before the event of its state."""
    rules, upper, hidden, late = bound["rules"], Fraction(bound["upper"]), claim["hidden"], bound["delay"]
    kept = {one["number"]: one["min"] for one in claim["channels"] if one["number"] not in hidden and one["min"]}
    channels = tuple(one["channel"] for one in rules)
    require(rules and len({*channels}) == len(channels), "a rule is missing, or there are two for a channel")
    require({*channels} <= {*hidden, *kept}, "a rule is for a channel that is neither hidden nor has a lower bound")
    limit = worth_of_bounds(bound["prices"], record, claim) + worth_of_channels(rules, hidden, kept)
    factors = [Fraction(one["factor"]) for one in claim["quantities"]]
    if any(record.channels[n].ahead for n in channels):
        most = Walk(record, channels).most
        alone = not (limit or any(bound["prices"]) or any(factors))
        require(upper >= most and alone, "no rule is known for values that lie ahead")
        return most
    parts = zip(bound["prices"], factors, record.quantities, strict=True)
    priced = [(Fraction(price) * one.sign + factor, one) for price, factor, one in parts]
    after = None
    if record.endless:  # what takes the return away gains most from the continuation that is worst for it
        after = [continuation(record, arrays.get("values", []), sign)[1] for sign in (1, -1)]
    walk = Walk(record, channels, Guesses(record, rules, arrays, under, late), late)
    found = Fraction(most_paid(walk, payments(priced, record.horizon, after), walk.horizon), ONE) - limit
    found = found if any(factors) else min(found, *(record.channels[n].most for n in hidden))
    require(found <= upper, f"an upper bound of {bound['upper']} with delay {late}: {float(found)} is found")
    return found


def worth_of_bounds(prices, record, claim):
    """What the bounds of the quantities are worth at their prices."""
    require(len(prices) == len(record.quantities), "the prices are not one for each quantity")
    total = Fraction(0)
    for price, quantity, one in zip(prices, record.quantities, claim["quantities"], strict=True):
        require(price == 0 or one["bound"] is not None, "there is a price, and no bound for it")
        total += Fraction(price) * quantity.sign * Fraction(one["bound"] or 0)
    return total


def worth_of_channels(rules, hidden, kept):
    """What the lower bounds of channels are worth at the weights of their rules, which are those of a bound."""
    weights = {one["channel"]: Fraction(one["weight"]) for one in rules}
    total = sum(weights[channel] for channel in {*weights} & {*hidden})
    right = total >= 1 and min(weights.values()) > 0 and (len(rules) > 1 or total == 1)
    require(right, "the weights are not those of a bound")
    return sum(weights[channel] * Fraction(kept[channel]) for channel in {*weights} & {*kept})


# What the policy hides


class Histories:
    """The histories of a policy in windows of times, as the certificate says: H(Z|Y) is bounded from below by an
    observer that is told memory and x at both ends of a window, from above by one that forgets at its begin and stops
    looking at its end. A secret with a value at every time has a window before each.

    Of a path that tells every W = (memory, x) the bits are H(W_T | h_T) + Σ_t H(W_t | W_{t+1}, h_{t+1})."""

    def __init__(self, walk, told, goal):
        self.walk, self.opaque, self.least, self.moves = walk, goal == "opaque", max(1, int(told["prune"] * ONE)), 0
        (self.left, self.right), self.each, horizon = told["window"], walk.kind == "each", walk.horizon
        time = walk.own.time if walk.kind == "once" else horizon
        require(-1 <= self.left <= time <= self.right, f"{walk.own.name}: its window is not around the secret")
        self.ends, self.merges = self.right <= horizon and not self.each, told["merge"] > 0

    def windows(self):
        """When each begins, -1 if it is not cut there, when it ends, and the times that count."""
        if not self.each:
            end = min(self.right, self.walk.horizon)
            return [(self.left, end, (end,))]
        first = self.left if self.left >= 0 else self.walk.horizon
        more = range(first + 1, self.walk.horizon + 1)
        return [(-1, first, range(first + 1)), *((end - first, end, (end,)) for end in more)]

    def bounds(self, most):
        """Bounds on the bits that are hidden, from about so many histories that are kept apart at a time. Logarithms
        and sums of floats have relative errors below 2^-50."""
        walk, least, highest, law, now = self.walk, 0.0, 0.0, together(self.walk.begun().values()), 0
        largest = max(1.0, *walk.own.weights)
        for begin, end, times in self.windows():
            for time in range(now, begin):
                law = together(summed(sources) for _, sources in walk.longer(time, law))
            now, layer = max(begin, now), list(walk.begun().values())
            if begin >= 0:
                layer = [{key: mass} for key, mass in law.items()] if self.opaque else [law]
            bits, charged, lost = self.follow(max(begin, 0), layer, end, times, most)
            error, cut = (bits + charged + 2 * (end + 2) * largest) * 2.0**-49, begin >= 0 or self.ends
            least += bits - charged - error if self.opaque or not cut else 0.0
            highest += bits + error if not cut or not (self.opaque or walk.kind == "path") else math.inf
            if lost:  # whether it is left out is one more unknown, of at most ℓ (2 − log2 ℓ) bits
                weight = sum(walk.own.weights[time] for time in times)
                highest += 1.01 * lost * (weight * (2 - math.log2(lost)) + float(walk.most)) if lost < 0.3 else math.inf
        return max(0.0, least), walk.most if walk.untimed else min(highest, walk.most)

    def follow(self, time, layer, end, times, most):
        """The bits that count in a window, the bits that merging may have cost, and the probability left out."""
        walk, waiting, bits, charged, kept, finest = self.walk, [(time, layer)], [], [], 0, 28
        while waiting:
            time, layer = waiting.pop()
            if not self.merges and len(layer) > 1 and sum(map(len, layer)) > MOST_AT_ONCE:
                waiting += [(time, layer[::2]), (time, layer[1::2])]
                continue
            if time == end and self.ends and self.opaque:
                layer = self.told(end, layer)
            if time in times:
                bits.append(walk.counted(time, layer))
            if time == end:
                kept += sum(sum(history.values()) for history in layer)
                continue
            layer, sources = self.longer(time, layer)
            bits += [entropy(sources)] if walk.tells else []
            if time + 1 < end:
                layer, cost, finest = merged(layer, most if self.merges else math.inf, finest)
                charged.append(cost * sum(walk.own.weights[later] for later in times if later > time))
            waiting.append((time + 1, layer))
        return math.fsum(bits), math.fsum(charged), (ONE - kept) / ONE

    def longer(self, time, layer):
        """The histories after a step; of a path that tells everything also what each key is reached from."""
        after, sources = [], []
        for history in layer:
            for _, reached in self.walk.longer(time, history):
                self.moves += sum(map(len, reached.values()))
                weights = {key: mass for key, parts in reached.items() if (mass := sum(parts)) >= self.least}
                after += [weights] if weights else []
                sources += reached.values() if self.walk.tells else ()
            require(self.moves <= MOST_MOVES, TOO_MANY, NotChecked)
        return after, sources

    def told(self, end, layer):
        """The histories of an observer that is told memory and x."""
        after = []
        for history in layer:
            parts = defaultdict(dict)
            for key, mass in history.items():
                parts[self.walk.follower.told(end, key.memory), key.x][key] = mass
            after += parts.values()
        return after


def merged(layer, most, finest):
    """Histories with those of nearly the same belief as one, at most so many, and the bits that this may cost, rounded
    up: what the observer would know more if it told them apart, Σ P(h) KL(belief of h ‖ belief of all that are one).
    Roots of probabilities are rounded, those of rare histories more coarsely; third, how finely the next time."""
    shapes, after, terms = [], [], []
    for history in layer:
        total = sum(history.values())
        coarser = math.floor(0.3 * (total.bit_length() - BITS))
        shapes.append((history, coarser, [(key, math.sqrt(mass / total)) for key, mass in history.items()]))
    for fineness in (EXACTLY, *range(finest, -EXACTLY, -1)):
        clusters = defaultdict(list)
        for history, coarser, roots in shapes:
            scale = 2.0 ** (fineness / 2 + (coarser if fineness < EXACTLY else 0))
            clusters[frozenset([(key, near) for key, root in roots if (near := round(root * scale))])].append(history)
        if len(clusters) <= most:
            break
    for cluster in clusters.values():
        after.append(together(cluster) if len(cluster) > 1 else cluster[0])
        total = sum(after[-1].values())
        for history in cluster if len(cluster) > 1 else ():
            own = sum(history.values())
            terms += [mass / ONE * math.log2(mass * total / (own * after[-1][key])) for key, mass in history.items()]
    cost = math.fsum(terms) + 2.0**-50 * (1 + math.fsum(map(abs, terms))) if terms else 0.0
    return after, cost, min(finest, fineness + 3)


def check_channel(record, policy, told, goal, draws):
    """What the policy hides in a channel; returns the lower bound that is found, and what was drawn."""
    name, lower, upper, least, most = told["name"], told["lower"], told["upper"], 0.0, max(16, 2 * told["merge"])
    walk = Walk(record, (told["number"],), policy)
    if lower > 0 or upper < walk.most:
        histories = Histories(walk, told, goal)
        while True:
            least, highest = histories.bounds(most)
            words = f"{name}: {lower} … {upper} is claimed, {least} … {float(highest)} is found"
            if lower <= least and highest <= upper:
                break
            require(least <= upper and lower <= highest and histories.merges, words)
            # Other histories are merged than in the certificate: keep more of them apart, and rarer ones.
            most, histories.least = 4 * most, max(1, histories.least // 16)
            require(most <= min(64 * told["merge"], MOST_HISTORIES), f"{words}, {TOO_MANY}", NotChecked)
    return least, [] if told["sampled"] is None else [check_drawn(walk, told, draws)]


# Lower bounds over all policies of agents that see what the observer sees


class Witness:
    """The values of unnormalised beliefs over keys (nothing, x, value of the secret), from the last step back:
    `W_t(b) = min_a [paid(a) + Σ_e (h(b_e) + W_t+1(b_e))]`. W is concave, homogeneous and monotone, so that for a belief
    p of the witness `W(b) ≥ c W(p) + W(b − c p)`; and `W(b) ≥ Σ_x (m_x told(x) + H(z | x))`, since to be told x now and
    at all later times leaves less, and what follows says nothing more of a settled value."""

    def __init__(self, record, priced, told, arrays):
        self.walk, self.secret, self.horizon = Walk(record, (0,)), record.channels[0], record.horizon
        self.size, self.actions, self.shift = record.size, record.actions, Fraction(0)
        self.gains = payments(priced, self.horizon)
        self.pays = {time: self.paid(time) for time in range(self.horizon + 1)}
        self.points = [self.read(time, arrays, f"beliefs.{time}.") for time in range(told["times"])]
        if self.secret.ahead:
            rows = [[*record.moves(x).values()] for x in range(self.size)]
            free = all(len(row) == self.actions and row.count(row[0]) == len(row) for row in rows)
            require(free, "beliefs: the secret lies ahead, and depends on actions that are not chosen yet")

    def paid(self, time):
        """What each action costs in each x, or x at the end, more than the least of all: that is added to `shift`."""
        actions = range(self.actions if time < self.horizon else 1)
        costs = {(x, action): -self.gains(time, x, action) for x in range(self.size) for action in actions}
        least = min(0, *costs.values())
        self.shift += Fraction(least, ONE)
        return {key: (cost - least) / ONE for key, cost in costs.items()}

    def read(self, time, arrays, own):
        """The beliefs of a time, each with those that its events lead to."""
        ends, places, weights, child = (arrays[own + name] for name in ("ends", "place", "weight", "child"))
        values = self.secret.values if self.is_settled(time) else 1
        require(len(ends) == len(child) + 1 and time < self.horizon, "beliefs: of another size")
        require(all(0 <= place < self.size * values for place in places), "beliefs: of another size")
        pairs = [divmod(place, values) for place in places]
        keys = [Key((), x, self.walk.follow(time, x, (z,))) for x, z in pairs]
        points = []
        for low, high, after in zip(ends, ends[1:], child, strict=False):
            require(0 <= low <= high <= len(places) == len(weights), "beliefs: of another size")
            masses = [int(ONE * Fraction(weight)) for weight in weights[low:high]]
            belief = dict(zip(keys[low:high], masses, strict=True))
            require(min(masses, default=1) > 0 and len(belief) == high - low, "beliefs: one of them is none")
            points.append((belief, after))
        return points

    def is_settled(self, time):
        return self.secret.kind == "once" and self.secret.time <= time

    def after(self, time, belief):
        """For each action that is available in all states of a belief: what its events lead to, by event."""
        actions = set.intersection(*({*self.walk.record.moves(key.x)} for key in belief), {*range(self.actions)})
        require(actions, "beliefs: no action is available in all states of one")
        longer = {action: self.walk.longer(time, belief, None, action) for action in actions}
        return {action: {event: summed(one) for event, one in longer[action]} for action in actions}

    def left(self, time, belief):
        """What still counts if x is told."""
        rows = defaultdict(list)
        for key, mass in belief.items():
            rows[key.x].append(mass)
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
            pays = [mass / ONE * self.pays[time][key.x, action] for key, mass in belief.items()]
            for event, one in events.items():
                counts = child is not None or not self.is_settled(time)
                pays.append(self.walk.now(time + 1, one) if counts else 0.0)
                pays.append(self.left(time + 1, one) if child is None else self.worth(time + 1, one, child[event]))
            scores.append(math.fsum(pays))
        return min(scores)

    def total(self, first):
        """The bound, from the starts on; each of its sums has a relative error below 2^-49."""
        self.told, self.values = {self.horizon: [self.pays[self.horizon][x, 0] for x in range(self.size)]}, []
        for time in range(self.horizon - 1, -1, -1):
            points = self.points[time] if time < len(self.points) else []
            self.values = [self.least(time, belief, child) for belief, child in points]
            keys = (Key((), x, (0,)) for x in range(self.size))
            self.told[time] = [self.least(time, {key: ONE}, None) for key in keys]
        observer = self.walk.record.observers[self.secret.receives]
        require(len(first) == observer.first, "beliefs: the first are not one for each event")
        starts = self.walk.begun().items()
        found = [self.walk.now(0, one) + self.worth(0, one, first[event]) for event, one in starts]
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
    limit = worth_of_bounds(told["prices"], record, claim)
    priced = [(Fraction(price) * one.sign, one) for price, one in zip(told["prices"], record.quantities, strict=True)]
    found = Witness(record, priced, told, arrays).total(arrays["beliefs.first"]) + limit
    require(told["lower"] <= found, f"beliefs: at least {told['lower']} is claimed, and {float(found)} is found")
    require(told["lower"] <= claim["channels"][0]["upper"], "beliefs: more than the policy hides")
    return [f"no policy that sees what the observer sees hides less than {float(found):.9f} bits"]


# Statistical claims


class Draws:
    """The draws of this program: `doubt` is what is left of 1 by the confidence, `source` the randomness."""

    def __init__(self, confidence=1 - 1e-6, sequences=None, seed=None):
        require(0 < confidence < 1, "the confidence is not between 0 and 1", NotChecked)
        few = sequences is None or 1 < sequences <= MOST_SEQUENCES
        require(few, "the sequences are too few or too many", NotChecked)
        self.doubt, self.sequences, self.claims = 1 - confidence, sequences, 1
        self.source = random.SystemRandom() if seed is None else random.Random(seed)

    def bear_out(self, what, claimed, draw, ends, sequences, error, clockless=False):
        """Draw until an interval for the mean of numbers between two ends, each wrong by at most `error`, lies within
        what is claimed; each round has a share of the doubt. `clockless`: the draws say nothing from above."""
        (low, high), sums, drawn, rounds, most = ends, [0.0, 0.0], 0, 0, 16 * (self.sequences or sequences)
        while True:
            target = min(most, max(512, 3 * drawn // 2))
            for value in (draw() - low for _ in range(target - drawn)):
                sums = [sums[0] + value, sums[1] + value * value]
            drawn, rounds = target, rounds + 1
            logarithm = math.log(4 * self.claims * 2**rounds / self.doubt)
            mean, variance = sums[0] / drawn, max(0.0, (sums[1] - sums[0] ** 2 / drawn) / (drawn - 1))
            off = math.sqrt(2 * variance * logarithm / drawn) + 7 * (high - low) * logarithm / (3 * (drawn - 1))
            off = 1.0001 * (off + error) + 1e-9 * (high - low)
            found = max(low, low + mean - off), high if clockless else min(high, low + mean + off)
            if claimed[0] <= found[0] and found[1] <= claimed[1]:
                return found, drawn
            words = f"{what}: {float(claimed[0])} … {float(claimed[1])} is claimed with confidence, and"
            require(drawn < most, f"{words} {float(found[0])} … {float(found[1])} is found in {drawn:,} sequences")


class Runs:
    """Runs of a policy that are drawn."""

    def __init__(self, walk, source):
        self.walk, self.source, self.ways = walk, source, cache(self.ways_of)
        self.starts = [(events[walk.place], key, chance) for key, events, chance in walk.begin()]
        self.begun = {event: normal(weights) for event, weights in walk.begun().items()}

    def ways_of(self, time, key):
        """What a key leads to: pairs (event, key), and running sums to draw from."""
        ways = [(event, *way) for event, ways in self.walk.step(time, key).items() for way in ways]
        return [(event, there) for event, there, _ in ways], list(accumulate(chance / ONE for *_, chance in ways))

    def draw(self):
        """The events of the observer that counts, and the keys that are passed."""
        ((event, key, _),) = self.source.choices(self.starts, [chance for *_, chance in self.starts])
        passed = [(event, key)]
        for time in range(self.walk.horizon):
            ways, ends = self.ways(self.walk.at(time), passed[-1][1])
            passed += self.source.choices(ways, cum_weights=ends)
        return zip(*passed, strict=True)

    def bits(self):
        """What counts after one sequence of events; of a path each part after the events up to its time."""
        walk, ((first, *events), _) = self.walk, self.draw()
        belief = self.begun[first]
        found = walk.now(0, belief)
        for time, event in enumerate(events):
            ((_, sources),) = walk.longer(time, belief, event)
            if walk.tells:
                found += entropy(sources.values()) * ONE / sum(map(sum, sources.values()))
            belief = normal(summed(sources))
            found += walk.now(time + 1, belief)
        return found

    def paid(self, pays):
        """What one run pays, by the mean of each decision."""
        total, end, (_, keys) = 0, self.walk.horizon, self.draw()
        for time, key in enumerate(keys[:-1]):
            decisions = self.walk.decisions(time, key)
            total += sum(share * pays(time, key.x, action) for share, action, _ in decisions) / ONE
        return (total + pays(end, keys[-1].x, 0)) / ONE


def normal(weights):
    """Weights that sum to one, rounded down."""
    total = sum(weights.values())
    return {key: mass * ONE // total for key, mass in weights.items()}


def check_drawn(walk, channel, draws):
    """A statistical claim on the bits of a channel."""
    told, name, most = channel["sampled"], channel["name"], walk.most
    require(walk.kind != "path" or walk.tells, "a path with too many values", NotChecked)
    if walk.tells:  # what a part adds is at most what its key can be
        most = sum(log2_count(len(layer)) for layer in walk.layers(walk.horizon))
    claimed, error, draw = (told["lower"], told["upper"]), 1e-9 * float(1 + most), Runs(walk, draws.source).bits
    found, drawn = draws.bear_out(name, claimed, draw, (0, float(most)), told["sequences"], error, walk.untimed)
    return f"at least {float(found[0]):.6f} bits in {name} with confidence ({drawn:,} sequences)"


def check_drawn_value(record, policy, claim, quantity, draws):
    """A statistical claim on a quantity."""
    value, error, unit = Fraction(claim["value"]), Fraction(claim["error"]), float(quantity.unit)
    require(not quantity.endless, "draws of a return over an infinite horizon", NotChecked)
    runs, most = Runs(Walk(record, (), policy), draws.source), float(quantity.most) * (1 + 1e-12)
    pays, claimed = payments([(1 / quantity.unit, quantity)], record.horizon), (value - error, value + error)
    draw, ends = lambda: runs.paid(pays) * unit, (-most, most)
    draws.bear_out(quantity.name, claimed, draw, ends, claim["sequences"], 1e-12 * most)
    if claim["bound"] is not None:
        met = quantity.sign * (value - Fraction(claim["bound"])) >= error
        require(claim["met"] is met, f"{quantity.name}: met is {claim['met']}")


# The certificate


def check_items(claim, record):
    """The items of a certificate are about the quantities, channels and bounds of the problem."""
    hidden, opaque = claim["hidden"], claim["goal"] == "opaque"
    require(len({*hidden}) == len(hidden) > 0, "hidden: a channel comes twice, or there is none")
    require(max(hidden) < len(record.channels), "hidden: a channel does not exist")
    asked = [one for one in record.channels if one.number in (0, *hidden) or one.min or one.max is not None]
    asked = asked if len(claim["channels"]) > 1 or hidden != [0] else asked[:1]
    told = [[one[name] for name in ("number", "name", "min", "max")] for one in claim["channels"]]
    wanted = [[one.number, one.name, one.min, one.max] for one in asked]
    require(told == wanted, f"the channels (number, name, min, max) are {told}, expected {wanted}")
    require(opaque or len(told) == 1, "nothing is proven of other channels with this goal")
    for one in claim["channels"]:
        require(one["lower"] <= one["upper"], f"{one['name']}: its bounds do not fit each other")
    delays = [one["delay"] for one in claim["bounds"]]
    require(delays in ([0], [0, 1]) if opaque else not delays, "the bounds are others")
    require(len(delays) < 2 or 0 in hidden, "a bound with a delay is about the problem's own channel")
    require(len(claim["quantities"]) == len(record.quantities), "the quantities are not those of the problem")
    for one, given in zip(claim["quantities"], record.quantities, strict=True):
        check_quantity_item(one, given, opaque)


def check_quantity_item(one, given, opaque):
    same = [one["name"], one["relation"]] == [given.name, "≤≥"[given.sign > 0]]
    alike = type(one["bound"]) is type(given.bound) and one["bound"] == given.bound
    same = same and (alike or isinstance(given.bound, str))
    require(same, f"{given.name}: another quantity, or another bound, is claimed")
    plain = one["bound"] is not None or (given.bound is None and one["met"])
    proven = one["factor"] == 0 or (opaque and one["sequences"] == 0)
    require(plain and proven, f"{given.name}: it has no bound to meet, or a task counts what is not proven")


def check_quantities(record, policy, claim, values, draws):
    """Every quantity of the certificate, and that percentages are what they say."""
    for one, quantity in zip(claim["quantities"], record.quantities, strict=True):
        if isinstance(quantity.bound, str):
            check_percentage(record, quantity, one["bound"], values)
        if one["sequences"]:
            check_drawn_value(record, policy, one, quantity, draws)
        else:
            check_value(record, policy, one, quantity, values)


def check(folder, draws=None):
    """Raise `Lie` unless everything that the certificate claims is so; returns the recomputed numbers in words."""
    claim, draws = parse(read(folder / "certificate.json")), draws or Draws()
    require(claim["form"] == FORM, "certificate.json has an unknown form", NotChecked)
    check_form(claim, CERTIFICATE, "certificate.json")
    content, stored = read(folder / "problem.bin"), read(folder / Path(claim["arrays"]).name)
    require(hashlib.sha256(stored).hexdigest() == claim["arrays_sha256"], "the arrays are others")
    arrays, register = {name: nested(*one) for name, one in safetensors(stored)[1].items()}, claim["register"]
    if register is not None:
        register = {**register, **{name: arrays[f"register.{name}"] for name in ("start", "step", "codes", "label")}}
    record = Record(content)
    policy = read_policy(folder / "policy.safetensors", register, record)
    told = [claim[f"{one}_hash"] for one in ("problem", "record", "policy")]
    require(told == [record.problem, record.digest, policy.digest], "the problem or the policy is another one")
    check_items(claim, record)
    sampled = sum(one["sampled"] is not None for one in claim["channels"])
    draws.claims = max(1, sampled + sum(one["sequences"] > 0 for one in claim["quantities"]))
    found = {one["number"]: check_channel(record, policy, one, claim["goal"], draws) for one in claim["channels"]}
    check_quantities(record, policy, claim, arrays.get("values", []), draws)
    seeing = len(claim["bounds"]) > 1 and policy.hears
    require(not seeing, "a bound with a delay, and a policy that acts on observations")
    uppers = [check_upper(record, claim, one, arrays, f"bounds.{n}.") for n, one in enumerate(claim["bounds"])]
    lower = min(found[one][0] for one in claim["hidden"])
    bits = " and ".join([f"{lower:.9f}", *(f"{float(upper):.9f}" for upper in uppers)])
    words = f"the certificate holds: recomputed {bits} bits, return {claim['quantities'][0]['value']:.9g}"
    drawn = [text for _, texts in found.values() for text in texts]
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
    collects = gc.isenabled()
    gc.disable()  # of all that is made here hardly anything is garbage
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
    finally:
        if collects:
            gc.enable()


if __name__ == "__main__":
    answer, code = main(sys.argv[1:])
    print(answer)
    sys.exit(code)
