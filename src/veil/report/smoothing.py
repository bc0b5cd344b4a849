"""Runs of a policy whose whole path is secret, as an observer reconstructs them from all observations together."""

from dataclasses import replace

import numpy as np

from ..common.logs import entropy_bits
from ..engine.hidden import event_name
from ..engine.sampling import draw_runs
from ..engine.smoother import Smoother
from .behaviour import Behaviour
from .leaking import Leaking
from .observing import ObservedRun, SampledRuns

_DRAWN, _WORK = 60, 1e8  # runs drawn at most, and moves of all of them: about ten seconds of smoothing


def smooth_runs(behaviour: Behaviour, count: int, seed: int = 0) -> tuple[SampledRuns, Leaking]:
    """Some runs, of all that were drawn the most revealing and the most misleading one, and `H(S_t | Y)` over time.

    In each run `belief` and `posterior` are those given *all* observations: of every state, and of the true one. The extremes
    are the runs in which the true states are on average most and least likely. `H(S_t | Y)` is the mean over the runs.

    **Arguments:** `count`: how many to show, two or more.
    """
    problem, chain = behaviour.problem, behaviour.chain
    cost = (problem.horizon + 1) * max(1, chain.hidden.kernel.num_entries)
    drawn = draw_runs(chain, int(np.clip(_WORK // cost, count, _DRAWN)), np.random.default_rng(seed))
    observer, first, found, bits = Smoother(problem, behaviour.policy), int(not problem.observer.sees_first), [], []
    for events, hidden in zip(drawn.events.tolist(), drawn.states, strict=True):
        seen = [event_name(problem, event, time) for time, event in enumerate(events) if time >= first]
        smoothed, states = observer.smooth(seen), chain.hidden.state[hidden]
        on_truth = smoothed.states[np.arange(len(states)), states][:, None]
        observations = (*[None] * first, *seen)
        likely = smoothed.path, smoothed.path_probability
        found.append(ObservedRun("", observations, on_truth, smoothed.states, states, None, *likely))
        bits.append(entropy_bits(smoothed.states))
    mean = np.array([run.posterior.mean() for run in found])
    chosen = [(run, f"Sample {run + 1}") for run in range(count - 2)]
    chosen += [(int(mean.argmax()), "Most revealing"), (int(mean.argmin()), "Most misleading")]
    runs = [replace(found[run], title=title) for run, title in chosen]
    errors = np.std(bits, axis=0, ddof=1) / np.sqrt(len(bits))
    source = "sensor" if problem.observer.sensors else "observation"
    return SampledRuns(runs, drawn.events), Leaking(np.mean(bits, axis=0), errors, len(bits), {}, source)
