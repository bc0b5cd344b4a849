"""What people look at: plots of the public objects and the HTML report."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"plot"})
