"""Protocols from the literature as veil problems: single-preference voting and the dining cryptographers.

Both are chains (one action): the scheduler of the papers chooses uniformly. The secret is the initial value, and the
observer sees the public variables after each step. States and emissions are built as arrays, so that millions of states
take seconds.
"""

from math import factorial

import numpy as np
import scipy.sparse as sp

import veil


def voting(candidates: int, voters: int) -> veil.Problem:
    """Single-preference voting: each step one voter who has not voted, chosen uniformly, adds to a public count.

    A state is (preferences, set of those who have voted); the secret is the preferences, uniform. There are
    `candidates**voters * 2**voters` states, and the horizon is the number of voters.
    """
    preferences, sets = candidates**voters, 2**voters
    choice = np.arange(preferences)[:, None] // candidates ** np.arange(voters) % candidates  # (preferences, voters)
    voted = np.arange(sets)[:, None] >> np.arange(voters) & 1  # (sets, voters)
    waiting, voter = np.nonzero(voted == 0)
    chance = 1.0 / (voters - voted.sum(axis=1))[waiting]
    source = np.append(waiting, sets - 1)
    target = np.append(waiting | 1 << voter, sets - 1)
    step = sp.csr_array((np.append(chance, 1.0), (source, target)), shape=(sets, sets))
    transitions = sp.csr_array(sp.kron(sp.eye_array(preferences), step, format="csr"))
    counts = np.zeros((preferences, sets), dtype=np.int64)
    for candidate in range(candidates):
        counts += (choice == candidate).astype(np.int64) @ voted.T * (voters + 1) ** candidate
    start = np.zeros((preferences, sets))
    start[:, 0] = 1.0 / preferences
    return _chain(transitions, start.ravel(), counts.ravel(), veil.InitialState(), voters)


def dining(cryptographers: int, *, master: bool = True, fair: bool = True) -> veil.Problem:
    """Dining cryptographers, interleaved: at each step one enabled action, uniformly, until all have announced.

    A coin that is not flipped can be flipped; a cryptographer whose two coins are flipped can announce whether they
    agree, the payer the opposite. Coin i lies between cryptographers i and i + 1. The secret is who pays: the master
    (value 0, where there is one) or a cryptographer. The observer sees the announcements, in the order they come.

    **Arguments:** `fair`: coins are fair; else they always show heads.
    """
    size = cryptographers
    payers = np.arange(0 if master else 1, size + 1)
    coins, said = 3**size, 3**size  # digits: 0 not yet, 1 heads or agree, 2 tails or differ
    power = 3 ** np.arange(size)
    layer = np.unique(payers * coins * said)
    states, edges = [layer], []
    for _ in range(2 * size):
        payer, rest = np.divmod(layer, coins * said)
        coin, spoken = (digits[:, None] // power % 3 for digits in np.divmod(rest, said))
        parts = []
        flip_row, flip = np.nonzero(coin == 0)
        left, right = coin, np.roll(coin, 1, axis=1)
        speak_row, speak = np.nonzero((left > 0) & (right > 0) & (spoken == 0))
        enabled = np.bincount(np.append(flip_row, speak_row), minlength=len(layer)).astype(float)
        for side in (1, 2) if fair else (1,):
            parts.append((flip_row, layer[flip_row] + side * power[flip] * said, (0.5 if fair else 1.0)))
        differs = (left != right)[speak_row, speak] ^ (payer[speak_row] == speak + 1)
        parts.append((speak_row, layer[speak_row] + (1 + differs) * power[speak], 1.0))
        for row, target, share in parts:
            edges.append((layer[row], target, share / enabled[row]))
        layer = np.unique(np.concatenate([target for _, target, _ in parts]))
        states.append(layer)
    code = np.unique(np.concatenate(states))
    final = states[-1]
    source = np.searchsorted(code, np.concatenate([*(edge[0] for edge in edges), final]))
    target = np.searchsorted(code, np.concatenate([*(edge[1] for edge in edges), final]))
    chance = np.concatenate([*(edge[2] for edge in edges), np.ones(len(final))])
    transitions = sp.csr_array((chance, (source, target)), shape=(len(code), len(code)))
    start = np.isin(code, states[0]) / len(states[0])
    return _chain(transitions, start, code % said, veil.InitialState(), 2 * size)


def _chain(
    transitions: sp.csr_array, start: np.ndarray, shown: np.ndarray, secret: veil.InitialState, horizon: int
) -> veil.Problem:
    """A chain with one action whose states each show one public value."""
    size = len(start)
    _, observation = np.unique(shown, return_inverse=True)
    emissions = sp.csr_array((np.ones(size), observation.ravel(), np.arange(size + 1)))
    model = veil.Model([transitions], np.zeros((size, 1)), start)
    return veil.Problem(model, veil.Observer(emissions), secret, horizon)


def voting_sequences(candidates: int, voters: int) -> int:
    """How many observation sequences a vote has: one for each order of the votes that can be seen."""
    return candidates**voters


def voting_leakage(candidates: int, voters: int) -> float:
    """The published leakage in closed form: given the counts k, all `voters! / Π k!` preferences are equally likely."""
    bits = 0.0
    for counts in _compositions(voters, candidates):
        ways = factorial(voters)
        for count in counts:
            ways //= factorial(count)
        bits += ways * float(np.log2(ways))
    return voters * float(np.log2(candidates)) - bits / candidates**voters


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in _compositions(total - first, parts - 1)]
