"""PRISM-Leak's dialect of PRISM: variables declared `secret` or `observable`, which Storm does not know."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*")
# `secret x : [0..3]`, with `global` before or after the keyword. PRISM's own `observable "name" = …` has a quote here.
_MARKED = re.compile(r"\b(?P<kind>secret|observable)\s+(?P<global>global\s+)?(?P<name>[A-Za-z_]\w*)\s*:(?!=)")
_WORD = re.compile(r"\b(?:end)?module\b")
_HEAD = re.compile(r"\s+(?P<name>\w+)\s*(?:=\s*(?P<base>\w+)\s*\[(?P<renamed>[^\]]*)\])?")
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
    kinds = {one["name"]: one["kind"] for one in _MARKED.finditer(plain)}
    local: dict[str, list[str]] = {}
    for module in _modules(plain):  # PRISM asks for the original to come first
        head = _HEAD.match(module)
        if head is None:
            continue
        own = local[head["name"]] = [mark["name"] for mark in _MARKED.finditer(module[head.end() :])]
        renamed = dict(_RENAMED.findall(head["renamed"] or ""))
        for variable in local.get(head["base"] or "", ()):
            target = renamed.get(variable, variable)
            kinds[target] = kinds[variable]
            own.append(target)
    parts, end = [], 0
    for mark in _MARKED.finditer(plain):
        parts += [text[end : mark.start("kind")], " " * len(mark["kind"])]
        end = mark.end("kind")
    text = "".join([*parts, text[end:]])
    secret, observable = (
        tuple(name for name, kind in kinds.items() if kind == wanted) for wanted in ("secret", "observable")
    )
    return Marked(text, secret, observable)


def _modules(text: str) -> Iterator[str]:
    """What stands between each `module` and the `endmodule` after it."""
    begin = None
    for word in _WORD.finditer(text):
        if word.group() == "module":
            begin = word.end() if begin is None else begin
        elif begin is not None:
            yield text[begin : word.start()]
            begin = None
