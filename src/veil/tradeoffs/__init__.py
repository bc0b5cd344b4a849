"""What hiding costs and what would change it: bounds, policy classes, sensors and a baseline side by side, through `solve`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"soft"})
