"""Cassandra's `.pomdp` files, read and written."""

from ..registry import Format, later

FORMAT = Format(
    (".pomdp",),
    "Cassandra's models (POMDP and MDP)",
    read_model=later("veil.formats.pomdp.files:from_pomdp"),
    write_model=later("veil.formats.pomdp.files:save_pomdp"),
)
