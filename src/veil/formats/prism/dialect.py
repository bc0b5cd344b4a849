"""PRISM-Leak's dialect of PRISM: variables declared `secret` or `observable`, which Storm does not know."""

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*")
# `secret x : [0..3]`, with `global` before or after the keyword. PRISM's own `observable "name" = …` has a quote here.
_MARKED = re.compile(r"\b(?P<kind>secret|observable)\s+(?P<global>global\s+)?(?P<name>[A-Za-z_]\w*)\s*:(?!=)")
_MODULE = re.compile(
    r"\bmodule\s+(?P<name>\w+)\s*(?:=\s*(?P<base>\w+)\s*\[(?P<renamed>[^\]]*)\])?(?P<body>.*?)\bendmodule\b", re.DOTALL
)
_RENAMED = re.compile(r"(\w+)\s*=\s*(\w+)")


@dataclass(frozen=True)
class Marked:
    """A program as Storm reads it, and the variables that were declared `secret` and `observable`, in order."""

    text: str
    secret: tuple[str, ...]
    observable: tuple[str, ...]

    @property
    def any(self) -> bool:
        """Whether the program uses the dialect."""
        return bool(self.secret or self.observable)


def read_marks(text: str) -> Marked:
    """The program without the two keywords, lines and columns unchanged; a renamed module passes its marks on.

    Cost: linear in the text.
    """
    plain = _COMMENT.sub(lambda comment: " " * len(comment.group()), text)
    found = [(one["name"], one["kind"]) for one in _MARKED.finditer(plain)]
    kinds, modules = dict(found), {one["name"]: one for one in _MODULE.finditer(plain)}
    local = {name: [mark["name"] for mark in _MARKED.finditer(one["body"])] for name, one in modules.items()}
    for name, module in modules.items():  # PRISM asks for the original to come first
        renamed = dict(_RENAMED.findall(module["renamed"] or ""))
        for variable in local.get(module["base"] or "", ()):
            target = renamed.get(variable, variable)
            kinds[target] = kinds[variable]
            local[name].append(target)
    spans = [one.span("kind") for one in _MARKED.finditer(plain)]
    for begin, end in reversed(spans):
        text = text[:begin] + " " * (end - begin) + text[end:]
    secret, observable = (
        tuple(name for name, kind in kinds.items() if kind == wanted) for wanted in ("secret", "observable")
    )
    return Marked(text, secret, observable)
