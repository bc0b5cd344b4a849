"""The kinds of memory: veil's own, and those of other packages through the entry points `veil.memories`."""

from typing import TYPE_CHECKING, cast

from ...common.registry import Registry

if TYPE_CHECKING:
    from .memory import Memory


def _check(entry: object) -> str | None:
    """What keeps the class of another package from being a memory."""
    from ...problem.keys import defect_of_kind
    from .memory import Memory

    wrong, made = defect_of_kind(entry, Memory, "veil.policy.memories.Memory"), cast("type[Memory]", entry)
    if wrong is None and not (made.keys and made.keys[0].name == made.kind):
        return f"expected the class attribute keys, of which the first is called {made.kind!r} as the kind"
    return wrong


# By the name in scenario files, `memory = { states = 2 }`.
MEMORIES: "Registry[type[Memory]]" = Registry(
    "memory",
    "veil.memories",
    {
        "observations": "veil.policy.memories.observations:ObservationMemory",
        "states": "veil.policy.memories.states:StateMemory",
        "zones": "veil.policy.memories.zones:ZoneMemory",
        "controller": "veil.policy.memories.controller:Controller",
        "mixture": "veil.policy.memories.mixture:Mixture",
    },
    _check,
)
