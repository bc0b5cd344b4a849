"""Check a result of veil with plain Python, without NumPy or the package: python verify_certificate.py RESULT_FOLDER

It reads `problem.bin`, `policy.safetensors` and `certificate.json` with its arrays, and recomputes what the policy hides and
earns, whether it meets every constraint, and the upper bounds that an observer's rule and prices prove: over all policies that
meet them, and over agents that learn each observation one step late. Numbers are multiples of 2^-192 or intervals of them,
rounded outward, and distributions are divided by their sums. It covers returns over the horizon, and all but memory policies.
Exit codes: 0 the certificate holds, 1 it does not, 2 it cannot be checked here.
"""

import hashlib
import json
import struct
import sys
from collections import Counter, namedtuple
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import groupby, pairwise, product
from math import ceil, floor, prod
from pathlib import Path

ONE = 1 << 192  # numbers have 192 binary digits after the point
MOST_ENTRIES = 2_000_000  # weights of one layer, about a gigabyte
PRECISE = Context(prec=60)
KINDS = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u1": "B"}

# What a constraint bounds: sign · bound ≤ E[Σ_t d^t rewards[x][a] + d^T terminal[x]]. Rewards have the sign -1 for "at most".
Paid = namedtuple("Paid", "name sign bound discount rewards terminal")


class NotCovered(Exception):
    """The certificate may hold, and this program cannot tell."""


def require(good, message, error=ValueError):
    if not good:
        raise error(message)


def distribution(numbers, places=None):
    """The places of a distribution, given in floats, that have a positive probability: pairs (place, fraction)."""
    exact = [Fraction(number) for number in numbers]
    total = sum(exact)
    require(min(exact) >= 0 and abs(total - 1) < Fraction(1, 10**6), "a row is not a distribution")
    return [(place, part / total) for place, part in zip(places or range(len(exact)), exact, strict=True) if part]


def log2_bounds(ratio):
    """log2 of a positive fraction from below and from above, in units of 2^-192."""
    found = Fraction(PRECISE.divide(PRECISE.ln(PRECISE.divide(ratio.numerator, ratio.denominator)), PRECISE.ln(2)))
    error = (abs(found) + 1) / 10**55
    return floor((found - error) * ONE), ceil((found + error) * ONE)


