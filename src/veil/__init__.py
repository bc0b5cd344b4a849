"""veil: plan policies that keep a secret from an observer, measure how many bits they leak, and prove it."""

import lazy_loader

from .common.writers import WRITERS

__version__ = "0.2.0"

# `Problem.save` and `Solution.save` use files, by modules that come after theirs; the method `"queries"` of `veil.solve` is a
# plan of such a module.
WRITERS |= {
    "problem": "veil.formats.registry:write_problem",
    "solution": "veil.formats.results.folder:save_solution",
    "solution from a folder": "veil.formats.results.folder:load_result",
    "queries": "veil.querying.method:solve_queries",
}

# The public names are listed, with their modules, in `__init__.pyi`; each is imported when it is first used.
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    try:
        return _public(name)
    except AttributeError:
        if name.startswith("_"):
            raise
        from .common.suggest import suggestion

        raise AttributeError(f"module 'veil' has no attribute {name!r}: {suggestion(name, __all__)}") from None
