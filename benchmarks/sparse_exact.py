"""Exact leakage of protocols with many states: rows with sparse support, a plain sparse walk and dense messages."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from validation.protocols import dining, voting

import veil
from benchmarks import common
from benchmarks.common import Settings, say, seconds_text
from veil.engine.chain import make_chain
from veil.engine.sparse_walk import SparseWalk
from veil.measure.exact import Budget, EntropyObjective, prepare, walk_all

TITLE = "exact leakage of models with many states"
GALLERY = tuple(name for name in veil.gallery.names() if name != "paper-false-alarms")
_PLAIN_STATES = 40_000  # beyond, the plain walk takes minutes where histories do not merge


@dataclass(frozen=True)
class Protocol:
    """A published model and the seconds it may take, processor time of one core."""

    name: str
    build: Callable[[], veil.Problem]
    goal: float


PROTOCOLS = (
    Protocol("voting, 5 candidates, 4 voters", lambda: voting(5, 4), 0.05),
    Protocol("voting, 4 and 5", lambda: voting(4, 5), 0.15),
    Protocol("voting, 6 and 4", lambda: voting(6, 4), 0.1),
    Protocol("voting, 8 and 4", lambda: voting(8, 4), 0.5),
    Protocol("voting, 4 and 7", lambda: voting(4, 7), 10.0),
    Protocol("dining cryptographers, 4", lambda: dining(4), 0.1),
    Protocol("dining cryptographers, 5", lambda: dining(5), 0.1),
    Protocol("dining cryptographers, 6", lambda: dining(6), 2.0),
)


def plain_walk(problem: veil.Problem) -> float:
    """`H(Z|Y)` of a chain whose states each show one observation: all histories as triples (history, value, state)."""
    step, shown = problem.model.matrices[0], problem.observer.matrices[0].indices
    value, size = problem.secret_table.label[0, 0], problem.num_states
    values, alphabet = int(value.max()) + 1, int(shown.max()) + 1
    x = np.flatnonzero(problem.model.initial)
    z, p = value[x], problem.model.initial[x]
    history = np.unique(shown[x], return_inverse=True)[1]
    for _ in range(problem.horizon):
        degree = np.diff(step.indptr)[x]
        i = np.repeat(np.arange(len(x)), degree)
        j = np.arange(len(i)) - np.repeat(np.cumsum(degree) - degree, degree) + np.repeat(step.indptr[x], degree)
        following = step.indices[j]
        longer = np.unique(history[i].astype(np.int64) * alphabet + shown[following], return_inverse=True)[1]
        keys, place = np.unique((longer * values + z[i]) * size + following, return_inverse=True)
        p = np.bincount(place, p[i] * step.data[j])
        history, rest = np.divmod(keys, size * values)
        z, x = np.divmod(rest, size)
    keys, place = np.unique(history * values + z, return_inverse=True)
    joint = np.bincount(place, p)
    total = np.bincount(keys // values, joint)
    return float(-np.sum(joint * np.log2(joint / total[keys // values])))


def processor_seconds(work: Callable[[], object], rounds: int) -> float:
    """The least processor time of some rounds: what others do on the machine only adds to it."""
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def protocol_row(protocol: Protocol, settings: Settings) -> list[str]:
    """One model: value, value with gradient, plain walk."""
    begin = time.process_time()
    problem = protocol.build()
    built = time.process_time() - begin
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    chain.matrices(0)
    bits: list[float] = []

    def walk(gradient: bool) -> None:
        objective = EntropyObjective()
        SparseWalk(chain).run(objective, gradient=gradient)
        bits.append(objective.bits)

    rounds = 1 if settings.quick else 5
    value = processor_seconds(lambda: walk(False), rounds)
    gradient = processor_seconds(lambda: walk(True), rounds)
    plain = "–"
    if problem.num_states <= _PLAIN_STATES or protocol.name.startswith("voting, 8"):
        took = processor_seconds(lambda: bits.append(plain_walk(problem)), rounds)
        plain = f"{seconds_text(took)} ({value / took:.2f})"
    assert max(bits) - min(bits) < 1e-9, "the walks disagree"
    say(f"sparse_exact: {protocol.name}: {value:.4f} s, gradient {gradient:.4f} s, plain {plain}")
    return [
        protocol.name,
        f"{problem.num_states:,}",
        f"{float(np.log2(len(problem.secret_values))) - bits[0]:.6f}",
        seconds_text(built),
        seconds_text(value),
        "yes" if value <= protocol.goal else "no",
        f"{seconds_text(gradient)} ({gradient / value:.2f})",
        plain,
    ]


def gallery_row(name: str, settings: Settings) -> list[str]:
    """What the choice of a backend takes against dense messages alone."""
    problem = veil.gallery.load(name)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    budget = Budget()

    def dense() -> None:
        prepare(chain, budget, gradient=False).run(EntropyObjective())

    def chosen() -> None:
        walk_all(chain, budget, EntropyObjective, gradient=False)

    dense()  # the count is kept
    found = common.take_turns({"dense": dense, "chosen": chosen}, settings.rounds(0.2))
    ratio = found["chosen"].over(found["dense"])
    say(f"sparse_exact: {name}: {ratio.median:.2f} of dense messages")
    return [name, found["dense"].text(seconds_text), found["chosen"].text(seconds_text), ratio.text("{:.2f}".format)]


def run(settings: Settings) -> str:
    protocols = PROTOCOLS[:4] + PROTOCOLS[5:7] if settings.quick else PROTOCOLS
    rows = [protocol_row(protocol, settings) for protocol in protocols]
    gallery = [gallery_row(name, settings) for name in GALLERY]
    header = ["model", "states", "leaked bits", "built", "value", "goal met", "with gradient (ratio)", "plain (ratio)"]
    return f"""\
Exact leakage after the model is built, processor time of one core, the least of five rounds. *Plain*: a walk of thirty
lines over triples (history, value, state) with `numpy.unique`, and the time of veil over its time.

{common.markdown_table(header, rows)}

Problems of the gallery: dense messages alone against `opacity(method="exact")`, which chooses the backend.

{common.markdown_table(["problem", "dense messages", "chosen", "ratio"], gallery)}
"""
