"""One gradient of H over 2,000 given sequences: veil, the paper's recursion, automatic differentiation, the products."""

import importlib
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.paper_recursion import paper_gradient

import veil
from benchmarks import common
from benchmarks.autodiff import dynamax_filter, scan_filter, surrogate_gradient
from benchmarks.common import Sample, Settings, say, seconds_text
from benchmarks.gradient_report import CASES, HORIZON, SEQUENCES, SLICE, THREADS, report
from veil.common.logs import entropy_bits, log2_or_zero
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import DEFAULT_MEMORY
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass
from veil.policy.tables import softmax_pull_back

TITLE = "one gradient over 2,000 sequences, beside the recursion, automatic differentiation and the bare products"


class Case:
    """One problem, one softmax policy and the sequences that all contenders get."""

    def __init__(self, kind: str):
        name = "paper-last-state" if kind == "sampled" else "paper-false-alarms"
        self.problem = veil.gallery.load(name).replace(horizon=HORIZON)
        self.theta = np.random.default_rng(0).normal(size=(self.problem.num_cells, self.problem.num_actions))
        chain = make_chain(self.problem, veil.MarkovPolicy.softmax(self.theta, self.problem))
        self.hidden = chain.hidden
        generator = np.random.default_rng(1)
        self.events = draw_events(chain, SEQUENCES, generator)
        if kind == "unshared":
            self.events = generator.integers(self.problem.observer.num_observations, size=self.events.shape)
        model = self.problem.model
        self.transitions = np.stack([matrix.toarray() for matrix in model.matrices], axis=1)
        self.emissions, self.initial = self.problem.observer.emissions, model.initial
        self.inside = self.problem.secret_table.label[0, 0] == 1
        self.chain_matrix = np.asarray(chain.matrices(0)[0])

    @property
    def share(self) -> float:
        """Messages that a trie of the sequences needs, of those without sharing."""
        prefixes = sum(len(np.unique(self.events[:, : t + 1], axis=0)) for t in range(HORIZON + 1))
        return prefixes / self.events.size

    def veil(self, baseline: bool = True) -> np.ndarray:
        """As the sampled gradient does it for given events, from theta to the gradient in theta."""
        policy = veil.MarkovPolicy.softmax(self.theta, self.problem)
        chain = Chain(self.hidden, policy.table, stationary=True)
        run = SequencePass(chain, self.events, gradient=True, memory_bytes=DEFAULT_MEMORY)
        result = run.result
        bits = entropy_bits(result.posterior)
        others = (float(result.count @ bits) - bits) / (SEQUENCES - 1) if baseline else np.zeros_like(bits)
        advantage = -log2_or_zero(result.posterior) - others[:, None]
        weight = result.count[:, None] / SEQUENCES
        slope = run.pull_back(np.where(result.posterior > 0, weight * advantage, 0.0))
        return softmax_pull_back(policy.table, slope)[0]

    def paper(self) -> np.ndarray:
        gradient = np.zeros_like(self.theta)
        secret = np.flatnonzero(self.inside).tolist()
        arrays = self.transitions, self.emissions, self.initial, self.theta
        for begin in range(0, SEQUENCES, SLICE):
            part = paper_gradient(*arrays, self.events[begin : begin + SLICE], secret, sampled=True)
            gradient += part.gradient * (SLICE / SEQUENCES)
        return gradient

    def products(self) -> None:
        rows = np.full((SEQUENCES, len(self.inside)), 1 / len(self.inside))
        out = np.empty_like(rows)
        for _ in range(3 * HORIZON):
            np.matmul(rows, self.chain_matrix, out=out)


def work(kind: str, rounds: int) -> Callable[[], Any]:
    """All contenders in turn, in a process whose number of threads is set."""
    case = Case(kind)
    contenders: dict[str, Callable[[], Any]] = {"veil": case.veil, "paper": case.paper, "products": case.products}
    compiled: dict[str, float] = {}
    filters = {"jax": scan_filter}
    try:
        importlib.import_module("dynamax.hidden_markov_model")
        filters["dynamax"] = dynamax_filter
    except ImportError:
        pass
    for name, make in filters.items():
        arrays = case.transitions, case.emissions, case.initial, case.inside
        contenders[name] = surrogate_gradient(make, *arrays, case.theta, case.events)
        compiled[name] = common.clock(contenders[name])

    def measure() -> dict[str, Any]:
        expected = case.veil()
        differences = {name: common.relative_difference(contenders[name](), expected) for name in filters}
        differences["paper"] = common.relative_difference(case.paper(), case.veil(baseline=False))
        busy = {name: processors(contenders[name]) for name in contenders}
        times = common.take_turns(contenders, rounds)
        values = {name: sample.values for name, sample in times.items()}
        return {"times": values, "compiled": compiled, "differences": differences, "share": case.share, "busy": busy}

    return measure


def processors(work: Callable[[], Any]) -> float:
    """How many processors the work kept busy, to see that the number of threads is what it should be."""
    wall, used = time.perf_counter(), time.process_time()
    for _ in range(5):
        work()
    return (time.process_time() - used) / (time.perf_counter() - wall)


def with_threads(threads: int, kind: str, rounds: int) -> dict[str, Any]:
    """Measure in a process where BLAS and XLA have so many threads."""
    wanted = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")}
    wanted["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
    wanted["JAX_PLATFORMS"] = "cpu"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        return common.in_subprocess(work, kind=kind, rounds=rounds).result
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run(settings: Settings) -> str:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for kind in CASES:
        for threads in THREADS:
            found[kind, threads] = with_threads(threads, kind, settings.rounds(0, most=5))
            times = {name: Sample(tuple(values)) for name, values in found[kind, threads]["times"].items()}
            found[kind, threads]["times"] = times
            say(f"gradient: {kind}, {threads} threads:", *(f"{n} {seconds_text(s.median)}," for n, s in times.items()))
            say("  processors kept busy:", found[kind, threads]["busy"])
    return report(found, settings)
