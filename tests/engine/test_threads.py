"""How many threads are worth starting."""

from threadpoolctl import threadpool_info, threadpool_limits

from veil.engine.threads import one_blas_thread


def test_blas_has_one_thread_inside_and_what_it_had_outside():
    def numbers() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = numbers()
        assert set(one_blas_thread(numbers)()) == {1}
        assert numbers() == before
