"""Mutated `.pomdp` and DRN texts: tokens of the grammar are exchanged, lines moved, characters spoiled."""

# ruff: noqa: E501  (what is put in stands close together)

import random
import re
from functools import cache

from tests.formats.classics import DATA, classic
from tests.formats.test_malformed import DRN_FILES, POMDP

_TOKENS = re.compile(r"\s+|[A-Za-z_$@][\w.$@-]*|[0-9.]+(?:[eE][+-]?[0-9]+)?|.", re.DOTALL)
_NUMBERS = (
    "0", "1", "2", "-1", "0.5", "1.0", "0.25", "1e-9", "1e308", "1e309", "-0.0", "inf", "nan", "1/3", "1/0", "0x1", "1_0", "٣",
    "999999999", "99999999999999999999", "2147483648", "100", "5e-324", ".", "1.", ".5", "+ 1", "- 2", "1e", "1..2",
)  # fmt: skip
_POMDP_WORDS = (
    "discount", "values", "states", "actions", "observations", "start", "include", "exclude", "T", "O", "R", ":", "*", "uniform",
    "identity", "reset", "reward", "cost", "#", "a", "b", "tiger-left", "listen", "x y", "\n", "\n\n", "T: * identity\n",
    "O: * uniform\n", "R: * : * : * : * 1\n", "T: 0 : 0 : 0 1\n", "start: uniform\n", "start exclude: 0\n", "states: 3\n", "\x00",
    "é", "\t", "\r\n", "T: *\n", "O: 0 : 0\n", "R: 0 : 0\n",
)  # fmt: skip
_DRN_WORDS = (
    "@type:", "@type: MDP\n", "@type: DTMC\n", "@value_type: double\n", "@value_type: rational\n", "@parameters\n", "@placeholders\n",
    "@reward_models\n", "@nr_states\n", "@nr_choices\n", "@model\n", "$slip : 0.1\n", "$slip", "state", "action", "init", "goal",
    "state 0 init\n", "state 4\n", "\taction x\n", "\taction __NOLABEL__ [1]\n", "\t\t0 : 1\n", "\t\t1 : 0.5\n", "[", "]", "[1, 2]",
    "[]", "{", "}", "{1}", "{99999999}", '"', '"half way"', ":", ",", "//", "//[x=1]\n", "//[!door\t& x=0]\n", "\n", "\x00", "é", "!",
)  # fmt: skip


@cache
def _pomdp_seeds() -> list[str]:
    small = [classic(name) for name in ("tiger", "cheese", "shuttle")]
    bad = [text for text, _, _ in POMDP.values() if isinstance(text, str) and len(text) < 2000]
    return [*small * 8, *bad]


@cache
def _drn_seeds() -> list[str]:
    good = (DATA / "corridor.drn").read_text("utf-8")
    return [*[good] * 30, *(text for text, _, _ in DRN_FILES.values())]


def pomdp(rng: random.Random) -> bytes:
    """A mutated `.pomdp` file."""
    return mixed(rng, _pomdp_seeds(), _POMDP_WORDS)


def drn(rng: random.Random) -> bytes:
    """A mutated DRN file."""
    return mixed(rng, _drn_seeds(), _DRN_WORDS)


def mixed(rng: random.Random, seeds: list[str], words: tuple[str, ...]) -> bytes:
    """One of the texts with a few changes, now and then in its bytes too."""
    text = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 5, 9))):
        text = mutated(text, rng, rng.choice(seeds), words)
    data = text.encode("utf-8", "replace")
    return spoiled(data, rng) if rng.random() < 0.05 else data


def mutated(text: str, rng: random.Random, other: str, words: tuple[str, ...]) -> str:
    """One change of a text: of a token, a number, a line, or a stretch of another text."""
    kind = rng.randrange(8)
    if kind <= 3:  # exchange, drop, double or insert a token
        tokens = _TOKENS.findall(text) or [""]
        at = rng.randrange(len(tokens))
        if kind == 0 and (numbers := [i for i, token in enumerate(tokens) if token[:1].isdigit()]):
            tokens[rng.choice(numbers)] = rng.choice(_NUMBERS)
        elif kind == 1:
            tokens[at] = rng.choice((*words, *_NUMBERS))
        elif kind == 2:
            del tokens[at : at + rng.choice((1, 1, 2, 4))]
        else:
            tokens.insert(at, rng.choice((rng.choice(words), rng.choice(tokens), rng.choice(_NUMBERS))))
        return "".join(tokens)
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    if kind == 4:
        del lines[at : at + rng.choice((1, 1, 2, 5))]
    elif kind == 5:
        lines.insert(at, rng.choice(lines))
    elif kind == 6:
        begin = rng.randrange(len(other.split("\n")))
        lines[at:at] = other.split("\n")[begin : begin + rng.randrange(1, 6)]
    else:
        there = rng.randrange(len(lines))
        lines[at], lines[there] = lines[there], lines[at]
    return "\n".join(lines)


def spoiled(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them changed, removed, inserted, or the end cut off."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        kind, at = rng.randrange(5), rng.randrange(len(content) + 1)
        if kind == 0:
            del content[at:]
        elif kind == 1:
            del content[at : at + rng.choice((1, 2, 8))]
        elif kind == 2:
            content[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 8))))
        elif at < len(content):
            content[at] = rng.randrange(256) if kind == 3 else content[at] ^ (1 << rng.randrange(8))
    return bytes(content)
