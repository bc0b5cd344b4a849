"""Files in and out: scenarios, models in other formats, results."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"gallery"})
