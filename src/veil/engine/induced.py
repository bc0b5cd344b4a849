"""The Markov chain and the hidden Markov model that a policy makes of a problem, as plain arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from ..common.errors import TooLargeError
from ..common.values import Value
from ..policy.policy import Policy
from ..problem.model import Model
from ..problem.problem import Problem
from .chain import Chain, make_chain
from .hidden import event_name

MOST_STATES = 2**21
_MOST_DENSE = 2**26
NOTHING = "(nothing)"


@dataclass(frozen=True, eq=False, repr=False)
class InducedHMM(Value):
    """What the observer watches: a hidden chain that emits one symbol a step.

    `start` `(M,)`, `transitions` `(M, M)` sparse, `emissions` `(M, E)`; `rewards` `(M,)`, the expected reward of the
    decision in each state, and `terminal_rewards` `(M,)`, what the last state pays. A symbol is an observation, or a pair
    (action, observation), or `(nothing)` where none comes at time 0. `states` and `symbols` are their names; `secret`
    `(M, Z)` says with which probability the secret has each value, given the state at the secret's time. For a
    time-dependent policy the time is part of the state, and the last states are absorbing; `horizon` decisions are meant.
    """

    start: Float[np.ndarray, " M"]
    transitions: sp.csr_array
    emissions: Float[np.ndarray, "M E"]
    rewards: Float[np.ndarray, " M"]
    terminal_rewards: Float[np.ndarray, " M"]
    states: tuple[str, ...]
    symbols: tuple[str, ...]
    secret: Float[np.ndarray, "M Z"]
    secret_values: tuple[str, ...]
    horizon: int

    @property
    def num_states(self) -> int:
        """M, the number of states."""
        return len(self.start)

    def hmmlearn(self) -> dict[str, np.ndarray]:
        """`startprob_`, `transmat_` and `emissionprob_`, dense, as `hmmlearn.hmm.CategoricalHMM` names them.

        **Raises:** `TooLargeError` beyond 512 MiB.
        """
        if self.num_states**2 > _MOST_DENSE:
            raise TooLargeError(
                f"dense transitions of {self.num_states:,} states would take {self.num_states**2 * 8 / 2**30:.1f} GiB:"
                " use .transitions, which is sparse"
            )
        return {
            "startprob_": self.start.copy(),
            "transmat_": self.transitions.toarray(),
            "emissionprob_": self.emissions.copy(),
        }

    def model(self, discount: float = 1.0) -> Model:
        """The chain as a model with one action, as for `veil.formats.drn.writer.save_drn(…, chain=True)`."""
        return Model(
            [self.transitions], self.rewards, self.start, discount, self.terminal_rewards, self.states, ["step"]
        )


def induced_hmm(problem: Problem, policy: Policy) -> InducedHMM:
    """The hidden Markov model that the observer sees when a policy is played.

    A state is a hidden state of the problem (with what the agent remembers), and, where symbols depend on the action or
    show it, which kind of action led there; a time-dependent policy adds the time.

    Cost: linear in the transitions, times T for a time-dependent policy.

    **Raises:** `InputError` where the policy does not fit; `TooLargeError` beyond two million states.
    """
    chain = make_chain(problem, policy)
    # The opening layer holds the states at time 0, where they emit otherwise than later.
    opening = not chain.stationary or not _emits_alike(problem, chain)
    layers = int(opening) + len(chain.hidden.emitters) * (1 if chain.stationary else problem.horizon)
    size = layers * chain.hidden.num_states
    if size > MOST_STATES:
        raise TooLargeError(f"the chain would have {size:,} states, expected at most {MOST_STATES:,}")
    return _assemble(problem, chain, opening, layers, policy.choice_names(problem))


def _emits_alike(problem: Problem, chain: Chain) -> bool:
    """Whether a state emits at time 0 what it emits later, so that no layer of its own is needed for the start."""
    hidden = chain.hidden
    first, *more = hidden.emitters
    if more or not problem.observer.sees_first or problem.observer.sees_actions:
        return False
    emission = first.emission
    return hidden.root.shape == emission.shape and np.allclose(
        hidden.root, hidden.start[:, None] * emission, rtol=0, atol=1e-15
    )


def _assemble(problem: Problem, chain: Chain, opening: bool, layers: int, choices: Sequence[str]) -> InducedHMM:
    """Layer 0 holds time 0 where it differs; then a layer for each (time, kind of action), or each kind."""
    hidden = chain.hidden
    size, kinds = hidden.num_states, len(hidden.emitters)
    times = 1 if chain.stationary else problem.horizon
    rows: dict[tuple[int, int], sp.csr_array] = {}
    rewards = np.zeros(layers * size)
    pay = [(chain.weights(time) * hidden.paid[0].reward).sum(axis=1) for time in range(times)]
    for layer in range(layers):
        time = 0 if chain.stationary else 0 if layer == 0 else 1 + (layer - 1) // kinds
        here = slice(layer * size, (layer + 1) * size)
        if not chain.stationary and time == problem.horizon:
            rows[layer, layer] = sp.csr_array(sp.eye_array(size))
            continue
        rewards[here] = pay[time]
        for kind, matrix in enumerate(chain.matrices(time)):
            target = int(opening) + (kind if chain.stationary else time * kinds + kind)
            rows[layer, target] = sp.csr_array(matrix)
    for layer in range(layers):
        rows.setdefault((layer, layer), sp.csr_array((size, size)))  # a layer that nothing leads to keeps its width
    grid = [[rows.get((i, j)) for j in range(layers)] for i in range(layers)]
    start = np.zeros(layers * size)
    start[:size] = hidden.start
    emissions, symbols = _emissions(problem, chain, opening, layers)
    names = _names(problem, chain, opening, layers, choices)
    secret = np.tile(hidden.label, (layers, 1))
    transitions = _absorbing_ends(sp.csr_array(sp.block_array(grid, format="csr")))
    values = problem.secret_values
    ends = np.tile(hidden.paid[0].terminal, layers)
    return InducedHMM(start, transitions, emissions, rewards, ends, names, symbols, secret, values, problem.horizon)


def _absorbing_ends(transitions: sp.csr_array) -> sp.csr_array:
    """The transitions with a step to itself where there is none: the last situations of a history policy."""
    ends = np.flatnonzero(np.diff(transitions.indptr) == 0)
    loops = sp.csr_array((np.ones(len(ends)), (ends, ends)), shape=transitions.shape)
    return sp.csr_array(transitions + loops)


def _emissions(problem: Problem, chain: Chain, opening: bool, layers: int) -> tuple[np.ndarray, tuple[str, ...]]:
    hidden, observer = chain.hidden, problem.observer
    size, kinds = hidden.num_states, len(hidden.emitters)
    later = ["/".join(n) if isinstance(n := event_name(problem, e, 1), tuple) else n for e in range(hidden.num_events)]
    first = list(observer.observations.all()) if observer.sees_first else [NOTHING]
    symbols = list(dict.fromkeys([*first, *later])) if opening else later
    place = {name: number for number, name in enumerate(symbols)}
    emissions = np.zeros((layers * size, len(symbols)))
    if opening:
        # Where nothing starts, any distribution will do: it is never used.
        unused = np.eye(hidden.root.shape[1])[:1]
        table = np.where(hidden.start[:, None] > 0, hidden.root / np.maximum(hidden.start, 1e-300)[:, None], unused)
        emissions[:size, [place[name] for name in first]] = table
    columns = [place[name] for name in later]
    for layer in range(int(opening), layers):
        kind = (layer - int(opening)) % kinds
        emissions[layer * size : (layer + 1) * size, columns] = hidden.emitters[kind].emission
    emissions[~emissions.any(axis=1), 0] = 1.0  # situations of another time, which nothing leads to in this layer
    return emissions, tuple(symbols)


def _names(problem: Problem, chain: Chain, opening: bool, layers: int, choices: Sequence[str]) -> tuple[str, ...]:
    hidden = chain.hidden
    states, kinds = problem.model.states, len(hidden.emitters)
    base = [states[s] for s in hidden.state]
    if len(set(base)) < len(base):
        base = [f"{name} #{number}" for number, name in enumerate(base)]
    if layers == 1:
        return tuple(base)
    names = []
    for layer in range(layers):
        if opening and layer == 0:
            names += [f"{name} @0" for name in base]
            continue
        time, kind = divmod(layer - int(opening), kinds)
        when = "" if chain.stationary else f" @{time + 1}"
        taken = np.flatnonzero(hidden.emitters[kind].actions)
        by = "" if kinds == 1 else " by " + "/".join(choices[int(a)] for a in taken)
        names += [f"{name}{by}{when}" for name in base]
    return tuple(names)
