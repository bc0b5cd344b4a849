"""Where everything stands in a scenario file, and what is refused before it is looked at closely."""

# ruff: noqa: E501  (the hostile texts are one a line)

import json
import sys
import tomllib

import pytest

from tests.formats.fuzz_scenario import seeds
from tests.seeds import looped
from tests.small_parent import run_small
from veil.formats.scenario.text import Source

TEXT = """\
# a comment with = and [brackets]
top = 1
"quoted key" = 'x = [1'
a.b . "c.d" = { e = [1, 2], f.g = 3 }

[table]
list = [
  1, # one
  [2,
   3],
]
text = \"\"\"
[no.header]
key = 1
\"\"\"
after = 0.5
when = 1979-05-27 07:32:00

[[several]]
x = 1
[[several.inner]]
y = 1
[[several.inner]]
y = 2
[several.sub]
z = 1
[[several]]
[[several.inner]]
y = 3
"""


def paths(data: object, path: tuple = ()) -> list[tuple]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, value in items for found in [(*path, key), *paths(value, (*path, key))]]


@looped("text", [TEXT, *seeds()])
def test_every_path_has_a_line_on_which_its_key_stands(text: str):
    source, lines = Source("x", text), text.split("\n")
    for path in reversed(paths(tomllib.loads(text))):
        line = source.line(path)
        assert line is not None
        if isinstance(path[-1], str):
            assert path[-1] in lines[line - 1] or json.dumps(path[-1])[1:-1] in lines[line - 1]


# Texts of nearly 1 MiB, each made to cost as much as it can; `n` entries of each where it is cut short.
HOSTILE = r'''
import time
from veil.formats.scenario.load import read_scenario
from veil.common.errors import VeilError

GRAPH = "horizon = 1\n[graph]\ninitial = 's0'\ntransitions = ["
REST = "]\n[observer]\nrest = 'n'\n[observer.emissions]\n[secret]\nkind = 'last_state'\nstates = 's0'\n"
GRID = "horizon = 1\n[grid]\ndrawing = \"\"\"\n"

def texts(share):
    def to(count):
        return range(int(share * count))
    def times(text, count):
        return text * int(share * count)
    return [
        GRAPH + "".join(f"['s{i}','a','s{i % 77}'],\n" for i in to(45000)) + REST,
        GRAPH + "".join(f"['s{i % 3900}','b{i % 256}','s0']," for i in to(43000)) + REST,
        GRAPH + "".join(f"['s{i}','a','t{i}',0.5],\n" for i in to(36000)) + "]\nstates = ['s']\n",
        GRAPH + times("0,", 250000) + "]",
        GRID + times("S" + "?" * 249 + "\n", 200) + "\"\"\"\n",
        GRID + times("S " + "?a " * 249 + "\n", 200) + "\"\"\"\n[grid.sensors]\n" + "".join(f"{c}={{}}\n" for c in "abcdefghijklmnopqrstuvwxyz"),
        GRID + times("Q" * 250 + "\n", 200) + "\"\"\"\n",
        GRID + times("S" * 200 + "\n", 200) + "\"\"\"\n[secret]\nkind='initial_state'\n[secret.groups]\n" + "".join(f"g{i}={{drawn='S'}}\n" for i in range(60)),
        "".join(f"a{i} = 1\n" for i in to(90000)),
        "".join(f"[a{i}]\n" for i in to(100000)),
        "x = [" + times("0,", 500000) + "]",
        "a" + times(".a", 500000) + " = 1",
        'x = "' + times(r'\"', 500000),
        'x = """' + times('"" ', 300000),
        times("[", 1000000),
        "x = " + times("[", 100000),
        times("\n", 1000000),
        "horizon = 1\n[grid]\nrows = 50000\ncolumns = 50000\n",
        GRID + "S?\n\"\"\"\n[grid.sensors]\n" + "".join(f'"{chr(0x4e00 + i)}" = {{}}\n' for i in to(20000)),
    ]

def cost(text):
    assert len(text.encode()) < 2**20, len(text.encode())
    begin = time.process_time()
    try:
        read_scenario(text)
    except VeilError:
        pass
    return time.process_time() - begin

cost(texts(0.01)[0])  # what is imported on the first call is no cost of the texts
def growth(quarter, whole):
    found = 0.0
    for _ in range(3):  # again where it looks bad: other programs may have been in the way
        found = cost(whole) / max(cost(quarter), 0.05)
        if found < 8:
            break
    return found

print(max(map(growth, texts(0.25), texts(1))))
'''


@pytest.mark.slow
def test_hostile_texts_cost_little():
    """Peak memory below 512 MiB; four times the text takes well below the sixteen times of what grows with the square."""
    code, out, err, _, mebibytes = run_small([sys.executable, "-c", HOSTILE])
    assert code == 0, err
    growth = float(out)
    assert mebibytes < 512
    assert growth < 11
