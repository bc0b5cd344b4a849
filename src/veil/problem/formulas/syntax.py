"""The syntax of formulas: text to a tree, with errors that name the column, and back to text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...common.expressions import QUOTED, Language, Part

UNARY = ("!", "X", "WX", "F", "G", "Y", "O", "H")
BINARY = ("U", "R", "S")
FUTURE = frozenset({"X", "WX", "F", "G", "U", "R", "last"})
PAST = frozenset({"Y", "O", "H", "S"})
CONSTANTS = ("true", "false", "last")

_MOST_NESTED = 300  # of operators inside each other
_LANGUAGE = Language(
    "formula",
    "F (badge & X F vault)",
    re.compile(
        rf"""\s*(?:{QUOTED}
  | (?P<compare>[A-Za-z_][\w.]*\s*(?:<=|>=|!=|==|=|<(?!->?)|>)\s*-?[\w.]+)
  | (?P<word>[A-Za-z_][\w.]*)
  | (?P<sign><->|->|&&|\|\||[&|!~()])
  )""",
        re.VERBOSE,
    ),
    alike={"&&": "&", "||": "|", "~": "!", "and": "&", "or": "|", "not": "!"},
    prefix=dict.fromkeys(UNARY, 6),
    infix={"<->": 1, "->": 2, "|": 3, "&": 4, **dict.fromkeys((*BINARY, "W"), 5)},
    to_the_right=("->", *BINARY, "W"),  # a -> b -> c is a -> (b -> c)
    operand="a proposition, a unary operator or '('",
    operator="an operator such as & or U",
)


@dataclass(frozen=True)
class Node:
    """A formula: `operator` with its `parts`. A proposition has the operator `"prop"` and a `name`."""

    operator: str
    parts: tuple["Node", ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        # Of the parts' hashes, not of the whole tree: subformulas are shared, and a chain of <-> has a huge tree.
        object.__setattr__(self, "_hash", hash((self.operator, self.name, *(part._hash for part in self.parts))))
        object.__setattr__(self, "depth", 1 + max((part.depth for part in self.parts), default=0))

    _hash: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=1)

    def __hash__(self) -> int:
        return self._hash

    def walk(self) -> Iterator["Node"]:
        """Every subformula once, parts before the whole."""
        seen: set[Node] = set()
        stack: list[tuple[Node, bool]] = [(self, False)]
        while stack:
            node, ready = stack.pop()
            if node in seen:
                continue
            if ready:
                seen.add(node)
                yield node
            else:
                stack.append((node, True))
                stack += [(part, False) for part in reversed(node.parts)]

    def __str__(self) -> str:
        if self.operator == "prop":
            taken = {*UNARY, *BINARY, "W", *_LANGUAGE.alike, *CONSTANTS}
            plain = re.fullmatch(r"[A-Za-z_][\w.]*", self.name) and self.name not in taken
            return self.name if plain else f'"{self.name}"'
        if not self.parts:
            return self.operator
        if self.operator == "!":
            return f"!{self.parts[0]}"
        if len(self.parts) == 1:
            return f"{self.operator} {self.parts[0]}"
        return f"({f' {self.operator} '.join(map(str, self.parts))})"


def parse(text: str) -> Node:
    """The tree of a formula.

    Operators, from the strongest binding: `!` and the unary `X` (next), `WX` (weak next), `F` (at some time), `G` (at all
    times), `Y` (at the time before), `O` (once), `H` (at all times so far); `U` (until), `R` (release), `W` (weak until) and
    `S` (since); `&`; `|`; `->`; `<->`. Constants: `true`, `false` and `last`, true at the last time. A proposition is a word, a
    comparison such as `x>3`, or any text in quotes.

    **Raises:** `InputError` naming the column, what was found there and what was expected.
    """
    nodes: list[Node] = []
    for part in _LANGUAGE.parse(text):
        if part.kind == "prefix":
            nodes.append(Node(part.text, (nodes.pop(),)))
        elif part.kind == "infix":
            second, first = nodes.pop(), nodes.pop()
            nodes.append(_joined(part.text, first, second))
        else:
            nodes.append(_operand(text, part))
        if nodes[-1].depth > _MOST_NESTED:
            _LANGUAGE.refuse(text, part.column, f"expected at most {_MOST_NESTED} operators inside each other")
    return nodes[0]


def _operand(text: str, part: Part) -> Node:
    if part.kind == "word" and part.text in CONSTANTS:
        return Node(part.text)
    name = part.text.strip() if part.kind == "quoted" else re.sub(r"\s+", "", part.text)
    if not name:
        _LANGUAGE.refuse(text, part.column, "the quotes are empty, expected a proposition")
    return Node("prop", name=name)


def _joined(operator: str, first: Node, second: Node) -> Node:
    if operator == "->":
        return Node("|", (Node("!", (first,)), second))
    if operator == "<->":
        both, neither = Node("&", (first, second)), Node("&", (Node("!", (first,)), Node("!", (second,))))
        return Node("|", (both, neither))
    if operator == "W":
        return Node("R", (second, Node("|", (first, second))))
    return Node(operator, (first, second))
