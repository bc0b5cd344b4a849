"""Scenarios to begin with: a commented starter of each kind, and every problem of the gallery as a file."""

import inspect

from ...common.errors import InputError
from ...common.suggest import suggestion
from ...problem import gallery
from .starters import GALLERY_GRIDS, STARTERS
from .toml import text_of, to_toml


def starter(kind: str = "grid") -> str:
    """A commented scenario to edit, which loads as it is.

    **Arguments:** `kind`: `"grid"`, a drawn grid; `"graph"`, named states; `"file"`, a model file (`model.npz`, which has
    to be put beside it).

    **Raises:** `InputError` on another kind.
    """
    if kind not in STARTERS:
        raise InputError(
            "starter", [f"found {kind!r}, expected one of {', '.join(STARTERS)}: {suggestion(str(kind), STARTERS)}"]
        )
    return STARTERS[kind]


def scenario_of(name: str) -> str:
    """A problem of the gallery as the text of a scenario that loads as an equal problem; grids are drawn.

    **Raises:** `InputError` on an unknown name.
    """
    problem = gallery.load(name)
    story = inspect.getdoc(getattr(gallery, name.replace("-", "_"))) or ""
    if name not in GALLERY_GRIDS:
        return to_toml(problem, story)
    comment = "\n".join(f"# {line}".rstrip() for line in story.splitlines())
    return f"{comment}\n\nname = {text_of(name)}\n{GALLERY_GRIDS[name]}"
