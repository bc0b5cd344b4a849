"""Check a result of veil with plain Python, without NumPy or the package: python verify_certificate.py RESULT_FOLDER

It recomputes from `problem.bin`, `policy.safetensors` and `certificate.json` with its arrays what the policy hides and earns,
whether it meets every constraint, and the upper bounds that rules of observers prove: over all policies, and over agents that
learn each observation one step late. Numbers are multiples of 2^-192, rounded outward; distributions are divided by their sums.
Infinite horizons, memory policies and observers without a clock are not covered.

Exit codes: 0 the certificate holds, 1 it does not hold, 2 it was not checked: a file is missing or cannot be read, or the
certificate is of a kind that this program does not cover.
"""

import hashlib
import json
import os
import re
import stat
import struct
import sys
from collections import Counter, namedtuple
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from io import BytesIO
from itertools import accumulate, combinations, groupby, pairwise, product
from math import ceil, floor, inf, prod
from pathlib import Path

ONE = 1 << 192  # numbers have 192 binary digits after the point
MOST_ENTRIES = 2_000_000  # weights of one layer, about a gigabyte
MOST_BYTES = 1 << 28  # of a file
PRECISE = Context(prec=60)
KINDS = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u1": "B"}
Paid = namedtuple("Paid", "name sign bound discount rewards terminal")  # sign · bound ≤ E[Σ d^t rewards + d^T terminal]


class NotCovered(Exception):
    """The certificate may hold, and this program cannot tell."""


def read(path):
    """The bytes of an ordinary file. Pipes, devices and files of any size are refused, without waiting for a pipe."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        require(stat.S_ISREG(found.st_mode), f"{path} is not an ordinary file", NotCovered)
        require(found.st_size <= MOST_BYTES, f"{path} has more than {MOST_BYTES:,} bytes", NotCovered)
        return file.read(MOST_BYTES)


def number(value, what):
    """A number of the certificate as a fraction: no text, truth value, infinity or NaN."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    require(plain and abs(value) <= sys.float_info.max, f"{what}: {str(value)[:40]!r} is not a finite number")
    return Fraction(value)


