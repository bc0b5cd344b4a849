"""How to hide more: options, methods and the search for policies that meet the constraints."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"soft"})
