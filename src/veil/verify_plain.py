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

How it works: an `Arena` has the moves of the hidden states x, with what observers receive and the values z of secrets.
A follower remembers something of that: a policy (`TableAgent`, `HistoryAgent`), the observers of a bound (`Guesses`),
or `Nobody`. A `Walk` has the keys (memory, x, z) that are reached step by step. Everything is one pass over them:
forward with the weights of each history (`hidden_bits`, `Sampler`), or backward with the most that is paid
(`most_paid`: quantities of a policy, upper bounds over all, ranges of percentages). `Witness` goes backward over
beliefs.
"""

# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportOptionalSubscript=false, reportOptionalIterable=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# Fields of any kind are read from files; types are checked where numbers are used.
# ruff: noqa: D102, D103

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
from operator import mul
from pathlib import Path

BITS = 160
ONE = 1 << BITS  # probabilities and bits are whole numbers of 2^-160
MOST_ENTRIES = 2_000_000  # of a layer, about a gigabyte
MOST_BYTES = 1 << 28  # of a file
MOST_STEPS = 2000  # of a horizon
MOST_SEQUENCES = 10_000_000
KINDS = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u1": "B"}
FORM, PROBLEM_FORM, POLICY_FORM = "veil-certificate-8", "veil-record-1", "veil-policy-1"
ALWAYS = 1 << 40  # stands for all times at which moves are alike
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
        status = os.fstat(file.fileno())
        require(stat.S_ISREG(status.st_mode), f"{path} is not an ordinary file", NotChecked)
        require(status.st_size <= MOST_BYTES, f"{path} has more than {MOST_BYTES:,} bytes", NotChecked)
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
    """Metadata, and for each array its shape and flat list of numbers."""
    end = 8 + int.from_bytes(content[:8], "little")
    head, data, arrays = parse(content[8:end]), content[end:], {}
    metadata = head.pop("__metadata__", {})
    for name, entry in head.items():
        kind = f"{entry['dtype'][0].lower()}{int(entry['dtype'][1:]) // 8}"
        begin, stop = entry["data_offsets"]
        flat = [value for (value,) in struct.iter_unpack(f"<{KINDS[kind]}", data[begin:stop])]
        arrays[name] = entry["shape"], flat
    return metadata, arrays


def array_lists(arrays):
    return {name: nested(shape, flat) for name, (shape, flat) in arrays.items()}


# The forms of JSON texts: a type, what a function accepts, a list of a form, or an object with fields


def number(value):
    """A finite number of a double: no text, truth value, infinity or NaN."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def amount(value):
    return number(value) and value >= 0


def count(value):
    return type(value) is int and 0 <= value < 1 << 31


def positive(value):
    return count(value) and value > 0


def sequences(value):
    return count(value) and value <= MOST_SEQUENCES


def optional(form):
    return lambda value: value is None or form(value)


def among(*words):
    return lambda value: type(value) in map(type, words) and value in words


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


PROBLEM = {
    "problem": str, "states": positive, "actions": positive, "horizon": count, "endless": bool, "cells": positive,
    "agent": count, "blind": bool, "knows_model": bool,
    "observers": [{
        "observations": positive, "tables": positive, "silent": lambda one: one == -1 or count(one),
        "sees_actions": bool, "sees_first": bool, "untimed": bool,
    }],
    "channels": [{
        "name": str, "min": optional(amount), "max": optional(amount), "receives": count, "refused": str,
        "kind": among("once", "path", "each"), "time": count, "values": positive, "ahead": count,
    }],
    "quantities": [{
        "name": str, "sign": among(-1, 1), "bound": optional(lambda one: type(one) is str or number(one)),
        "discount": lambda one: amount(one) and one <= 1,
    }],
}  # fmt: skip
SAMPLED = {"lower": amount, "upper": amount, "sequences": lambda one: sequences(one) and one > 1}
REGISTER = {"nodes": positive, "time": lambda one: type(one) is int}
CERTIFICATE = {
    "form": str, "arrays": str, "arrays_sha256": str, "problem_hash": str, "record_hash": str, "policy_hash": str,
    "goal": among("opaque", "transparent"), "hidden": [count],
    "quantities": [{
        "name": str, "relation": among("≤", "≥"), "bound": optional(number), "value": number, "error": amount,
        "met": bool, "sequences": sequences, "factor": number,
    }],
    "channels": [{
        "number": count, "name": str, "min": optional(amount), "max": optional(amount), "lower": amount,
        "upper": amount, "window": [lambda one: type(one) is int], "prune": amount, "merge": count,
        "sampled": optional(lambda one: check_form(one, SAMPLED, "sampled")),
    }],
    "bounds": [{
        "delay": among(0, 1), "upper": number, "prices": [amount],
        "rules": [{"channel": count, "weight": amount, "memory": str, "steps": [count]}],
    }],
    "register": optional(lambda one: check_form(one, REGISTER, "register")),
    "beliefs": optional(lambda one: check_form(one, {"lower": number, "prices": [amount], "times": count}, "beliefs")),
    **dict.fromkeys(("best_known", "policy_class", "bound_class", "versions", "claim", "seal"), lambda one: True),
}  # fmt: skip


# Numbers


def distribution(numbers, places=None):
    """The places of a distribution, given in floats, that have a positive probability, with these, rounded down."""
    exact = [Fraction(value) for value in numbers]
    total = sum(exact)
    require(exact and min(exact) >= 0 and abs(total - 1) < Fraction(1, 10**6), "a row is not a distribution")
    pairs = zip(range(len(exact)) if places is None else places, exact, strict=True)
    return [(place, int(ONE * part / total)) for place, part in pairs if part]


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


# The problem


class Rows:
    """Distributions, of which row i has the entries `ends[i] … ends[i + 1] − 1` of `column` and `chance`."""

    def __init__(self, arrays, name, rows, columns):
        self.ends, self.column, self.chance = (arrays[f"{name}.{part}"] for part in ("ends", "column", "chance"))
        fits = len(self.ends) == rows + 1 and self.ends == sorted(self.ends) and self.ends[0] == 0
        fits = fits and self.ends[-1] == len(self.column) == len(self.chance)
        require(fits and all(0 <= one < columns for one in self.column), f"{name} are of another size")
        self.row = cache(self.row_of)

    def row_of(self, row):
        """The places that a row leads to, with their probabilities."""
        part = slice(self.ends[row], self.ends[row + 1])
        places = self.column[part]
        require(len({*places}) == len(places), "a row has an entry twice")
        return distribution(self.chance[part], places) if places else []


