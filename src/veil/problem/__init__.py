"""What is asked: models, observers, secrets, problems and grids."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"gallery"})