def read_safetensors(path):
    """Metadata and arrays (type, shape, flat list of numbers) of a safetensors file."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    head, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    metadata, arrays = head.pop("__metadata__", {}), {}
    for name, entry in head.items():
        kind, (begin, end) = f"{entry['dtype'][0].lower()}{int(entry['dtype'][1:]) // 8}", entry["data_offsets"]
        require(kind in KINDS, f"{path.name}: an array of type {entry['dtype']}")
        arrays[name] = kind, entry["shape"], [one for (one,) in struct.iter_unpack(f"<{KINDS[kind]}", data[begin:end])]
    return metadata, arrays


def nested(shape, flat):
    """A flat list as lists of lists."""
    if len(shape) <= 1:
        return list(flat)
    step = len(flat) // max(1, shape[0])
    return [nested(shape[1:], flat[row * step : (row + 1) * step]) for row in range(shape[0])]


class Fields:
    """The tagged fields of `problem.bin`, in the order in which they were written."""

    def __init__(self, content):
        self.content, self.at = content, 0

    def take(self, count):
        self.at += count
        require(self.at <= len(self.content), "problem.bin ends early")
        return self.content[self.at - count : self.at]

    def number(self):
        return int.from_bytes(self.take(8), "little")

    def next(self, expected):
        tag = self.take(self.number()).decode()
        require(tag == expected, f"problem.bin has {tag!r} where {expected!r} is expected", NotCovered)
        kind = self.take(1)
        if kind == b"s":
            return [self.take(self.number()).decode("utf-8", "surrogatepass") for _ in range(self.number())]
        shape = [self.number() for _ in range(self.number())] if kind != b"-" else [0]
        flat = [one for (one,) in struct.iter_unpack("<q" if kind == b"i" else "<d", self.take(8 * prod(shape)))]
        return nested(shape, flat) if shape else flat[0]

    def all(self, names, under=""):
        return [self.next(under + name) for name in names.split(", ")]

    def model(self):
        transitions, (_, _, available) = [], self.all("states, actions, available")
        for taken in zip(*available, strict=True):
            _, ends, columns, values = self.all("shape, row ends, columns, values", "transitions: ")
            rows = zip(taken, pairwise(ends), strict=True)
            transitions.append([distribution(values[a:b], columns[a:b]) if good else [] for good, (a, b) in rows])
        return available, transitions, *self.all("rewards, terminal rewards, initial, discount")


class Problem:
    """Its numbers, x = (k · M + m) · S + s: model, memory of the secret, state. With a delay a move shows what it leaves."""

    def __init__(self, content, delay=0):
        fields = Fields(content)
        require(fields.next("form") == ["veil problem, form 1"], "problem.bin has an unknown form")
        models = [fields.model() for _ in range(fields.next("models"))]
        names, emissions, sees_actions, sees_initial = fields.all("observations, emissions, sees actions, sees initial")
        self.time, values, label, start = fields.all("time, values, label, memory at the start", "secret: ")
        step, _, weights, knows = fields.all("memory after a step, memories, weights, agent knows", "secret: ")
        path = fields.next("secret: path") if content.startswith(b"secret: path", fields.at + 8) else []
        self.horizon, bound, over, _ = fields.all("horizon, min return, return over, agent sees observations")
        require(over == ["horizon"] and self.horizon <= 2000, "the return is over too many steps", NotCovered)
        self.agent_knows, weights = knows, dict(distribution(weights or [1.0]))
        self.num_values = (max(path) + 1) ** (self.horizon + 1) if path else len(values)
        self.path = path * (len(models) * len(step))  # what the secret shows of each x, where it is a whole path
        rewards, last = [one[2] for one in models], [[one[3]] * len(step) for one in models]
        given = [(["return"], 1, bound, rewards, last, models[0][5])]
        for _ in range(fields.next("constraints") if fields.at < len(content) else 0):
            name = fields.next("constraint")
            given.append((name, *fields.all("sign, bound, rewards, terminal rewards, discount", "constraint: ")))
        # Further secrets and observers may follow, of which the certificate says nothing.
        require(content[fields.at :][:12] in (b"", b"\4" + bytes(7) + b"pair"), "problem.bin has more at its end")
        by_action = isinstance(emissions[0][0], list)
        seen = [[distribution(row) for row in table] for table in (emissions if by_action else [emissions])]
        require(not (delay and (by_action or sees_actions or path)), "delayed: a path, or observations of actions")
        self.delay, self.seen, self.events = delay, seen[0], len(names) * len(models[0][1])
        self.states, self.moves, self.label, self.available, self.starts = len(start), [], [], [], []
        for k, (available, transitions, _, _, initial, _) in enumerate(models):
            for m, s in product(range(len(step)), range(self.states)):
                self.moves.append([[] for _ in transitions])
                for action, rows in enumerate(transitions):
                    for after, chance in rows[s]:
                        x = (k * len(step) + step[m][after]) * self.states + after
                        for event, shown in seen[action if by_action else 0][s if delay else after]:
                            event += action * len(names) * sees_actions
                            self.moves[-1][action].append((x, event, chance * shown))
                self.available.append(available[s])
                self.label.append(label[k if len(label) > 1 else 0][m][s])
            for s, chance in distribution(initial) if k in weights else ():
                x = (k * len(step) + start[s]) * self.states + s
                for event, shown in seen[0][s] if sees_initial and not (by_action or delay) else [(0, Fraction(1))]:
                    self.starts.append((x, event, weights[k] * chance * shown))
        self.paid = []
        for (name,), sign, bound, rewards, last, discount in given:
            rewards = [[sign * Fraction(reward) for reward in row] for table in rewards for row in table * len(step)]
            terminal = [sign * Fraction(reward) for table in last for row in table for reward in row]
            self.paid.append(Paid(name, sign, bound, Fraction(discount), rewards, terminal))
        # Whether path and events tell the first x, and every next one where x is known, of those that can be reached.
        reached, steps, known = {x for x, _, _ in self.starts}, [(None, *start) for start in self.starts], {}
        for _ in range(self.horizon if path else 0):
            reached |= {y for x in reached for taken in self.moves[x] for y, _, _ in taken}
        steps += [(x, *move) for x in reached for taken in self.moves[x] for move in taken if move[0] in reached]
        self.tells = bool(path) and all(known.setdefault((x, event, self.path[y]), y) == y for x, y, event, _ in steps)
        self.codes = list(range(len(self.moves))) if self.tells else self.path  # what a rule for a path tells apart

    def settled(self, time, x, z):
        """The value of the secret in x at a time, which was z before."""
        require(time != self.time or self.label[x] >= 0, "problem: the secret has no value in a state that can occur")
        return self.label[x] if time == self.time else z


class Policy:
    """A stationary, time-dependent or history policy, by its file."""

    def __init__(self, path, problem):
        metadata, arrays = read_safetensors(path)
        form, kind, *head = metadata["veil"].split(" ", 2)
        require(form == "veil-policy-1", "policy.safetensors is not a policy")
        self.problem, (_, shape, flat) = problem, arrays["probabilities"]
        self.history, self.stationary, self.told_at = kind == "history", kind == "markov", None
        if self.history:
            self._read_history(json.loads(head[0]), bytes(flat))
        else:
            require(kind in ("markov", "timed"), f"the policy is of the kind {kind!r}", NotCovered)
            shape = [1, *shape] if self.stationary else shape
            self.table = nested(shape, flat)
            self.set_hash(kind, [("f", shape, flat)])

    def _read_history(self, head, content):
        arrays, begin, horizon = [], 0, head["horizon"]
        for name, *shape in head["arrays"]:
            form = f"<{prod(shape)}{KINDS[name[1:]]}"
            arrays.append((name[1], shape, struct.unpack_from(form, content, begin)))
            begin += struct.calcsize(form)
        require(begin == len(content) and horizon == self.problem.horizon, "policy: its arrays do not fit")
        self.set_hash(f"history, executable {head['executable']}, told at {head['told_at']}", arrays)
        parts = [nested(shape, flat) for _, shape, flat in arrays]
        self.first, self.following, rest = parts[0], parts[1 : 1 + horizon], parts[1 + horizon :]
        self.told_at, self.told = head["told_at"], None if head["told_at"] is None else rest.pop()
        self.rows = []
        for time in range(horizon):
            node, situation, value, chances = rest[4 * time : 4 * time + 4]
            keys = list(zip(node, situation, value, strict=True))
            require(all(a < b for a, b in pairwise(keys)), "policy: its rows do not increase")
            self.rows.append(dict(zip(keys, chances, strict=True)))

    def node(self, time, before, event, x):
        found = (self.following[time - 1][before][event] if time else self.first[event]) if self.history else 0
        found = self.told[found][x] if time == self.told_at and found >= 0 else found
        require(found >= 0, "policy: it has no node for something that it reaches")
        return found

    def choices(self, time, node, x, z):
        if self.history:
            row = self.rows[time].get((node, x, z if time >= self.problem.time else -1))
            require(row is not None, "policy: it has no row for something that it reaches")
        else:
            row = self.table[0 if self.stationary else time][x if self.problem.agent_knows else x % self.problem.states]
        allowed = all(taken or not chance for taken, chance in zip(self.problem.available[x], row, strict=True))
        require(allowed, "policy: it takes an action that is not available")
        return distribution(row)

    def set_hash(self, kind, arrays):
        """The hash of the policy: its kind, then every array as 64-bit numbers with its shape."""
        digest = hashlib.sha256(f"veil policy, form 1: {kind}; {len(arrays)} arrays".encode())
        for letter, shape, flat in arrays:
            numbers, code = ([number + 0.0 for number in flat], "d") if letter == "f" else (flat, "q")
            digest.update(f"<{letter}8{tuple(shape)};".encode() + struct.pack(f"<{len(flat)}{code}", *numbers))
        self.hash = digest.hexdigest()


def follow(problem, policy):
    """A lower bound on the opacity of the policy, over all of its histories h, from weights that are rounded down. Of a path
    that tells every W = (node, x) it is H(W_T | h_T) + Σ_t H(W_t | W_{t+1}, h_{t+1}); of another path z is all so far."""
    layer, joint, found, path = Counter(), Counter(), 0, problem.path and not problem.tells
    for x, event, mass in problem.starts:
        z = (problem.path[x],) if path else problem.settled(0, x, 0)
        layer[event, policy.node(0, 0, event, x), x, z] += floor(mass * ONE)
    for time in range(problem.horizon):
        after, arrived = Counter(), Counter()
        for (history, node, x, z), mass in layer.items():
            for action, share in policy.choices(time, node, x, z):
                for target, event, chance in problem.moves[x][action]:
                    there = history * problem.events + event, policy.node(time + 1, node, event, target), target
                    moved = mass * share.numerator * chance.numerator // (share.denominator * chance.denominator)
                    value = (*z, problem.path[target]) if path else problem.settled(time + 1, target, z)
                    after[*there, value] += moved
                    if problem.tells:
                        arrived[there, (node, x)] += moved
        found += entropy(arrived)
        require(len(after) <= MOST_ENTRIES, "the policy has too many histories for this program", NotCovered)
        layer = after
    for (history, node, x, z), mass in layer.items():
        joint[history, (node, x) if problem.tells else z] += mass
    return found + entropy(joint)


def entropy(joint):
    """Σ p(row, value) log2(p(row) / p(row, value)), rounded down. Where weights p are too small, so is the sum."""
    total = Counter()
    for (row, _), mass in joint.items():
        total[row] += mass
    parts = [(mass, Fraction(total[row], mass)) for (row, _), mass in joint.items() if 0 < mass < total[row]]
    return sum(mass * log2_bounds(ratio)[0] // ONE for mass, ratio in parts)


def earned(problem, policy, paid):
    """Bounds on what is paid, from the end to the start: a point where values are short, or equal."""

    def mean(parts, more=0):
        """more + Σ chance · interval, rounded outward once."""
        ends = [more * ONE + sum(chance * interval[end] for chance, interval in parts) for end in (0, 1)]
        return floor(ends[0]), ceil(ends[1])

    @cache
    def value(time, node, x, z):
        if time == problem.horizon:
            return mean([], paid.terminal[x])
        scores = []
        for action, share in policy.choices(time, node, x, z):
            after = []
            for y, event, chance in problem.moves[x][action]:
                here = policy.node(time + 1, node, event, y)
                after.append((chance * paid.discount, value(time + 1, here, y, problem.settled(time + 1, y, z))))
            scores.append((share, mean(after, paid.rewards[x][action])))
        return mean(scores)

    begun = [(policy.node(0, 0, event, x), x, mass) for x, event, mass in problem.starts]
    return mean([(mass, value(0, node, x, problem.settled(0, x, 0))) for node, x, mass in begun])


def rule_bound(problem, tables, rules, prices, limits):
    """An upper bound on the opacity of every policy that meets the constraints, in units of 2^-192. The last of the rules has
    the costs −log2 q(z | node) by (node, 0, z). A path has one for each time, −log2 q(x_t | x_{t+1}, node at t + 1) by
    (node, x_{t+1}, x_t), and z = x_T. With a delay the node of a decision is the one before the event of its state."""
    for row in [[rule[k] for k in keys] for rule in rules for _, keys in groupby(sorted(rule), lambda key: key[:2])]:
        total = sum(Fraction(PRECISE.power(2, Decimal(-cost))) for cost in row if cost != float("inf"))
        require(min(row) >= 0 and total * (1 + Fraction(1, 10**50)) <= 1, "rule: a node's probabilities exceed one")
    priced, codes = list(zip(prices, problem.paid, strict=True)), problem.codes

    def pays(time, of):
        return sum(price * one.discount**time * of(one) for price, one in priced)

    def charged(time, *key):
        cost = rules[time].get(key, float("inf"))
        require(cost != float("inf"), "rule: it excludes something that a policy can reach")
        return Fraction(cost) * ONE

    @cache
    def value(time, node, x, z):
        require(node >= 0, "rule: its graph ends before the horizon does")
        if time == problem.horizon:
            shown = problem.seen[x % problem.states] if problem.delay else ()
            ends = [(tables[time][node][event], chance) for event, chance in shown] or [(node, 1)]
            own = sum(chance * charged(-1, end, 0, codes[x] if codes else z) for end, chance in ends)
            return ceil(own + pays(time, lambda one: one.terminal[x]) * ONE)
        scores = []
        for action, moves in enumerate(problem.moves[x]):
            score = pays(time, lambda one, taken=action: one.rewards[x][taken]) * ONE
            for y, event, chance in moves:
                there = tables[time + 1 - problem.delay][node][event]
                after = value(time + 1, there, y, problem.settled(time + 1, y, z))
                score += chance * (after + (charged(time, there, codes[y], codes[x]) if codes else 0))
            scores += [ceil(score)] if moves else []
        return max(scores)

    first = [0] if problem.delay else tables[0][0]
    best = sum(mass * value(0, first[event], x, problem.settled(0, x, 0)) for x, event, mass in problem.starts)
    return ceil(best - ONE * sum(price * limit for price, limit in zip(prices, limits, strict=True)))


def check(folder):
    """Raise `ValueError` unless everything that the certificate claims is so; returns the recomputed bounds."""
    claim = json.loads((folder / "certificate.json").read_text("utf-8"))
    require(claim["goal"] == "opaque", "the goal is not 'opaque'", NotCovered)
    content = (folder / "problem.bin").read_bytes()
    require(hashlib.sha256(content).hexdigest() == claim["problem_hash"], "problem.bin is another problem")
    problem = Problem(content)
    policy = Policy(folder / "policy.safetensors", problem)
    require(policy.hash == claim["policy_hash"], "policy.safetensors is another policy")
    earns = {"name": "return", "relation": "≥", "bound": claim["threshold"], "value": claim["expected_return"]}
    told = [earns | {"error": claim["return_error"], "met": claim["feasible"]}, *claim.get("constraints", [])]
    arrays, place = {}, folder / Path(claim["arrays"]).name
    require(hashlib.sha256(place.read_bytes()).hexdigest() == claim["arrays_sha256"], "the arrays are others")
    for name, (kind, shape, flat) in read_safetensors(place)[1].items():
        require(kind[0] == ("f" if "costs" in name else "i"), f"{name} has the type {kind}")
        arrays[name] = nested(shape, flat)
    limits = [paid.sign * Fraction(one["bound"] or 0) for one, paid in zip(told, problem.paid, strict=True)]
    uppers, values, whole = [], problem.num_values, (problem.num_values - 1).bit_length()
    most = whole * ONE if values == 1 << whole else log2_bounds(Fraction(values))[1]
    for under in ("", "delayed.") if "delayed" in claim else ("",):
        part, acting = (claim["delayed"], Problem(content, delay=1)) if under else (claim, problem)
        require(not under or (type(part["delay"]) is int and part["delay"] == 1), "delayed: its delay is not 1")
        rule, first = part["witness"], arrays[f"{under}first"] * problem.events
        tables = [[first], *(arrays[f"{under}following.{number}"] for number in rule["steps"])]
        prices = [Fraction(price) for price in (rule["price"], *rule.get("prices", ()))]
        require(min(prices) >= 0 and (prices[0] == 0 or claim["threshold"] is not None), "rule: a price is not allowed")
        rules = [{(node, 0, z): cost for node, row in enumerate(arrays[f"{under}costs"]) for z, cost in enumerate(row)}]
        if problem.path:
            parts = [(arrays[f"path_keys.{time}"], arrays[f"path_costs.{time}"]) for time in range(problem.horizon + 1)]
            rules = [{tuple(key): cost for key, cost in zip(*one, strict=True)} for one in parts]
        uppers.append(min(most, rule_bound(acting, tables, rules, prices, limits)))
        require(uppers[-1] <= Fraction(part["upper"]) * ONE, f"{under}upper bound: {uppers[-1] / ONE} is found")
    lower = follow(problem, policy)
    require(lower >= Fraction(claim["lower"]) * ONE, f"lower bound: {claim['lower']} is claimed, not {lower / ONE}")
    found = [earned(problem, policy, paid) for paid in problem.paid]
    for one, (least, most), paid, limit in zip(told, found, problem.paid, limits, strict=True):
        same = one["name"] == paid.name and one["relation"] == "≤≥"[paid.sign > 0]
        asked = None if paid.bound == [] else paid.bound  # a percentage is a list of one text
        require(same and (isinstance(asked, list) or one["bound"] == asked), f"{paid.name}: its bound is another")
        require(one["met"] or not claim["feasible"], "feasible: a constraint is not met")
        value, error = paid.sign * Fraction(one["value"]) * ONE, Fraction(one["error"]) * ONE
        where = f"{paid.name}: {one['value']} is claimed, {paid.sign * least / ONE} ± {(most - least) / ONE} is found"
        require(max(most - value, value - least) <= error, where)
        if one["met"] and one["bound"] is not None and least < limit * ONE:
            require(most >= limit * ONE, f"feasible: {one['bound']} is to be met; {where}")
            raise NotCovered(f"within rounding of the bound {one['bound']}; {where}")
    return lower / ONE, " and ".join(f"{upper / ONE:.9f}" for upper in uppers), found[0][0] / ONE


def main(arguments):
    sys.setrecursionlimit(100_000)  # a few calls for each step
    if len(arguments) != 1:
        return __doc__, 2
    try:
        lower, upper, earned = check(Path(arguments[0]))
    except NotCovered as error:
        return f"not checked: {error}", 2
    except (OSError, LookupError, ValueError, TypeError, ArithmeticError, struct.error) as error:
        return f"the certificate does not hold: {error or type(error).__name__}", 1
    return f"the certificate holds: recomputed {lower:.9f} … {upper} bits, return {earned:.9g}", 0


if __name__ == "__main__":
    text, code = main(sys.argv[1:])
    print(text)
    sys.exit(code)