class Observer:
    """What is received of a state, or (action, state): `at` has the number of the table of each time, -1 for none."""

    def __init__(self, head, arrays, own, record):
        vars(self).update(head)
        self.states, self.at, tables = record.states, arrays[f"{own}at"], range(head["tables"])
        sizes = [len(arrays[f"{own}tables.{n}.ends"]) - 1 for n in tables]
        self.tables = [Rows(arrays, f"{own}tables.{n}", sizes[n], self.observations) for n in tables]
        self.by_action = [size > record.states for size in sizes]
        fits = {*sizes} <= {record.states, record.states * record.actions}
        fits = fits and len(self.at) == record.horizon + 1 and all(-1 <= n < len(sizes) for n in self.at)
        silent = (0 if self.untimed or min(self.at) < 0 else -1) <= self.silent < self.observations
        require(fits and silent, "the times of an observer, or its silent observation, are others")
        require(not (self.untimed and self.sees_actions), "an observer without a clock sees actions")
        self.varies, self.by_choice = len({*self.at[1:]}) > 1, self.sees_actions or any(self.by_action)
        self.events = self.observations * (record.actions if self.sees_actions else 1)

    def row(self, time, state, action):
        """The probabilities of events; at a time at which nothing is received, the silent one is certain."""
        table = self.at[time if time < len(self.at) else min(1, len(self.at) - 1)]
        more = action * self.observations if self.sees_actions and time else 0
        if table < 0:
            return [(self.silent + more, ONE)]
        row = self.tables[table].row(action * self.states * self.by_action[table] + state)
        return [(event + more, part) for event, part in row]


class Channel:
    """A secret and the observer who wants it; `receives`: the number of that observer."""

    def __init__(self, number_of, head, arrays, record):
        vars(self).update(head)
        own, self.number = f"channels.{number_of}.", number_of
        self.value, self.situation = arrays[f"{own}value"], arrays[f"{own}situation"]
        self.weights = arrays[f"{own}weights"] if self.kind == "each" else []
        fits = len(self.value) == len(self.situation) == record.size and all(-1 <= z < self.values for z in self.value)
        fits = fits and len(self.weights) in (0, record.horizon + 1) and all(map(amount, self.weights))
        fits = fits and self.time <= record.horizon and max(self.receives, record.agent) < len(record.observers)
        require(fits, "a secret, or its time, is of another size, or there is no such observer")
        # The most bits that it can hide.
        self.most = log2_count(self.values ** (record.horizon + 1 if self.kind == "path" else 1))
        if self.kind == "each":
            self.most *= sum(map(Fraction, self.weights))


class Quantity:
    """`sign · bound ≤ sign · E[Σ d^t rewards + d^T terminal]`."""

    def __init__(self, number_of, head, arrays, record):
        vars(self).update(head)
        own, self.is_return, self.discount = f"quantities.{number_of}.", number_of == 0, Fraction(head["discount"])
        self.rewards, self.terminal = arrays[f"{own}rewards"], arrays[f"{own}terminal"]
        fits = len(self.rewards) == len(self.terminal) == record.size
        require(fits and all(len(row) == record.actions for row in self.rewards), "rewards are of another size")
        self.largest = Fraction(max(abs(one) for row in self.rewards for one in row))
        self.last = Fraction(max(map(abs, self.terminal)))
        self.unit = Fraction(2) ** math.frexp(float(max(self.largest, self.last)))[1]
        self.endless = self.is_return and record.endless
        require(not self.endless or self.discount < 1, "the return over an infinite horizon has no discount")
        # The largest sum over a run, whatever the signs.
        self.most = self.largest * sum(self.discount**t for t in range(record.horizon)) + self.last
        if self.endless:
            self.most = self.largest / (1 - self.discount)


class Record:
    """The problem in `problem.bin`: hidden states x with their moves, observers, channels, quantities, and agent."""

    def __init__(self, content):
        self.digest = hashlib.sha256(content).hexdigest()
        metadata, arrays = safetensors(content)
        form, _, text = metadata["veil"].partition(" ")
        require(form == PROBLEM_FORM, "problem.bin has an unknown form", NotChecked)
        head, arrays = parse(text.encode()), array_lists(arrays)
        check_form(head, PROBLEM, "problem.bin")
        vars(self).update(head)
        require(self.horizon <= MOST_STEPS, "the horizon is too long", NotChecked)
        self.model, self.state, self.cell = (arrays[one] for one in ("model", "state", "cell"))
        self.size = len(self.state)
        fits = len(self.model) == len(self.cell) == self.size and all(0 <= s < self.states for s in self.state)
        require(fits, "the hidden states are of another size")
        rows = Rows(arrays, "moves", self.size * self.actions, self.size)
        self.moves = cache(lambda x, action: rows.row(x * self.actions + action))
        self.starts = self.read_starts(arrays)
        self.observers = [Observer(one, arrays, f"observers.{n}.", self) for n, one in enumerate(head["observers"])]
        self.channels = [Channel(n, one, arrays, self) for n, one in enumerate(head["channels"])]
        names = {one.name for one in self.channels}
        require(len(names) == len(self.channels), "problem.bin has two channels of one name")
        self.quantities = [Quantity(n, one, arrays, self) for n, one in enumerate(head["quantities"])]
        self.available = cache(lambda x: [action for action in range(self.actions) if self.moves(x, action)])

    def read_starts(self, arrays):
        """Every first hidden state, with its probability: that of its model, times that of its state in it."""
        parts = list(zip(arrays["starts"], arrays["starts.model"], arrays["starts.state"], strict=True))
        models = {self.model[x]: weight for x, weight, _ in parts}
        alike = all(models[self.model[x]] == weight for x, weight, _ in parts)
        alike = alike and len({x for x, _, _ in parts}) == len(parts)
        require(alike, "a start comes twice, or a model has two weights")
        starts = []
        for k, weight in distribution(models.values(), models):
            own = [(x, chance) for x, _, chance in parts if self.model[x] == k]
            begun = distribution([chance for _, chance in own], [x for x, _ in own])
            starts += [(x, weight * chance >> BITS) for x, chance in begun]
        return starts

    def source(self, channel):
        """Whose observations the observer of a channel, or the agent, receives: the number of an observer."""
        return self.agent if channel == AGENT else self.channels[channel].receives