def parse(text):
    """The value of a JSON text whose objects have no key twice, and which is not nested deeper than a parser can go."""
    brackets = re.sub(r"[^\[\]{}]+", "", re.sub(r'"(?:[^"\\]|\\.)*"', "", text.decode(), flags=re.DOTALL))
    depth = accumulate({"[": 1, "{": 1}.get(one, -1) for one in brackets)
    require(max(depth, default=0) <= 100, "a JSON text has too many levels")

    def once(pairs):
        require(len(dict(pairs)) == len(pairs), "a JSON text has a key twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once)


def require(good, message, error=ValueError):
    if not good:
        raise error(message)


def distribution(numbers, places=None):
    """The places of a distribution, given in floats, that have a positive probability: pairs (place, fraction)."""
    total = sum(exact := [Fraction(one) for one in numbers])
    require(min(exact) >= 0 and abs(total - 1) < Fraction(1, 10**6), "a row is not a distribution")
    return [(place, part / total) for place, part in zip(places or range(len(exact)), exact, strict=True) if part]


def log2_bounds(over, under=1):
    """log2 of a ratio of positive whole numbers from below and from above, in units of 2^-192."""
    found = Fraction(PRECISE.divide(PRECISE.ln(PRECISE.divide(over, under)), PRECISE.ln(2)))
    error = (abs(found) + 1) / 10**55
    return floor((found - error) * ONE), ceil((found + error) * ONE)


def read_safetensors(path):
    """Metadata and arrays (type, shape, flat list of numbers) of a safetensors file."""
    content = read(path)
    head, data = parse(content[8 : (end := 8 + int.from_bytes(content[:8], "little"))]), content[end:]
    metadata, arrays = head.pop("__metadata__", {}), {}
    for name, entry in head.items():
        kind, (begin, end) = f"{entry['dtype'][0].lower()}{int(entry['dtype'][1:]) // 8}", entry["data_offsets"]
        arrays[name] = kind, entry["shape"], [one for (one,) in struct.iter_unpack(f"<{KINDS[kind]}", data[begin:end])]
    return metadata, arrays


def nested(shape, flat):
    """A flat list as lists of lists."""
    require(
        prod(max(1, size) for size in shape) <= max(len(flat), 1 << 20), "an array has another shape than its numbers"
    )
    size = len(flat) // max(1, *shape[:1], 0)
    return [nested(shape[1:], flat[row * size :][:size]) for row in range(shape[0])] if shape[1:] else list(flat)


class Fields(BytesIO):
    """The tagged fields of `problem.bin`, in the order in which they were written."""

    def number(self):
        return int.from_bytes(self.read(8), "little")

    def count(self):
        """How many things follow: each takes a byte or more."""
        found = self.number()
        require(found <= len(self.getvalue()), "problem.bin ends early")
        return found

    def follows(self, tag, default=None):
        return self.next(tag) if self.getvalue().startswith(tag.encode(), self.tell() + 8) else default

    def next(self, expected):
        tag, kind = self.read(self.number()).decode(), self.read(1)
        require(tag == expected, f"problem.bin has {tag!r} where {expected!r} is expected", NotCovered)
        if kind == b"s":
            return [self.read(self.number()).decode("utf-8", "surrogatepass") for _ in range(self.count())]
        shape = [self.number() for _ in range(self.count())] if kind != b"-" else [0]
        flat = [one for (one,) in struct.iter_unpack("<q" if kind == b"i" else "<d", self.read(8 * prod(shape)))]
        require(len(flat) == prod(shape), "problem.bin ends early")
        return nested(shape, flat) if shape else flat[0]

    def all(self, names, under=""):
        return [self.next(under + name) for name in names.split(", ")]

    def pair(self, own=None):
        new, seen = self.follows("pair: apart"), self.all("observations, emissions, sees actions, sees initial")
        seen += [self.follows("times"), at := {}]
        while (when := self.follows("emissions at")) is not None:
            at[when] = self.next("emissions then")
        require(self.follows("untimed") is None, "an observer has no clock", NotCovered)
        seen.append(self.follows("silent"))
        names = "time, values, label, memory at the start, memory after a step, memories, weights, agent knows"
        return (seen, own)[seen == own and not new], (*self.all(names, "secret: "), self.follows("secret: path", []))


def knows_alike(one, two):
    """Whether the agent knows the same in the memories of two secrets, on every run of states."""
    (_, _, _, start, step, _, _, known, _), (_, _, _, begin, follow, _, _, seen, _) = one, two
    edge = reached = {*zip(start, begin, strict=True)}
    while edge:
        edge = {pair for m, n in edge for pair in zip(step[m], follow[n], strict=True)} - reached
        reached = reached | edge
    return all(row[m] == other[n] for m, n in reached for row, other in zip(known, seen, strict=True))


class Problem:
    """Some pairs, x = (k · M + m) · S + s: model, memory of the first secret, state. An event is a tuple of what each observer
    receives, independently given x; late, a move shows what it leaves. Where a policy is `acting`, bits of the first count."""

    def __init__(self, content, delay=0, names=("own",), acting=False):
        fields, self.defect = Fields(content), Fraction(0)
        require(fields.next("form") == ["veil problem, form 2"], "problem.bin has an unknown form")
        models = []
        for _ in range(fields.next("models")):
            transitions, (_, _, available) = [], fields.all("states, actions, available")
            for taken in zip(*available, strict=True):
                _, ends, columns, values = fields.all("shape, row ends, columns, values", "transitions: ")
                rows = zip(taken, pairwise(ends), strict=True)
                transitions.append([self.row(values[a:b], columns[a:b]) if good else [] for good, (a, b) in rows])
            models.append((transitions, *fields.all("rewards, terminal rewards, initial, discount")))
        self.pairs = {"own": (*fields.pair(), [])}
        self.horizon, bound, over, sees = fields.all("horizon, min return, return over, agent sees observations")
        require(sees < 2, "the agent does not see its state", NotCovered)
        require(over == ["horizon"] and 0 <= self.horizon <= 2000, "the return is over too many steps", NotCovered)
        given = [(["return"], 1, bound, [one[1] for one in models], [], models[0][4])]
        for _ in range(fields.follows("constraints", 0)):
            name = fields.next("constraint")
            given.append((name, *fields.all("sign, bound, rewards, terminal rewards, discount", "constraint: ")))
        require(not (rest := content[fields.tell() :]) or rest[8:12] == b"pair", "problem.bin has more at its end")
        while {*names} - {"own"} and fields.tell() < len(content):  # other pairs are read where they matter
            (name,), *bounds = fields.all("pair, pair: min, pair: max")
            require(name not in self.pairs, "problem.bin has two pairs of one name")
            self.pairs[name] = *fields.pair(self.pairs["own"][0]), [None if one == [] else one for one in bounds]
        observers, secrets, _ = zip(*[self.pairs[name] for name in names], strict=True)
        self.time, _, _, start, step, _, weights, known, path = secret = secrets[0]
        for one in [one for one in secrets if one != secret]:
            require(not (path or one[8] or models[1:]), "pairs: several secrets, and whole paths or models")
            late = not acting or (one[0] == self.time == self.horizon and one[3:5] == (start, step))
            require(late, "the policy acts on what several secrets remember", NotCovered)
        own = self.pairs["own"][1]
        for one in secrets:  # one policy acts, in one model that runs
            require(one[6] == own[6], "pairs: a secret gives the models other weights than the problem's own")
            require(
                one is own or knows_alike(own, one), "pairs: the agent knows another memory than in the problem's own"
            )
        require(not path or all(one is observers[0] for one in observers), "pairs: several, and a whole path")
        require(secret == self.pairs["own"][1] or len(given) == 1, "another secret, and constraints", NotCovered)
        asked = secrets[:1] if acting else secrets
        count = (max(path) + 1) ** (self.horizon + 1) if path else max(len(one[1]) for one in asked)
        self.most = log2_bounds(count)[1] if count & (count - 1) else (count.bit_length() - 1) * ONE
        self.path = path * (len(models) * len(step))  # what the secret shows of each x, where it is a whole path

        varies = any(one[4] is not None or one[5] for one in observers)
        require(not (varies and path), "a whole path, and an observer that depends on time", NotCovered)

        def emitted(time, state, action, emissions, times, at, silent):
            """The distribution of an observation: at a time that is not received the silent one, for certain."""
            last = time == self.horizon
            if times is not None and not (last if times == [-1] else time in times):
                return [(silent, 1)]
            keys = [-2 - time, -1, time] if last else [time]  # the last time is -1, and time t if it is the last -2 - t
            keys = [key for key in keys if key in at and (time or key != -1 or not isinstance(emissions[0][0], list))]
            rows = at[keys[0]] if keys else emissions
            return self.row((rows[action] if isinstance(rows[0][0], list) else rows)[state])

        @cache
        def shown(time, state, action=0, begin=False):
            """What the observers receive, after an action or at the start: pairs (event, probability)."""
            parts = {}
            for seen, emissions, sees_actions, sees_initial, times, at, silent in observers:
                by_action, more = isinstance(emissions[0][0], list), action * len(seen) * sees_actions
                require(not delay or not (by_action or sees_actions or path or names[1:]), "delayed: not of such pairs")
                nothing = begin and ((by_action and 0 not in at) or delay or not sees_initial)
                row = [(0, 1)] if nothing else emitted(time, state, action, emissions, times, at, silent)
                parts[id(seen)] = [(event + more * (not nothing), part) for event, part in row]
            every = [dict(zip(parts, one, strict=True)) for one in product(*parts.values())]
            return [(tuple(one[id(own[0])][0] for own in observers), prod(p for _, p in one.values())) for one in every]

        self.known = [number for row in known for number in row]  # what the agent knows of each model and memory
        self.blind = any({*one} & {*two} for one, two in combinations(known, 2))  # it cannot tell two models apart
        self.delay, self.shown, self.events = delay, shown, max(len(one[0]) for one in observers) * len(models[0][0])
        self.secrets, self.states, self.starts, self.paid = asked, len(start), [], []
        self.size, self.actions = len(models) * len(step) * self.states, len(models[0][0])

        @cache
        def leaving(time, x):
            """The moves of each action from x at a time."""
            (rest, s), found = divmod(x, self.states), []
            k, m = divmod(rest, len(step))
            for action, rows in enumerate(models[k][0]):
                found.append([])
                for after, chance in rows[s]:
                    y, there = (k * len(step) + step[m][after]) * self.states + after, s if delay else after
                    seen = shown(time + (not delay), there, action)
                    found[-1] += [(y, event, chance * part) for event, part in seen]
            return found

        self.moves = lambda time, x: leaving(time if varies else 1, x)
        weights = dict(self.row(weights or [1.0]))
        for k, (_, _, _, initial, _) in enumerate(models):
            for s, chance in self.row(initial) if k in weights else ():
                x = (k * len(step) + start[s]) * self.states + s
                self.starts += [(x, event, weights[k] * chance * part) for event, part in shown(0, s, begin=True)]
        for (name,), sign, bound, rewards, last, discount in given:
            rewards = [[sign * Fraction(reward) for reward in row] for table in rewards for row in table * len(step)]
            last = last or [[one[2]] * len(step) for one in models]
            terminal = [sign * Fraction(reward) for table in last for row in table for reward in row]
            self.paid.append(Paid(name, sign, None if bound == [] else bound, Fraction(discount), rewards, terminal))
        # Whether path and events tell the first x, and every next one where x is known, of those that can be reached.
        reached, steps, known = {x for x, _, _ in self.starts}, [(None, *start) for start in self.starts], {}
        for _ in range(self.horizon if path else 0):
            reached |= {y for x in reached for taken in self.moves(0, x) for y, _, _ in taken}
        for x in reached if path else ():
            steps += [(x, *move) for taken in self.moves(0, x) for move in taken if move[0] in reached]
        self.tells = bool(path) and all(known.setdefault((x, event, self.path[y]), y) == y for x, y, event, _ in steps)
        self.codes = list(range(self.size)) if self.tells else self.path  # what a rule for a path tells apart

    def row(self, numbers, places=None):
        """A distribution; how far the sum of any of them is from one is noted."""
        self.defect = max(self.defect, abs(sum(map(Fraction, numbers)) - 1))
        return distribution(numbers, places)

    def most_paid(self, paid):
        """The largest sum of a quantity's rewards over a run, whatever their signs."""
        size = max(abs(reward) for row in paid.rewards for reward in row)
        return size * sum(paid.discount**t for t in range(self.horizon)) + max(map(abs, paid.terminal))

    def settled(self, time, x, before):
        (rest, s), found = divmod(x, self.states), []  # each secret's memory, then its value
        for (when, _, label, start, step, *_), z in zip(self.secrets, before or self.secrets, strict=True):
            z = z if time > when else step[z][s] if time else start[s]
            found.append(label[rest // len(step) if len(label) > 1 else 0][z][s] if time == when else z)
            require(found[-1] >= 0, "problem: a secret has no value in a state that can occur")
        return tuple(found)


class Policy:
    """A stationary, time-dependent or history policy, by its file; its hash is that of its kind and all numbers in 64 bits.
    A history policy acts on what the observers of the pairs `sees` receive, its own by default."""

    def __init__(self, path):
        metadata, arrays = read_safetensors(path)
        form, kind, *head = metadata["veil"].split(" ", 2)
        require(form == "veil-policy-1", "policy.safetensors is not a policy")
        (_, shape, flat), self.history = arrays["probabilities"], kind == "history"
        self.sees, self.told_at, self.stationary, arrays = [], None, kind == "markov", []
        if self.history:
            head, content, self.rows = parse(head[0].encode()), BytesIO(bytes(flat)), []
            for name, *shape in head["arrays"]:
                form = f"<{prod(shape)}{KINDS[name[1:]]}"
                arrays.append((name[1], shape, struct.unpack(form, content.read(struct.calcsize(form)))))
            horizon, self.told_at, self.sees = head["horizon"], head["told_at"], head.get("sees") or ["own"]
            kind = f"history, executable {head['executable']}, told at {self.told_at}"
            kind += f", sees {json.dumps(self.sees)}" * ("sees" in head)
            self.first, *parts = [nested(shape, flat) for _, shape, flat in arrays]
            self.following, rows, self.told = parts[:horizon], parts[horizon : 5 * horizon], parts[5 * horizon :]
            for *keys, chances in [rows[4 * time : 4 * time + 4] for time in range(horizon)]:
                keys = list(zip(*keys, strict=True))
                require(all(a < b for a, b in pairwise(keys)), "policy: its rows do not increase")
                self.rows.append(dict(zip(keys, chances, strict=True)))
            views = self.told[self.told_at is not None :]
            require(not content.read() and len(views) == 2 * len(head.get("sees", [])), "policy: its arrays do not fit")
            self.numbers = [{one: n for n, one in enumerate(zip(*views[i::2], strict=True))} for i in (0, 1)]
        else:
            require(kind in ("markov", "timed"), f"the policy is of the kind {kind!r}", NotCovered)
            arrays = [("f", [1, *shape] if self.stationary else shape, flat)]
            self.rows = nested(*arrays[0][1:])
        self.digest = hashlib.sha256(f"veil policy, form 1: {kind}; {len(arrays)} arrays".encode())
        for letter, shape, flat in arrays:
            numbers, code = ([number + 0.0 for number in flat], "d") if letter == "f" else (flat, "q")
            self.digest.update(f"<{letter}8{tuple(shape)};".encode() + struct.pack(f"<{len(flat)}{code}", *numbers))

    def against(self, content, name):
        """The problem in which it acts and one pair counts: an event begins with what the observer of that pair receives."""
        self.problem = Problem(content, names=[name, *self.sees], acting=True)
        require(self.stationary or len(self.rows) == self.problem.horizon, "policy: it is not one of so many steps")
        return self.problem

    def node(self, time, before, event, x):
        number = (self.numbers[time > 0][event[1:]] if self.numbers[0] else event[1]) if self.history else 0
        found = (self.following[time - 1][before][number] if time else self.first[number]) if self.history else 0
        found = self.told[0][found][x] if time == self.told_at and found >= 0 else found
        require(found >= 0, "policy: it has no node for something that it reaches")
        return found

    def choices(self, time, node, x, z):
        problem, rows = self.problem, self.rows[0 if self.stationary else time]
        known = (node, x, z[0] if time >= problem.time else -1) if self.history else x
        found = distribution(
            rows[known if self.history else problem.known[x // problem.states] * problem.states + x % problem.states]
        )
        require(all(problem.moves(time, x)[action] for action, _ in found), "policy: an action is not available")
        return found


def follow(problem, policy):
    """Bounds on what the policy hides from one observer, by its histories h, from weights that are rounded down. Of a path that
    tells every W = (node, x) it is H(W_T | h_T) + Σ_t H(W_t | W_{t+1}, h_{t+1}); of another path z is all so far. Where less
    than ℓ = 2^-130 is lost, it and the logarithms lower the sum by at most h(ℓ) + ℓ log2|Z| + 2^-90 < 2^-60."""
    layer, joint, found, path = Counter(), Counter(), 0, problem.path and not problem.tells
    for x, event, mass in problem.starts:
        z = (problem.path[x],) if path else problem.settled(0, x, 0)
        layer[event[0], policy.node(0, 0, event, x), x, z] += floor(mass * ONE)
    for time in range(problem.horizon):
        before, layer, arrived = layer, Counter(), Counter()
        for (history, node, x, z), mass in before.items():
            for action, share in policy.choices(time, node, x, z):
                for target, event, chance in problem.moves(time, x)[action]:
                    there = history * problem.events + event[0], policy.node(time + 1, node, event, target), target
                    moved = mass * share.numerator * chance.numerator // (share.denominator * chance.denominator)
                    layer[*there, (*z, problem.path[target]) if path else problem.settled(time + 1, target, z)] += moved
                    if problem.tells:
                        arrived[there, (node, x)] += moved
        found += entropy(arrived)
        require(len(layer) <= MOST_ENTRIES, "the policy has too many histories for this program", NotCovered)
    for (history, node, x, z), mass in layer.items():
        joint[history, (node, x) if problem.tells else z if path else z[0]] += mass
    require(ONE - sum(joint.values()) < ONE >> 130, "the policy has histories that are too improbable", NotCovered)
    return (found := found + entropy(joint)), min(found + (ONE >> 60), problem.most)


def entropy(joint):
    """Σ p(row, value) log2(p(row) / p(row, value)), rounded down. Where weights p are too small, so is the sum."""
    total = Counter()
    for (row, _), mass in joint.items():
        total[row] += mass
    return sum(p * log2_bounds(total[row], p)[0] // ONE for (row, _), p in joint.items() if 0 < p < total[row])


def backward(problem, prices, ahead, charged, choices, together=False):
    """What a policy is worth, rounded up: what the prices pay and what is charged; where choices have no shares, the best.
    Where `together`, the best first action in a state is one for all models."""
    priced = [(price, one) for price, one in zip(prices, problem.paid, strict=True) if price]

    @cache
    def value(time, node, x, z):
        if time == problem.horizon:
            shown = problem.shown(time, x % problem.states) if problem.delay else ()
            ends = [(ahead(time + 1, node, event, x), part) for event, part in shown] or [(node, 1)]
            pays = ONE * sum(price * one.discount**time * one.terminal[x] for price, one in priced)
            return ceil(pays + sum(part * charged(-1, end, x, z) for end, part in ends))
        scores = actions(time, node, x, z)
        return ceil(sum(share * score for _, share, score in scores)) if scores[0][1] else max(one[2] for one in scores)

    def actions(time, node, x, z):
        """Each action that is chosen or can be, with its share, and what it is worth."""
        scores = []
        for action, share in choices(time, node, x, z):
            score = ONE * sum(price * one.discount**time * one.rewards[x][action] for price, one in priced)
            for y, event, chance in problem.moves(time, x)[action]:
                there = ahead(time + 1, node, event, y)
                after = value(time + 1, there, y, problem.settled(time + 1, y, z))
                score += chance * (after + (charged(time, there, y, x) if problem.codes else 0))
            scores += [(action, share, ceil(score))] if problem.moves(time, x)[action] else []
        return scores

    begun = [(ahead(0, (0,) * len(event), event, x), x, mass) for x, event, mass in problem.starts]
    if not (together and problem.horizon):
        return ceil(sum(mass * value(0, node, x, problem.settled(0, x, 0)) for node, x, mass in begun))
    pooled = Counter()
    for node, x, mass in begun:
        for action, _, score in actions(0, node, x, problem.settled(0, x, 0)):
            pooled[x % problem.states, action] += mass * score
    return ceil(sum(max(score for (s, _), score in pooled.items() if s == state) for state in {s for s, _ in pooled}))


def any_action(problem):
    """The choices of all policies: every action that is available."""
    return lambda _time, _node, _x, _z: enumerate([0] * problem.actions)


def check_bound(problem, paid, claimed):
    """Raise `ValueError` unless a bound is that of the problem; a percentage is a share of what policies can reach, within
    1e-9 of it and the rounding of floats. What an agent reaches who does not know the model is bounded by one who learns it
    after the first action."""
    if not isinstance(paid.bound, list):
        require(type(claimed) is type(paid.bound) and claimed == paid.bound, f"{paid.name}: its bound is another")
        return
    bound, share = number(claimed, f"{paid.name}: its bound"), Fraction(paid.bound[0].removesuffix("%")) / 100
    together = problem.blind and paid is problem.paid[0]
    ends = []
    for sign in (1, -1):
        unit = [sign * (one is paid) for one in problem.paid]
        worth = backward(problem, unit, lambda *_: 0, lambda *_: 0, any_action(problem), together)
        ends.append(paid.sign * Fraction(sign * worth, ONE))
    low, high = min(ends), max(ends)
    rounding = (problem.horizon + 2) * problem.most_paid(paid) * (8 * problem.defect + Fraction(1, 1 << 44))
    rounding += (high - low) / 10**9
    found = low + share * (high - low)
    require(abs(bound - found) <= rounding, f"{paid.name}: {paid.bound[0]} is {float(found)}, not {claimed}")


def check_upper(content, claim, delay, arrays, limits, kept):
    """The upper bound that observers of some pairs prove: those in `kept` have lower bounds, the others are hidden. The last
    rule of each has the costs −log2 q(z | node) by (node, 0, z). A path has one for each time, −log2 q(x_t | x_{t+1}, m) by
    (m, x_{t+1}, x_t), m the node at t + 1, and z = x_T. With a delay a decision is made before the event of its state."""
    part, hide, under = claim["delayed"] if delay else claim, claim["hide"], "delayed." * delay
    require(type(part.get("delay", 0)) is int and part.get("delay", 0) == delay, "delayed: its delay is not 1")
    given, observers, limit, hidden = [part["witness"], *part["witness"]["others"]], [], 0, 0
    for one in given:
        fields = {"price", "prices", "memory", "steps", "pair", "weight", "others"}
        right = {*one} == fields and all(isinstance(one[name], list) for name in ("prices", "steps", "others"))
        require(right and all(type(step) is int for step in one["steps"]), "rule: its fields are others")
        own = number(one["price"], "rule: a price") or one["prices"] or one["others"]
        require(one is given[0] or not own, "rule: the observer of a further pair has prices or observers")
    names = [one["pair"] for one in given]
    require(len({*names} & {*hide, *kept}) == len(names), "rule: a pair is neither hidden nor has a lower bound")
    codes = (problem := Problem(content, delay, names)).codes
    for place, (name, one) in enumerate(zip(names, given, strict=True)):
        own, weight = f"{under}others.{place - 1}." if place else under, number(one["weight"], "rule: a weight")
        hidden, limit = hidden + weight * (name in hide), limit + weight * kept.get(name, 0)
        tables = [[arrays[own + "first"] * problem.events], *(arrays[f"{own}following.{n}"] for n in one["steps"])]
        rules = [{(node, 0, z): cost for node, row in enumerate(arrays[own + "costs"]) for z, cost in enumerate(row)}]
        if problem.path:
            parts = [[arrays[f"{own}path_{what}.{time}"] for what in ("keys", "costs")] for time in range(len(tables))]
            rules = [dict(zip(map(tuple, keys), costs, strict=True)) for keys, costs in parts]
        grouped = [groupby(sorted(rule.items()), lambda entry: entry[0][:2]) for rule in rules]
        for row in [[cost for _, cost in entries] for rows in grouped for _, entries in rows]:
            total = sum(Fraction(PRECISE.power(2, Decimal(-cost))) for cost in row if cost != inf)
            require(min(row) >= 0 and total * (1 + Fraction(1, 10**50)) <= 1, "rule: a node's probabilities exceed one")
        observers.append((weight, [[[0]]] * delay + tables, rules))

    def ahead(time, nodes, event, _):
        found = [tables[time][node][seen] for (_, tables, _), node, seen in zip(observers, nodes, event, strict=True)]
        require(min(found) >= 0, "rule: its graph ends before the horizon does")
        return tuple(found)

    def charged(time, nodes, x, before):
        first, rest = (codes[x], [codes[before]]) if time >= 0 else (0, [codes[x]] if codes else before)
        found = zip(nodes, rest, observers, strict=True)
        costs = [rules[time].get((node, first, z), inf) for node, z, (_, _, rules) in found]
        require(inf not in costs, "rule: it excludes something that a policy can reach")
        return ONE * sum(Fraction(cost) * weight for cost, (weight, _, _) in zip(costs, observers, strict=True))

    require(hidden >= 1 and min(weight for weight, _, _ in observers) > 0, "rule: its weights are too small")
    prices = [number(price, "rule: a price") for price in (given[0]["price"], *given[0]["prices"])]
    require(min(prices) >= 0 and (prices[0] == 0 or claim["threshold"] is not None), "rule: a price is not allowed")
    best = backward(problem, prices, ahead, charged, any_action(problem))
    found = min(best - floor(ONE * (limit + sum(a * b for a, b in zip(prices, limits, strict=True)))), problem.most)
    require(found <= number(part["upper"], f"{under}upper bound") * ONE, f"{under}upper bound: {found / ONE} is found")
    return f"{found / ONE:.9f}"


def check(folder):
    """Raise `ValueError` unless everything that the certificate claims is so; returns the recomputed bounds in words."""
    claim = parse(read(folder / "certificate.json"))
    require(claim["form"] == "veil-certificate-5", "certificate.json has an unknown form", NotCovered)
    listed = all(isinstance(claim[name], list) for name in ("hide", "pairs", "constraints"))
    require(listed, "hide, pairs or constraints: it is no list")
    require(claim["goal"] == "opaque", "the goal is not 'opaque'", NotCovered)
    content, policy = read(folder / "problem.bin"), Policy(folder / "policy.safetensors")
    require(hashlib.sha256(content).hexdigest() == claim["problem_hash"], "problem.bin is another problem")
    require(policy.digest.hexdigest() == claim["policy_hash"], "policy.safetensors is another policy")
    place = folder / Path(claim["arrays"]).name
    require(hashlib.sha256(read(place)).hexdigest() == claim["arrays_sha256"], "the arrays are others")
    arrays = {name: nested(shape, flat) for name, (_, shape, flat) in read_safetensors(place)[1].items()}
    sys.setrecursionlimit(100_000)  # a few calls for each step
    lowers, kept = check_pairs(content, policy, claim)
    lowers["own"] = follow(problem := policy.against(content, "own"), policy)[0]
    lower = min(lowers[name] for name in claim["hide"])
    claimed = number(claim["lower"], "lower bound")
    require(lower >= claimed * ONE, f"lower bound: {claim['lower']} is claimed, not {lower / ONE}")
    earns = {"name": "return", "relation": "≥", "bound": claim["threshold"], "value": claim["expected_return"]}
    told = [earns | {"error": claim["return_error"], "met": claim["feasible"]}, *claim["constraints"]]
    for one, paid in zip(told, problem.paid, strict=True):
        check_bound(problem, paid, one["bound"])
    limits = [paid.sign * Fraction(one["bound"] or 0) for one, paid in zip(told, problem.paid, strict=True)]
    uppers = [check_upper(content, claim, late, arrays, limits, kept) for late in range(1 + ("delayed" in claim))]
    for one, paid, limit in zip(told, problem.paid, limits, strict=True):
        require(one["met"] or not claim["feasible"], "feasible: a constraint is not met")
        check_value(problem, policy, one, paid, limit)
    bits = f"{lower / ONE:.9f} … {' and '.join(uppers)} bits"
    return f"the certificate holds: recomputed {bits}, return {claim['expected_return']:.9g}"


def check_pairs(content, policy, claim):
    """What the policy hides in each pair that is told of, from below, and the bits that must be kept in those not hidden."""
    lowers, kept, hide = {}, {}, claim["hide"]
    require(len({*hide}) == len(hide), "hide: a pair comes twice")
    for one in claim["pairs"]:
        name, bounds = one["name"], [one["min"], one["max"]]
        alone = policy.against(content, name)
        lowers[name], most = follow(alone, policy)
        lower, upper = (number(one[what], f"{name}: {what}") for what in ("lower", "upper"))
        within = lower * ONE <= lowers[name] and most <= upper * ONE
        require(within and bounds == alone.pairs[name][2], f"{name}: {lowers[name] / ONE} … {most / ONE} is found")
        kept |= {name: number(one["min"], f"{name}: min")} if one["min"] and name not in hide else {}
    return lowers, kept


def check_value(problem, policy, one, paid, limit):
    """Raise `ValueError` unless a quantity has the value that is claimed, within an error that is that of rounding, and meets
    its bound where that is claimed."""
    units = [(sign, [sign * (each is paid) for each in problem.paid]) for sign in (-1, 1)]
    least, most = (s * backward(problem, unit, policy.node, lambda *_: 0, policy.choices) for s, unit in units)
    said = one["name"], one["relation"]
    require(said == (paid.name, "≤≥"[paid.sign > 0]), f"constraints: {said} is claimed of {paid.name}")
    value, error = (number(one[what], f"{paid.name}: its {what}") for what in ("value", "error"))
    largest = (problem.horizon + 2) * problem.most_paid(paid) / (1 << 24) + Fraction(1, 1 << 800)
    require(0 <= error <= largest, f"{paid.name}: an error of {one['error']} is claimed, {float(largest)} is the most")
    where = f"{paid.name}: {one['value']} is claimed, {paid.sign * least / ONE} ± {(most - least) / ONE} is found"
    value *= paid.sign * ONE
    require(max(most - value, value - least) <= error * ONE, where)
    require(isinstance(one["met"], bool), f"{paid.name}: met is no truth value")
    if one["met"] and one["bound"] is not None and least < limit * ONE:
        require(most >= limit * ONE, f"feasible: {one['bound']} is to be met; {where}")
        raise NotCovered(f"within rounding of the bound {one['bound']}; {where}")


def main(arguments):
    if arguments in (["--help"], ["-h"]):
        return __doc__, 0
    if len(arguments) != 1:
        return __doc__, 2
    try:
        return check(Path(arguments[0])), 0
    except NotCovered as error:
        return f"not checked: {error}", 2
    except OSError as error:
        return f"not checked: {error.filename}: {error.strerror}", 2
    except MemoryError:
        return "not checked: there is not enough memory", 2
    except (LookupError, ValueError, TypeError, ArithmeticError, AttributeError, RecursionError, struct.error) as error:
        return f"the certificate does not hold: {error or type(error).__name__}", 1


if __name__ == "__main__":
    print((answer := main(sys.argv[1:]))[0])
    sys.exit(answer[1])
