"""Limits for pipelines: each is held by the end of the value that is sure, and the command says so by its exit code."""

import pytest

import veil
from tests.cli.commands import veil as command
from veil.measure.gates import gates
from veil.measure.result import Opacity


def opacity(method: str, bits: float, lower: float, upper: float, std_error: float = 0.0) -> Opacity:
    return Opacity(bits, lower, upper, 1.0, method, 3, std_error)


def test_each_limit_is_compared_with_the_sure_end():
    for hidden, least, end in (
        (opacity("exact", 0.5, 0.5, 0.5), 0.5, "exact"),
        (opacity("bracket", 0.4, 0.4, 0.6), 0.4, "proven"),
        (opacity("sampled", 0.5, 0.0, 1.0, 0.05), 0.5 - 1.959963984540054 * 0.05, "95% confidence"),
        (opacity("sampled", 0.5, 0.45, 1.0, 0.05), 0.45, "95% confidence"),
    ):
        for slack, met in ((-1e-6, True), (0.0, True), (1e-6, False)):
            kept, leaked = gates(hidden, min_opacity=least + slack, max_leakage=1 - least - slack)
            assert (kept.met, leaked.met, kept.end) == (met, met, end)
            assert kept.reached == pytest.approx(least)
            assert leaked.reached == pytest.approx(1 - least)
    assert gates(opacity("exact", 0.5, 0.5, 0.5)) == ()


def test_a_limit_is_a_number_of_bits():
    for limit in (-0.1, float("nan"), "much"):
        with pytest.raises(veil.InputError, match=r"max_leakage is .*, expected bits, 0 or more"):
            gates(opacity("exact", 0.5, 0.5, 0.5), max_leakage=limit)  # type: ignore[arg-type]


def test_the_exit_code_of_measure():
    measure = ("measure", "gallery:two-rooms", "uniform")  # hides 0.4512 of 1 bit
    for limits, code in (
        (("--max-leakage", "0.6"), 0),
        (("--max-leakage", "0.5"), 7),
        (("--min-opacity", "0.45", "--max-leakage", "0.6"), 0),
        (("--min-opacity", "0.46", "--max-leakage", "0.6"), 7),
    ):
        assert command(*measure, *limits).code == code
        told = command(*measure, *limits, "--json")
        assert (told.code, all(one["met"] for one in told.json["gates"])) == (code, code == 0)
