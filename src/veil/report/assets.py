"""The script of the figures, as the report and the studio include it."""

from importlib.resources import files

_SCRIPTS = ("make.js", "draw.js", "charts.js", "figures.js")
# What a page calls; everything else stays inside the function.
_NAMES = ("drawScene", "drawAll", "sceneKey", "lineChart", "key", "make", "percent", "tint")


def asset(name: str) -> str:
    """The text of a file of the page."""
    return files("veil.report").joinpath("page", name).read_text("utf-8")


def figures_script() -> str:
    """The JavaScript function `figures(data, root)`: draws the figures of `page_data` in their places under an element."""
    body = "\n".join(map(asset, _SCRIPTS))
    offered = f"{{ {', '.join(_NAMES)}, isPicture: scene.grid && count > LARGE }}"
    return f"function figures(data, root) {{\n{body}\nreturn {offered};\n}}\n"
