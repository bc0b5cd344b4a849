"""Text for people: names and values in two columns."""

from collections.abc import Iterable


def aligned(facts: Iterable[tuple[str, str]]) -> str:
    """A line for each name and value, the values below each other."""
    rows = list(facts)
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
