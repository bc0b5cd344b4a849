"""How many threads are worth starting."""

import os

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from veil.engine import threads
from veil.engine.threads import cores, one_blas_thread


@pytest.mark.parametrize(
    ("asked", "machine", "found"),
    [(None, 4, 4), ("", 4, 4), ("2", 4, 2), ("9", 4, 4), ("0", 4, 4), ("many", 4, 4), ("2,1", 4, 4), ("1", None, 1)],
)
def test_as_many_as_the_machine_has_or_fewer_where_asked(
    asked: str | None, machine: int | None, found: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert cores() == found


def test_blas_has_one_thread_inside_and_what_it_had_outside():
    def numbers() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    threads._controller.cache_clear()  # another test may have loaded a library since
    with threadpool_limits(2, user_api="blas"):
        before = numbers()
        assert set(one_blas_thread(numbers)()) == {1}
        assert numbers() == before
