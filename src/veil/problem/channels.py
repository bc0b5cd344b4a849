"""Channels: a secret and the observer who asks for it, resolved against the models; the problem's own is the first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from ..common.checks import Defects
from ..common.errors import TooLargeError
from .agent import Agent
from .belief import Belief
from .constraints import Constraint, Knows, Quantity
from .model import Model
from .observer import Observer
from .pairs import OWN, Pair
from .registers import TableRegister, product
from .secrets.secret import Secret, SecretTable


@dataclass(frozen=True, eq=False)
class Channel:
    """A secret, who asks for it, and both on the hidden states `(k, m, s)`.

    The memory m is the tuple of all that the channel follows: the memory of the secret, the automata of the formulas, what the
    agent knows.

    **Attributes:**

    - `name`: `"own"` for that of the problem; `secret`, `observer`, `belief`, `min`, `max`: as in `veil.Pair`.
    - `receives`: the number of the channel whose observations its observer receives: its own, or 0.
    - `alone`: the secret's table by itself; `table`: the same over all memories.
    - `known (K, M)`: what the agent knows of each model and memory; `Problem.row_of` makes the row of a policy's table of it.
    - `terminals (K, M, S)`: what the last hidden state pays, for each of the problem's quantities.
    """

    name: str
    secret: Secret
    observer: Observer
    belief: Belief | None
    min: float | None
    max: float | None
    receives: int
    alone: SecretTable
    table: SecretTable
    known: Int[np.ndarray, "K M"]
    terminals: tuple[Float[np.ndarray, "K M S"], ...]


@dataclass(frozen=True)
class Given:
    """A channel before it is resolved; `alone` is its secret's table."""

    pair: Pair | None
    secret: Secret
    observer: Observer
    alone: SecretTable

    @property
    def name(self) -> str:
        """The name of the pair."""
        return OWN if self.pair is None else self.pair.name


def agent_of(
    tables: Sequence[SecretTable],
    constraints: Sequence[Constraint],
    found: Sequence[Quantity],
    num_models: int,
    sees: Observer | None,
    defects: Defects,
    *,
    sees_state: bool,
    apart: bool,
) -> Agent:
    """What the agent knows: the memories of the secrets and of the formulas that say so, each once; the rest as in `Agent`."""
    for one in constraints:
        if isinstance(one, Knows):
            return one.agent if one.agent.apart else replace(one.agent, sees=sees, sees_state=sees_state, apart=apart)
    own, *others = tables
    parts = [own.register if own.agent_knows else TableRegister.empty(own.label.shape[-1])]
    registers = [one.register for one in others if one.agent_knows]
    registers += [one.register for one in found if one.register is not None and one.known]
    for one in registers:
        if one.size > 1 and not any(one.equals(other) for other in parts):
            parts.append(one)
    known = _product(parts, defects)[0]
    return Agent(known, num_models > 1 and any(one.agent_knows for one in tables), sees, apart, sees_state)


def resolve(
    given: Sequence[Given],
    found: Sequence[Quantity],
    agent: Agent,
    models: Sequence[Model],
    defects: Defects,
) -> tuple[Channel, ...]:
    """All channels over the memories that each follows."""
    channels = []
    for number, one in enumerate(given):
        formulas = [quantity for quantity in found if quantity.register is not None]
        parts = [one.alone.register, *(quantity.register for quantity in formulas if quantity.register is not None)]
        known = next((place for place, part in enumerate(parts) if part.equals(agent.register)), len(parts))
        if known == len(parts) and agent.register.size > 1:
            parts.append(replace(agent.register, names=("",) * agent.register.size))
        register, places = _product(parts, defects)
        if defects:
            return ()
        channels.append(_channel(number, one, register, places, formulas, found, agent, known, models))
    return tuple(channels)


def _channel(
    number: int,
    one: Given,
    register: TableRegister,
    places: list[Int[np.ndarray, " M"]],
    formulas: list[Quantity],
    found: Sequence[Quantity],
    agent: Agent,
    known: int,
    models: Sequence[Model],
) -> Channel:
    pair, alone, size = one.pair, one.alone, agent.register.size
    seen = places[known] if known < len(places) else np.zeros(register.size, dtype=int)
    label = np.broadcast_to(alone.label[:, places[0]], (len(models), register.size, alone.label.shape[2]))
    table = alone
    if len(places) > 1 or label.shape != alone.label.shape:
        table = replace(
            alone,
            label=label,
            memory_start=register.begins,
            memory_step=register.follows,
            memory_names=register.names,
        )
    terminals = []
    for quantity in found:
        value = None if quantity.register is None else places[1 + formulas.index(quantity)]
        terminals.append(quantity.last(value, register.size))
    return Channel(
        name=one.name,
        secret=one.secret,
        observer=one.observer,
        belief=None if pair is None else pair.belief,
        min=None if pair is None else pair.min,
        max=None if pair is None else pair.max,
        receives=number if pair is None or pair.observer is not None else 0,
        alone=alone,
        table=table,
        known=np.arange(len(models))[:, None] * size * agent.knows_model + seen,
        terminals=tuple(terminals),
    )


def _product(parts: list[TableRegister], defects: Defects) -> tuple[TableRegister, list[Int[np.ndarray, " M"]]]:
    try:
        return product(parts)
    except TooLargeError as error:
        defects.add(f"the secret and the formulas together: {error}: use fewer or simpler formulas", "constraints")
        return parts[0], [np.arange(parts[0].size)] * len(parts)