class Arena:
    """The moves of a problem, the values of the secrets of the channels `asked`, and what the observers of the channels
    `watched` receive: an event is a tuple of what each receives, independently given the hidden state. Late, an
    observation is received one step later, and a last step follows the end."""

    def __init__(self, record, asked=(), watched=(), late=0):
        self.record, self.late, self.horizon = record, late, record.horizon + late
        self.secrets = [record.channels[n] for n in asked]
        self.sources = list(dict.fromkeys(map(record.source, watched)))
        self.observers = [record.observers[one] for one in self.sources]
        self.place = {n: self.sources.index(record.source(n)) for n in watched}
        self.kind = self.secrets[0].kind if self.secrets else ""
        self.settling = {one.time for one in self.secrets if one.kind == "once"}
        self.varies = any(one.varies for one in self.observers)
        self.by_choice = any(one.by_choice for one in self.observers)
        self.most = max((one.most for one in self.secrets), default=0)
        self.untimed = any(record.observers[one.receives].untimed for one in self.secrets)
        self.check_together()
        self.shown = cache(self.shown_of)
        self.starts = [
            (x, event, mass * part >> BITS) for x, mass in record.starts for event, part in self.seen(0, x, x, 0)
        ]

    def check_together(self):
        """Whether a bound is known for these channels."""
        kinds, watching = {one.kind for one in self.secrets}, {one.receives for one in self.secrets}
        for one in self.secrets:
            require(not one.refused, f"{one.name}: {one.refused}")
        require(kinds <= {"once"} or len(self.secrets) == 1, "several channels, and one whose secret is not one value")
        require(len(watching) < 2 or not self.untimed, "several observers, of which one has no clock")
        require(self.kind != "each" or not self.untimed, "values at every time, and an observer without a clock")
        if self.late:
            (own,), times = self.observers, {*self.observers[0].at}
            plain = [one.number for one in self.secrets] == [0] and kinds == {"once"} and len(times) == 1
            require(plain and not own.by_choice and min(times) >= 0, "a bound with a delay is not about such a problem")

    def shown_of(self, time, state, action):
        """What the observers receive of a state: pairs (event, probability)."""
        rows = [one.row(time, state, action) if time or one.sees_first else [(0, ONE)] for one in self.observers]
        parts = [(tuple(event for event, _ in row), [part for _, part in row]) for row in product(*rows)]
        return [(event, reduce(lambda a, b: a * b >> BITS, part, ONE)) for event, part in parts]

    def seen(self, time, x, y, action):
        """What is received at a time, after a move from x to y: of the state y; late, of the state x."""
        if self.late and not time:
            return [((0,) * len(self.observers), ONE)]
        time, state = time - self.late, self.record.state[x if self.late else y]
        return self.shown(time if self.varies or not time else 1, state, action if self.by_choice else 0)

    def actions(self, time, x):
        """The next hidden states after each available action: [(action, [(y, probability)])]."""
        if time >= self.record.horizon and self.late:
            return [(0, [(x, ONE)])]
        return [(action, self.record.moves(x, action)) for action in self.record.available(x)]

    def settled(self, time, x, before):
        """The value of each secret, 0 before its time."""
        if time and time not in self.settling:
            return before
        values = list(before) or [0] * len(self.secrets)
        for place, one in enumerate(self.secrets):
            if time == one.time and one.kind == "once":
                values[place] = one.value[x]
                require(values[place] >= 0, "a secret has no value in a state that can occur")
        return tuple(values)

    def code(self, x):
        """What a rule for a path tells apart: the situation where path and events tell it, else what the path shows."""
        return self.secrets[0].situation[x] if self.tells else self.secrets[0].value[x]

    @cached_property
    def tells(self):
        """Whether path and events tell the first x, and every next one where x is known, of those that are reached."""
        if self.kind != "path" or len(self.sources) > 1:
            return False
        known, layers, path = {}, [{x for x, _, _ in self.starts}], self.secrets[0].value
        moves = cache(lambda x: {(action, y) for action, row in self.actions(0, x) for y, _ in row})
        for _ in range(self.horizon):
            layers.append({y for x in layers[-1] for _, y in moves(x)})
        every = set().union(*layers)
        steps = [(None, x, event) for x, event, _ in self.starts]
        for time in range(1, self.horizon + 1 if self.varies else min(2, self.horizon + 1)):
            before, after = (layers[time - 1], layers[time]) if self.varies else (every, every)
            reached = ((x, action, y) for x in before for action, y in moves(x) if y in after)
            steps += [((time, x), y, event) for x, action, y in reached for event, _ in self.seen(time, x, y, action)]
        return all(known.setdefault((x, event, path[y]), y) == y for x, y, event in steps)


# Who follows what is seen


class Nobody:
    """Remembers nothing. What follows a walk says what it remembers after a move, and what each key costs, in bits."""

    looks_back = False  # whether that depends on the state that is left
    draws = 1  # among how many nodes a policy draws together with the action
    timed = True  # whether it may act otherwise at other times

    def after(self, time, memory, x, y, events):
        return ()

    def cost(self, time, memory, x, z):
        return 0

    def cost_of_move(self, time, memory, x, y):
        return 0


class Policy:
    """A policy by its file; its hash is that of its kind and all numbers in 64 bits. With a memory, or for an agent
    that does not see its state, `register` (of the certificate) says what it remembers; a history policy acts on what
    the observers of the channels `sees` receive."""

    def __init__(self, path, register):
        metadata, arrays = safetensors(read(path))
        form, kind, *head = metadata["veil"].split(" ", 2)
        require(form == POLICY_FORM, "policy.safetensors is not a policy")
        shape, flat = arrays["probabilities"]
        self.register, self.history, self.sees = register, kind == "history", []
        if self.history:
            kind, arrays = self.read_history(parse(head[0].encode()), bytes(flat))
        else:
            require(kind in ("markov", "timed", "memory"), f"the policy is of the kind {kind!r}", NotChecked)
            self.timed = kind == "timed" or (kind == "memory" and '"clock":true' in head[0])
            arrays = [("f", shape if self.timed else [1, *shape], flat)]
            self.table = nested(*arrays[0][1:])
            self.remembers = kind == "memory"
            kind = ("timed" if self.timed else "markov") + (f", memory {head[0]}" if self.remembers else "")
        digest = hashlib.sha256(f"veil policy, form 1: {kind}; {len(arrays)} arrays".encode())
        for letter, shape, flat in arrays:
            numbers, code = ([one + 0.0 for one in flat], "d") if letter == "f" else (flat, "q")
            digest.update(f"<{letter}8{tuple(shape)};".encode() + struct.pack(f"<{len(flat)}{code}", *numbers))
        self.digest = digest.hexdigest()

    def read_history(self, head, content):
        """The graph of nodes, and for each time the rows (node, situation, value) with their probabilities."""
        arrays, place = [], 0
        for name, *shape in head["arrays"]:
            size = struct.calcsize(form := f"<{math.prod(shape)}{KINDS[name.lstrip('<>|')]}")
            arrays.append((name.lstrip("<>|")[0], shape, struct.unpack(form, content[place : place + size])))
            place += size
        horizon, self.told_at, self.sees = head["horizon"], head["told_at"], head.get("sees") or []
        self.timed, self.remembers, self.table, self.views = True, bool(self.sees), [], None
        self.first, *parts = [nested(shape, flat) for _, shape, flat in arrays]
        self.following, rows, rest = parts[:horizon], parts[horizon : 5 * horizon], parts[5 * horizon :]
        for *keys, chances in [rows[4 * time : 4 * time + 4] for time in range(horizon)]:
            keys = list(zip(*keys, strict=True))
            require(all(a < b for a, b in pairwise(keys)), "policy: its rows do not increase")
            self.table.append(dict(zip(keys, chances, strict=True)))
        self.told, views = rest[: self.told_at is not None], rest[self.told_at is not None :]
        require(place == len(content) and len(views) == 2 * len(self.sees), "policy: its arrays do not fit")
        if self.sees:
            later = [any(row[event] >= 0 for step in self.following for row in step) for event in range(len(views[1]))]
            possible = [node >= 0 for node in self.first], later
            seen = [list(zip(*views[late::2], strict=True)) for late in (0, 1)]
            self.views = [{one: n for n, one in enumerate(seen[late]) if possible[late][n]} for late in (0, 1)]
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

    def agent(self, arena):
        require(not self.timed or len(self.table) == arena.record.horizon, "policy: it is not one of so many steps")
        return (HistoryAgent if self.history else TableAgent)(self, arena)


