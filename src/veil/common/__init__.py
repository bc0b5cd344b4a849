"""What every room uses: errors, checks, logarithms, the clock, files that are complete or absent."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"errors"})
