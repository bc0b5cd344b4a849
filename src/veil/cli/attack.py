"""What `veil measure --attack` says: the best inference attack against simulated runs."""

from typing import TYPE_CHECKING

from .shared import event_text, print_table

if TYPE_CHECKING:
    from ..measure.attack_result import Attack


def assumed(*, believes: str | None = None) -> str | None:
    """The policy that the observer assumes; None for the true one."""
    return believes


def print_attack(found: "Attack") -> None:
    """How often the attack was right, its calibration, and the runs that are to be shown in full."""
    print(found.summary())
    if found.calibration:
        rows = [[f"{one.low:.2f} … {one.high:.2f}", one.count, one.claimed, one.achieved] for one in found.calibration]
        print_table(["claimed confidence", "runs", "claimed", "achieved"], rows)
    for number, trace in enumerate(found.traces):
        rows = [
            [event_text(event), *map(float, row)]
            for event, row in zip(trace.observations, trace.posterior[-len(trace.observations) :], strict=False)
        ]
        print_table(["observation", *found.secret_values], rows, title=f"run {number}: truth {trace.truth}")


def attack_document(found: "Attack") -> dict[str, object]:
    """The numbers of an attack, as `--json` prints them."""
    from dataclasses import asdict

    from ..formats.results.document import encoded

    document = asdict(found) | {"opacity": encoded(found.opacity)}
    names = ("error", "cross_entropy_bits", "exact_cross_entropy_bits", "expected_calibration_error")
    return document | {name: getattr(found, name) for name in names}
