"""The files of the report's page, and its script as one text, since a file on disk can load no modules."""

import re
from importlib.resources import files

# In an order in which each needs only those before it.
_MODULES = ("make.js", "charts.js", "scene.js", "arrows.js", "belief.js", "figures.js", "page.js")
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def asset(name: str) -> str:
    """The text of a file of the page."""
    return files("veil.report").joinpath("page", name).read_text("utf-8")


def page_script() -> str:
    """The modules of the page as one script."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", asset(name))) for name in _MODULES)
