"""How much is hidden: exact values, bounds, estimates, gradients and other quantities of the joint table."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"jax", "measures"})