class TableAgent(Nobody):
    """A table over what the agent knows and holds: m · draws + node, m of an automaton on events, node its choice."""

    def __init__(self, policy, arena):
        self.policy, self.arena, record = policy, arena, arena.record
        self.held = policy.register if policy.remembers or record.blind else None
        self.rows, self.timed, size = {}, policy.timed, record.cells
        if self.held:
            self.draws, self.looks_back, codes = self.held["nodes"], len(self.held["step"][0]) > 1, self.held["codes"]
            require(all(a < b for a, b in pairwise(codes)), "policy: its rows do not increase")
            self.rows, size = {code: n for n, code in enumerate(codes)}, len(codes)
            alone = len(self.held["start"]) == len(self.held["step"][0]) == len(self.held["step"][0][0]) == 1
            require(alone or not record.blind, "policy: what it remembers depends on the state, which it does not see")
        width = {len(row) for table in policy.table for row in table}
        fits = {len(table) for table in policy.table} <= {size} and width <= {record.actions * self.draws}
        require(fits, "policy: its table is of another size")
        self.place = arena.place.get(AGENT if record.blind else 0)

    def after(self, time, memory, x, y, events):
        """What it holds on reaching y, but for the node."""
        if not self.held:
            return 0
        event, state = 0 if self.place is None else events[self.place], self.arena.record.state
        if time:
            index, table = [memory // self.draws, 0 if x is None else state[x], state[y], event], self.held["step"]
        else:
            first = self.place is None or self.arena.observers[self.place].sees_first
            index, table = [state[y], event + 1 if first else 0], self.held["start"]
        for place, one in enumerate(index):
            table = table[one if (time and place == 0) or len(table) > 1 else 0]
        known = 0 <= table < len(self.held["step"]) * (1 if time else self.draws)
        require(known, "policy: it does not say what it remembers")
        return table * self.draws if time else table

    def choices(self, time, memory, x):
        """Pairs ((action, next node), probability)."""
        row = self.arena.record.cell[x]
        if self.held:
            row = self.rows.get(row * len(self.held["step"]) * self.draws + memory)
            require(row is not None, "policy: it has no row for something that it reaches")
        shares = distribution(self.policy.table[time if self.timed else 0][row])
        return [(divmod(choice, self.draws), share) for choice, share in shares]


class HistoryAgent(Nobody):
    """What it remembers is (node, m of its situations beside the hidden state, value that it acts on, -1 before)."""

    def __init__(self, policy, arena):
        self.policy, self.record, own = policy, arena.record, arena.record.channels[0]
        self.held, self.time = policy.register if policy.sees else None, own.time
        self.value = own.value if own.kind == "once" else [0] * self.record.size
        require(self.held is not None or not policy.sees, "policy: what its situations remember is not told")
        if self.held:
            self.time = self.held["time"]
        self.places = [arena.place[n] for n in policy.hears(arena.record)]

    def after(self, time, memory, x, y, events):
        policy, seen, s = self.policy, tuple(events[place] for place in self.places), self.record.state[y]
        event = policy.views[time > 0].get(seen, -1) if policy.views else seen[0]
        require(event >= 0, "policy: it does not know an event that it reaches")
        node, m, value = memory or (0, 0, -1)
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

    def choices(self, time, memory, x):
        node, m, value = memory
        row = self.policy.table[time].get((node, self.situation(m, x), value))
        require(row is not None, "policy: it has no row for something that it reaches")
        return [((action, 0), share) for action, share in distribution(row)]


class Guesses(Nobody):
    """The observers of a bound: what they remember, the nodes of their graphs, and what their guesses cost, in bits."""

    def __init__(self, arena, rules, arrays, under):
        self.arena, self.looks_back, weights = arena, arena.kind == "path", arena.secrets[0].weights
        self.places, self.tables, self.costs = [arena.place[rule["channel"]] for rule in rules], [], []
        for n, (rule, place) in enumerate(zip(rules, self.places, strict=True)):
            own, weight = f"{under}rules.{n}.", Fraction(rule["weight"])
            following = [arrays[f"{own}following.{step}"] for step in rule["steps"]]
            self.tables.append(self.graph(arena.observers[place], [arrays[f"{own}first"]], following))
            factors = {
                time: weight * Fraction(weights[time]) if weights else weight for time in range(arena.horizon + 1)
            }
            costs = self.read_costs(own, arrays).items()
            self.costs.append({time: priced(table, factors[time]) for time, table in costs if factors[time]})

    def graph(self, observer, first, following):
        """The tables of a graph, from a node (0 at first) by an event to the next. Late, a step comes before events."""
        require(len(first[0]) == (observer.observations if observer.sees_first else 1), "a graph is of another size")
        require(len(following) == self.arena.record.horizon, "a rule's graph does not have one table for each step")
        tables = [first, *following]
        strings = not observer.untimed or (holds_strings(observer, tables) and not self.looks_back)
        require(strings, "a rule of an observer without a clock needs one")
        return [[[0]], *tables] if self.arena.late else tables

    def read_costs(self, own, arrays):
        """By time the costs of (node, value); of a path those of (node there, next code, code), the last with code 0."""
        end, costs = self.arena.horizon, {}
        if not self.looks_back:
            names = [f"each.{time}" for time in range(end + 1)] if self.arena.kind == "each" else ["costs"]
            tables = [arrays[own + name] for name in names]
            return {end + 1 - len(names) + time: cells(table) for time, table in enumerate(tables)}
        for time in range(end + 1):
            keys, bits = [*map(tuple, arrays[f"{own}path_keys.{time}"])], arrays[f"{own}path_costs.{time}"]
            require(len({*keys}) == len(keys), "a rule for paths has a key twice")
            costs[time] = dict(zip(keys, bits, strict=True))
        return costs

    def after(self, time, memory, x, y, events):
        nodes = tuple([
            table[time][memory[n] if time else 0][events[place]]
            for n, (table, place) in enumerate(zip(self.tables, self.places, strict=True))
        ])  # fmt: skip
        require(min(nodes) >= 0, "a rule's graph ends before the horizon does")
        return nodes

    def cost(self, time, memory, x, z):
        places = range(len(self.costs)) if time == self.arena.horizon or not self.looks_back else ()
        back = (0,) * self.looks_back
        return sum(self.paid(time, n, (memory[n], *back, z[n])) for n in places if time in self.costs[n])

    def cost_of_move(self, time, memory, x, y):
        return self.paid(time - 1, 0, (memory[0], self.arena.code(y), self.arena.code(x))) if self.looks_back else 0

    def paid(self, time, n, key):
        require(key in self.costs[n][time], "a rule excludes something that a policy can reach")
        return self.costs[n][time][key]


def cells(table):
    return {(node, z): bits for node, row in enumerate(table) for z, bits in enumerate(row)}


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


class Walk:
    """The keys (memory, x, z) that are reached in an arena. A decision is (share, action, moves), the share None if any
    action may be taken; a move is (chance, departure), and a departure leads to keys by what is seen on arriving."""

    def __init__(self, arena, agent):
        self.arena, self.agent = arena, agent
        self.decides, self.back = hasattr(agent, "choices"), agent.looks_back or arena.late
        self.place, self.size = arena.place[arena.secrets[0].number] if arena.secrets else 0, 0
        # A memory that is drawn does not follow from path and events.
        self.tells = arena.tells and agent.draws == 1
        self.moves, self.coming, self.decided = cache(self.moves_of), cache(self.coming_of), cache(self.decisions_of)

    def begin(self):
        """Every start: (key, event, probability)."""
        for x, event, chance in self.arena.starts:
            yield (self.agent.after(0, (), None, x, event), x, self.follow(0, x, ())), event, chance

    def begun(self):
        """The weights of the keys at the start, by the event of the observer that counts."""
        weights = defaultdict(lambda: defaultdict(int))
        for key, event, chance in self.begin():
            weights[event[self.place]][key] += chance
        return weights

    def follow(self, time, x, z):
        """The values of the secrets; of a path that events do not tell, under a policy, all that it has shown."""
        arena = self.arena
        if arena.kind == "each":
            return (arena.secrets[0].value[x],)
        if arena.kind == "path":
            return (arena.code(x),) if self.tells or not self.decides else (*z, arena.secrets[0].value[x])
        return arena.settled(time, x, z)

    def at(self, time):
        """A time, or what stands for all times at which a policy moves alike."""
        return time if self.agent.timed or self.arena.varies or time + 1 in self.arena.settling else ALWAYS

    def decisions(self, time, key):
        """The decisions in a key: [(share, action, [(chance, departure)])]."""
        return self.decided(self.at(time), key) if self.decides else self.decisions_of(time, key)

    def decisions_of(self, time, key):
        memory, x, z = key
        left, moves, shown = x if self.back else None, dict(self.arena.actions(time, x)), self.arena.by_choice
        taken = [((action, 0), None) for action in moves]
        if self.decides:
            taken = self.agent.choices(time, memory, x)
            require({action for (action, _), _ in taken} <= {*moves}, "policy: an action is not available")
        return [(share, action, [(chance, (memory, left, y, z, action * shown, node)) for y, chance in moves[action]])
                for (action, node), share in taken]  # fmt: skip

    def arrivals(self, time, departure):
        """What a departure leads to at a time: [(key, event, probability)]."""
        memory, x, y, z, action, node = departure
        value = self.follow(time, y, z)
        for event, part in self.arena.seen(time, x, y, action):
            there = self.agent.after(time, memory, x, y, event)
            yield ((there + node if node else there), y, value), event, part

    def step(self, time, key):
        """All that a decision of a policy leads to, by the event of the observer that counts: {event: {key: chance}}. Where
        any action may be taken, it is the first."""
        return self.moves(self.at(time), key)

    def moves_of(self, time, key):
        chances, together = defaultdict(int), defaultdict(lambda: defaultdict(int))
        for share, _, moves in self.decisions(time, key) if self.decides else self.decisions(time, key)[:1]:
            for chance, departure in moves:
                chances[departure] += (ONE if share is None else share) * chance >> BITS
        for departure, chance in chances.items():
            for there, event, part in self.arrivals(time + 1, departure):
                together[event[self.place]][there] += chance * part >> BITS
        self.size += sum(map(len, together.values()))
        limited(self.size // 4, "a policy has too many moves")
        return {event: dict(ways) for event, ways in together.items()}

    def layers(self, steps):
        """The keys that are reached after 0, 1, … steps."""
        layers = [{key for key, _, _ in self.begin()}]
        for time in range(steps):
            left = {one for key in layers[-1] for _, _, moves in self.decisions(time, key) for _, one in moves}
            layers.append({key for one in left for key, _, _ in self.arrivals(time + 1, one)})
            limited(len(layers[-1]), "a pass has too many situations")
        return layers

    def counted(self, time, histories):
        """The bits that count at a time, of some histories: of what is secret in each, weighted by all of them."""
        own = self.arena.secrets[0]
        weight = own.weights[time] if own.weights else float(time == self.arena.horizon)
        return weight * entropy(self.joint(time, history).values() for history in histories) if weight else 0.0

    def joint(self, time, history):
        """The weights of what is secret at a time."""
        values = defaultdict(int)
        for key, mass in history.items():
            for value, part in self.secret(time, key):
                values[value] += mass * part >> BITS
        return values

    def secret(self, time, key):
        """What counts as secret at a time: [(value, probability)]."""
        if self.tells:
            return [(key, ONE)]
        ahead = min(self.arena.secrets[0].ahead, self.arena.horizon - time)
        return list(enumerate(self.coming(time, key, ahead))) if ahead else [(key[2], ONE)]

    def coming_of(self, time, key, steps):
        """The probabilities that value 1 does not come and that it comes, within so many steps."""
        if key[2] == (1,) or not steps:
            return [ONE * (key[2] != (1,)), ONE * (key[2] == (1,))]
        ways = [way for ways in self.step(time, key).values() for way in ways.items()]
        rows = [(chance, self.coming(time + 1, there, steps - 1)) for there, chance in ways]
        return [sum(chance * row[value] >> BITS for chance, row in rows) for value in (0, 1)]


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
    agent, late, layers = walk.agent, walk.arena.late, walk.layers(steps)
    values = {key: agent.cost(steps, *key) + (0 if late else pays(steps, key[1], 0)) for key in layers[-1]}
    for time in range(steps - 1, -1, -1):

        @cache
        def worth(departure, time=time, values=values):
            _, x, y, *_ = departure
            parts = walk.arrivals(time + 1, departure)
            return above([(part, values[key] + agent.cost_of_move(time + 1, key[0], x, y)) for key, _, part in parts])

        scores = {key: [(share, action, pays(time, key[1], action) + above([(part, worth(one)) for part, one in moves]))
                        for share, action, moves in walk.decisions(time, key)] for key in layers[time]}  # fmt: skip
        if pooled and not time:
            return first_together(walk, scores)
        values = {key: agent.cost(time, *key) + (above([(share, score) for share, _, score in own]) if walk.decides
                  else max(score for _, _, score in own)) for key, own in scores.items()}  # fmt: skip
    return above([(mass, values[key]) for key, _, mass in walk.begin()])


def first_together(walk, scores):
    """The largest mean of scores where the first action in a state of the model is one for all models."""
    sums = defaultdict(lambda: defaultdict(int))
    for key, _, mass in walk.begin():
        for _, action, score in scores[key]:
            sums[walk.arena.record.state[key[1]]][action] += mass * score
    return sum(max(own.values()) for own in sums.values()) >> BITS


def earned(record, policy, quantity, values):
    """Bounds on a quantity under a policy. Over an infinite horizon one that acts alike at all times is followed until
    the rest is small; for another one `values` are what an optimal continuation earns."""
    hears, steps, after = policy.hears(record), record.horizon, None
    arena = Arena(record, (), hears)
    walk = Walk(arena, policy.agent(arena))
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
    pays = (payments([(sign / quantity.unit, quantity)], steps, after) for sign in (1, -1))
    most, least = (most_paid(walk, one, steps) * quantity.unit / ONE for one in pays)
    return -least, most


def continuation(record, values, sign):
    """Between what the best continuation earns after the horizon in each x, for the return, or with sign −1 for its
    negative: the claimed values v, with an error of at most max |v − max_a (R + γ P v)| / (1 − γ)."""
    worst, quantity = Fraction(0), record.quantities[0]
    require(len(values) == 2 and len(values[0]) == len(values[1]) == record.size, "values: of another size")
    exact = [Fraction(one) for one in values[0 if sign > 0 else 1]]
    for x, claimed in enumerate(exact):
        later = {a: sum(chance * exact[y] for y, chance in record.moves(x, a)) / ONE for a in record.available(x)}
        worths = [sign * Fraction(quantity.rewards[x][a]) + quantity.discount * worth for a, worth in later.items()]
        worst = max(worst, abs(max(worths) - claimed))
    reach = (max(map(abs, exact)) + quantity.largest) * (record.states + 4)
    error = (worst + reach / (1 << 150)) / (1 - quantity.discount)
    return [one - error for one in exact], [one + error for one in exact]


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
    share, ends, error, allowed, after = Fraction(quantity.bound.removesuffix("%")) / 100, [], 0, 0, []
    require(0 <= share <= 1, f"{quantity.name}: its bound is no percentage")
    pooled = quantity.is_return and not record.knows_model
    steps = int(pooled) if quantity.endless else record.horizon
    if quantity.endless:
        ranges = [continuation(record, values, sign) for sign in (1, -1)]
        error, after = max(high[0] - low[0] for low, high in ranges), [high for _, high in ranges]
        allowed = quantity.largest * (record.states + 64) / (1 - quantity.discount) ** 2 / (1 << 44)
    for sign in (1, -1):
        pays = payments([(sign / quantity.unit, quantity)], steps, after)
        ends.append(sign * most_paid(Walk(Arena(record), Nobody()), pays, steps, pooled) * quantity.unit / ONE)
    same = abs(ends[0] - ends[1]) / 10**9
    require(error <= allowed + same, "values: they are not those of the best and the worst policies")
    rounding = (record.horizon + 2) * quantity.most / (1 << 40) + same + error
    found = min(ends) + share * abs(ends[0] - ends[1])
    where = f"{quantity.name}: {quantity.bound} is {float(found)}, not {claimed}"
    require(abs(Fraction(claimed) - found) <= rounding, where)


# Upper bounds


def check_upper(record, claim, bound, arrays, under):
    """The upper bound that rules of observers prove; channels that are not hidden keep their lower bounds. With a delay
    a decision is made before the event of its state."""
    rules, upper, hidden = bound["rules"], Fraction(bound["upper"]), claim["hidden"]
    kept = {one["number"]: one["min"] for one in claim["channels"] if one["number"] not in hidden and one["min"]}
    channels = tuple(one["channel"] for one in rules)
    require(rules and len({*channels}) == len(channels), "a rule is missing, or there are two for a channel")
    require({*channels} <= {*hidden, *kept}, "a rule is for a channel that is neither hidden nor has a lower bound")
    limit = worth_of_bounds(bound["prices"], record, claim) + worth_of_channels(rules, hidden, kept)
    arena = Arena(record, channels, channels, bound["delay"])
    factors = [Fraction(one["factor"]) for one in claim["quantities"]]
    most = min(record.channels[n].most for n in hidden)
    if any(one.ahead for one in arena.secrets):
        alone = not (limit or any(bound["prices"]) or any(factors))
        require(upper >= arena.most and alone, "no rule is known for values that lie ahead")
        return arena.most
    parts = zip(bound["prices"], factors, record.quantities, strict=True)
    priced = [(Fraction(price) * one.sign + factor, one) for price, factor, one in parts]
    after = None
    if record.endless:  # what takes the return away gains most from the continuation that is worst for it
        after = [continuation(record, arrays.get("values", []), sign)[1] for sign in (1, -1)]
    walk = Walk(arena, Guesses(arena, rules, arrays, under))
    found = Fraction(most_paid(walk, payments(priced, record.horizon, after), arena.horizon), ONE) - limit
    found = found if any(factors) else min(found, most)
    require(found <= upper, f"an upper bound of {bound['upper']} with delay {bound['delay']}: {float(found)} is found")
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


def hidden_bits(walk):
    """Bounds on what the policy hides from the observer of the first channel, by its histories, from weights that are
    rounded down. Of a path that tells every W = (memory, x) it is H(W_T | h_T) + Σ_t H(W_t | W_{t+1}, h_{t+1}); with a
    value at every time, Σ_t w_t H(Z_t | h_t). If less than ℓ = 2^-100 is lost, it lowers the sum by at most
    h(ℓ) + ℓ log2|Z|; logarithms and sums of floats have relative errors below 2^-50."""
    arena, layer, found = walk.arena, list(walk.begun().values()), []
    for time in range(arena.horizon + 1):
        found.append(walk.counted(time, layer))
        if time < arena.horizon:
            layer, arrived = longer(walk, layer, time)
            found += [entropy(arrived)] if walk.tells else []
            limited(sum(map(len, layer)), "the policy has too many histories")
    lost = ONE - sum(sum(history.values()) for history in layer)
    require(lost < ONE >> 100, "the policy has histories that are too improbable", NotChecked)
    bits, error = math.fsum(found), (math.fsum(found) + len(found) + 1) * 2.0**-49
    return max(0, Fraction(bits - error)), arena.most if arena.untimed else min(Fraction(bits + error), arena.most)


def longer(walk, layer, time):
    """The histories after a step, each with the weights of its keys; and, of a path that tells everything, the weights
    of what each key was reached from."""
    after, arrived = [], []
    for history in layer:
        weights, sources = defaultdict(lambda: defaultdict(int)), defaultdict(list)
        for key, mass in history.items():
            for event, ways in walk.step(time, key).items():
                for there, chance in ways.items():
                    weights[event][there] += (part := mass * chance >> BITS)
                    if walk.tells:
                        sources[event, there].append(part)
        after += weights.values()
        arrived += sources.values()
    return after, arrived


# Lower bounds over all policies of agents that see what the observer sees


class Witness:
    """The values of unnormalised beliefs over keys (nothing, x, value of the secret), from the last step back:
    `W_t(b) = min_a [paid(a) + Σ_e (h(b_e) + W_t+1(b_e))]`. W is concave, homogeneous and monotone, so that for a belief
    p of the witness `W(b) ≥ c W(p) + W(b − c p)`; and `W(b) ≥ Σ_x (m_x told(x) + H(z | x))`, since to be told x now and
    at all later times leaves less, and what follows says nothing more of a settled value."""

    def __init__(self, arena, priced, told, arrays):
        self.arena, self.secret, self.horizon, self.size = arena, arena.secrets[0], arena.horizon, arena.record.size
        self.walk, self.shift, self.gains = Walk(arena, Nobody()), Fraction(0), payments(priced, self.horizon)
        self.pays = {time: self.paid(time) for time in range(self.horizon + 1)}
        self.points = [self.read(time, arrays, f"beliefs.{time}.") for time in range(told["times"])]
        if self.secret.ahead:
            rows = [[row for _, row in arena.actions(0, x)] for x in range(self.size)]
            free = all(len(row) == arena.record.actions and row.count(row[0]) == len(row) for row in rows)
            require(free, "beliefs: the secret lies ahead, and depends on actions that are not chosen yet")

    def paid(self, time):
        """What each action costs in each x, or x at the end, more than the least of all: that is added to `shift`."""
        actions = range(self.arena.record.actions if time < self.horizon else 1)
        costs = {(x, action): -self.gains(time, x, action) for x in range(self.size) for action in actions}
        least = min(0, *costs.values())
        self.shift += Fraction(least, ONE)
        return {key: (cost - least) / ONE for key, cost in costs.items()}

    def read(self, time, arrays, own):
        """The beliefs of a time, each with those that its events lead to."""
        ends, places, weights, child = (arrays[own + name] for name in ("ends", "place", "weight", "child"))
        values = self.secret.values if self.is_settled(time) else 1
        require(len(ends) == len(child) + 1 and time < self.horizon, "beliefs: of another size")
        points = []
        for low, high, after in zip(ends, ends[1:], child, strict=False):
            require(0 <= low <= high <= len(places) == len(weights), "beliefs: of another size")
            inside = all(0 <= place < self.size * values for place in places[low:high])
            keys = [((), x, self.walk.follow(time, x, (z,))) for x, z in map(divmod, places[low:high], [values] * high)]
            belief = dict(zip(keys, (int(ONE * Fraction(weight)) for weight in weights[low:high]), strict=True))
            inside = inside and min(belief.values(), default=1) > 0
            require(inside and len(belief) == high - low, "beliefs: one of them is none")
            points.append((belief, after))
        return points

    def is_settled(self, time):
        return self.secret.kind == "once" and self.secret.time <= time

    def after(self, time, belief):
        """For each action that is available in all states of a belief: what its events lead to, by event."""
        open_to_all = set(range(self.arena.record.actions))
        found = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
        for key, mass in belief.items():
            open_to_all &= {*self.arena.record.available(key[1])}
            for _, action, moves in self.walk.decisions(time, key):
                for chance, departure in moves:
                    for there, (event,), part in self.walk.arrivals(time + 1, departure):
                        found[action][event][there] += (mass * chance >> BITS) * part >> BITS
        require(open_to_all, "beliefs: no action is available in all states of one")
        return {action: found[action] for action in open_to_all}

    def left(self, time, belief):
        """What still counts if x is told."""
        rows = defaultdict(list)
        for (_, x, _), mass in belief.items():
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
            pays = [mass / ONE * self.pays[time][x, action] for (_, x, _), mass in belief.items()]
            for event, one in events.items():
                counts = child is not None or not self.is_settled(time)
                pays.append(self.walk.counted(time + 1, [one]) if counts else 0.0)
                pays.append(self.left(time + 1, one) if child is None else self.worth(time + 1, one, child[event]))
            scores.append(math.fsum(pays))
        return min(scores)

    def total(self, first):
        """The bound, from the starts on; each of its sums has a relative error below 2^-49."""
        self.told, self.values = {self.horizon: [self.pays[self.horizon][x, 0] for x in range(self.size)]}, []
        for time in range(self.horizon - 1, -1, -1):
            points = self.points[time] if time < len(self.points) else []
            self.values = [self.least(time, belief, child) for belief, child in points]
            self.told[time] = [self.least(time, {((), x, (0,)): ONE}, None) for x in range(self.size)]
        observer = self.arena.observers[0]
        events = observer.observations if observer.sees_first else 1
        require(len(first) == events, "beliefs: the first are not one for each event")
        starts = self.walk.begun().items()
        found = [self.walk.counted(0, [one]) + self.worth(0, one, first[event]) for event, one in starts]
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
    found = Witness(Arena(record, (0,), (0,)), priced, told, arrays).total(arrays["beliefs.first"]) + limit
    require(told["lower"] <= found, f"beliefs: at least {told['lower']} is claimed, and {float(found)} is found")
    require(told["lower"] <= claim["channels"][0]["upper"], "beliefs: more than the policy hides")
    return [f"no policy that sees what the observer sees hides less than {float(found):.9f} bits"]


# Statistical claims


class Draws:
    """The draws of this program: `doubt` is what is left of 1 by the confidence, `source` the randomness."""

    def __init__(self, confidence=1 - 1e-6, sequences=None, seed=None):
        require(0 < confidence < 1, "the confidence is not between 0 and 1", NotChecked)
        require(
            sequences is None or 1 < sequences <= MOST_SEQUENCES, "the sequences are too few or too many", NotChecked
        )
        self.doubt, self.sequences, self.claims = 1 - confidence, sequences, 1
        self.source = random.SystemRandom() if seed is None else random.Random(seed)

    def bear_out(self, what, claimed, draw, ends, sequences, error, clockless=False):
        """Draw until an interval for the mean of numbers between two ends, each wrong by at most `error`, lies within what
        is claimed; each round has a share of the doubt. `clockless`: the draws say nothing from above."""
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
            words = f"{what}: {float(claimed[0])} … {float(claimed[1])} is claimed with confidence"
            require(drawn < most, f"{words}, and {float(found[0])} … {float(found[1])} is found in {drawn:,} sequences")


class Sampler:
    """Runs of a policy, and the entropy that the sequence of each leaves, by a filter."""

    def __init__(self, walk, source):
        self.walk, self.source = walk, source
        self.starts = [(event[walk.place], key, chance) for key, event, chance in walk.begin()]
        self.begun, self.ways = walk.begun(), cache(self.ways_of)

    def ways_of(self, time, key):
        """What a key leads to: pairs (event, key), and running sums to draw from."""
        ways = [(event, *way) for event, ways in self.walk.step(time, key).items() for way in ways.items()]
        return [(event, there) for event, there, _ in ways], list(accumulate(chance / ONE for *_, chance in ways))

    def run(self):
        """The keys that are passed, and the observer's events."""
        ((event, key, _),) = self.source.choices(self.starts, [chance for *_, chance in self.starts])
        events, keys = [event], [key]
        for time in range(self.walk.arena.horizon):
            ways, ends = self.ways(self.walk.at(time), keys[-1])
            ((event, key),) = self.source.choices(ways, cum_weights=ends)
            events.append(event)
            keys.append(key)
        return events, keys

    def bits(self):
        """The entropy of the secret after one sequence; of a path by that of each key given the next."""
        events, _ = self.run()
        belief, spent = normal(self.begun[events[0]]), defaultdict(float)
        found = self.walk.counted(0, [belief])
        for time, event in enumerate(events[1:], 1):
            belief, spent = self.filtered(time - 1, belief, spent, event)
            found += self.walk.counted(time, [belief])
        return found + sum(mass / ONE * spent[key] for key, mass in belief.items())

    def filtered(self, time, belief, spent, event):
        """The belief after an event; of a path that tells everything also the entropy of what led to each key."""
        after, sources = defaultdict(int), defaultdict(list)
        for key, mass in belief.items():
            for there, chance in self.walk.step(time, key).get(event, {}).items():
                after[there] += (part := mass * chance >> BITS)
                if self.walk.tells:
                    sources[there].append((part / ONE, spent[key]))
        costs = defaultdict(float)
        for there, parts in sources.items():
            total = sum(part for part, _ in parts)
            costs[there] = sum(part / total * (cost - math.log2(part / total)) for part, cost in parts if part)
        return normal(after), costs

    def paid(self, pays):
        """What one run pays, by the mean of each decision."""
        total, end, (_, keys) = 0, self.walk.arena.horizon, self.run()
        for time, key in enumerate(keys[:-1]):
            decisions = self.walk.decisions(time, key)
            total += sum(share * pays(time, key[1], action) for share, action, _ in decisions) / ONE
        return (total + pays(end, keys[-1][1], 0)) / ONE


def normal(weights):
    """Weights that sum to one, rounded down."""
    total = sum(weights.values())
    return {key: mass * ONE // total for key, mass in weights.items()}


def check_drawn(walk, channel, draws):
    """A statistical claim on the bits of a channel."""
    told, arena = channel["sampled"], walk.arena
    require(arena.kind != "path" or walk.tells, "a path with too many values", NotChecked)
    claimed, ends, error = (told["lower"], told["upper"]), (0, arena.most), 1e-9 * float(1 + arena.most)
    draw, name = Sampler(walk, draws.source).bits, channel["name"]
    found, drawn = draws.bear_out(name, claimed, draw, ends, told["sequences"], error, arena.untimed)
    return f"at least {float(found[0]):.6f} bits in {name} with confidence ({drawn:,} sequences)"


def check_drawn_value(record, policy, claim, quantity, draws):
    """A statistical claim on a quantity."""
    value, error, unit = Fraction(claim["value"]), Fraction(claim["error"]), float(quantity.unit)
    arena = Arena(record, (), (0, *policy.hears(record)))
    require(not quantity.endless, "draws of a return over an infinite horizon", NotChecked)
    sampler, most = Sampler(Walk(arena, policy.agent(arena)), draws.source), float(quantity.most) * (1 + 1e-12)
    pays, claimed = payments([(1 / quantity.unit, quantity)], record.horizon), (value - error, value + error)
    draw, ends = lambda: sampler.paid(pays) * unit, (-most, most)
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
    told = [one["number"] for one in claim["channels"]]
    wanted = [one.number for one in record.channels if one.number in (0, *hidden) or one.min or one.max is not None]
    require(told == wanted or (told == hidden == [0]), f"the channels are {told}, expected {wanted}")
    require(opaque or told == [0], "nothing is proven of other channels with this goal")
    for one, asked in zip(claim["channels"], [record.channels[n] for n in told], strict=True):
        same = [one["name"], one["min"], one["max"]] == [asked.name, asked.min, asked.max]
        require(same and one["lower"] <= one["upper"], f"{asked.name}: its bounds are others, or do not fit each other")
    delays = [one["delay"] for one in claim["bounds"]]
    require(delays in ([0], [0, 1]) if opaque else not delays, "the bounds are others")
    require(len(delays) < 2 or 0 in hidden, "a bound with a delay is about the problem's own channel")
    check_quantity_items(claim, record, opaque)


def check_quantity_items(claim, record, opaque):
    require(len(claim["quantities"]) == len(record.quantities), "the quantities are not those of the problem")
    for one, given in zip(claim["quantities"], record.quantities, strict=True):
        same = [one["name"], one["relation"]] == [given.name, "≤≥"[given.sign > 0]]
        alike = type(one["bound"]) is type(given.bound) and one["bound"] == given.bound
        same = same and (alike or isinstance(given.bound, str))
        require(same, f"{given.name}: another quantity, or another bound, is claimed")
        plain = one["bound"] is not None or (given.bound is None and one["met"])
        proven = one["factor"] == 0 or (opaque and one["sequences"] == 0)
        require(plain and proven, f"{given.name}: it has no bound to meet, or a task counts what is not proven")


def check_channel(record, policy, one, draws):
    """What the policy hides in a channel; returns the lower bound that is found, and what was drawn."""
    number_of, lower, upper = one["number"], Fraction(one["lower"]), Fraction(one["upper"])
    arena, least = Arena(record, (number_of,), (number_of, *policy.hears(record))), 0
    walk = Walk(arena, policy.agent(arena))
    if lower > 0 or upper < arena.most:
        least, most = hidden_bits(walk)
        where = f"{one['lower']} … {one['upper']} is claimed, {float(least)} … {float(most)} is found"
        require(lower <= least and most <= upper, f"{one['name']}: {where}")
    return least, [] if one["sampled"] is None else [check_drawn(walk, one, draws)]


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
    arrays, register = array_lists(safetensors(stored)[1]), claim["register"]
    if register is not None:
        register = {**register, **{name: arrays[f"register.{name}"] for name in ("start", "step", "codes", "label")}}
    record, policy = Record(content), Policy(folder / "policy.safetensors", register)
    told = [claim[f"{one}_hash"] for one in ("problem", "record", "policy")]
    require(told == [record.problem, record.digest, policy.digest], "the problem or the policy is another one")
    check_items(claim, record)
    sampled = sum(one["sampled"] is not None for one in claim["channels"])
    draws.claims = max(1, sampled + sum(one["sequences"] > 0 for one in claim["quantities"]))
    found = {one["number"]: check_channel(record, policy, one, draws) for one in claim["channels"]}
    check_quantities(record, policy, claim, arrays.get("values", []), draws)
    seeing = len(claim["bounds"]) > 1 and (policy.hears(record) or record.blind)
    require(not seeing, "a bound with a delay, and a policy that acts on observations")
    uppers = [check_upper(record, claim, one, arrays, f"bounds.{n}.") for n, one in enumerate(claim["bounds"])]
    lower = min(found[one][0] for one in claim["hidden"])
    bits = " and ".join([f"{float(lower):.9f}", *(f"{float(upper):.9f}" for upper in uppers)])
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
