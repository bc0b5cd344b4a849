"""Work shared among threads, each with one BLAS thread: on small products a second one gains nothing, and on cores that others
use it costs much.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from ..common.workers import blas, cores

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


def one_blas_thread(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Run a function with one BLAS thread; the setting is that of the process, and is put back afterwards.

    Measured with other work on the cores: the gradient of the paper's initial-state problem takes 28 ms with one thread
    and 475 ms with two. On idle cores the two are within a third of each other.
    """

    @functools.wraps(function)
    def limited(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with blas().limit(limits=1, user_api="blas"):
            return function(*arguments, **named)

    return limited


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`function(item)` for each item, in order, on as many threads as there are cores; after an error no more are started."""
    number = min(len(items), cores())
    if number < 2:
        yield from map(function, items)
        return
    # Around all of them: a thread that puts the setting back would change it for the others.
    with blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(number) as pool:
        yield from pool.map(function, items)
