"""veil: plan policies that keep a secret from an observer, measure how many bits they leak, and prove it."""

import lazy_loader

from .common.writers import WRITERS

__version__ = "0.2.0"

# `Problem.save`, `Solution.save`, `Certificate.save` and `Certificate.load` use files, by modules that come after theirs.
WRITERS |= {
    "problem": "veil.formats.registry:write_problem",
    "solution": "veil.formats.results.folder:save_solution",
    "solution from a folder": "veil.formats.results.folder:load_result",
    "certificate": "veil.proof.certificate_file:save_certificate",
    "certificate from a file": "veil.proof.certificate_file:load_certificate",
}

# The public names are listed, with their modules, in `__init__.pyi`; each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
