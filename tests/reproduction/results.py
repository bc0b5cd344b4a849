"""Results of a whole run, made up: every number is a function of its place, so that tables can be told apart."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from reproduction.layouts import RECONSTRUCTION
from reproduction.published import LATER, PAPER
from reproduction.run import pieces
from reproduction.store import Settings, Store, Times

from veil.formats.documents import plain


def numbers(bits: float, returned: float = 0.3) -> dict[str, Any]:
    return {
        "bits": bits,
        "return": returned,
        "sampled_bits": bits + 0.001,
        "sampled_bits_error": 0.002,
        "sampled_return": returned - 0.001,
        "sampled_return_error": 0.003,
        "lower": bits - 1e-12,
        "upper": bits + 0.05,
        "threshold": 0.3,
        "feasible": True,
        "policy": np.full((36, 5), 0.2),
    }


def contest(ours: float, most: float) -> dict[str, Any]:
    temperatures = [step / 100 for step in range(1, 11)]
    baseline = [{"temperature": tau, "bits": most * tau / 0.1, "return": 0.5 - 4 * tau} for tau in temperatures]
    lead = [ours - point["bits"] for point in baseline]
    points = [{"bits": ours, "return": 0.5, "threshold": 0.3}]
    verdict = {"beaten": lead, "holds": min(lead) > 0, "tops": min(lead) > 0}
    return {"baseline": baseline, "ours": points, "most": 0.6} | verdict


def made_up(*, wins: bool = True) -> dict[str, Any]:
    """Everything that the tables and figures need; with `wins=False` the baseline is ahead on one layout."""
    found: dict[str, Any] = {}
    for paper, bits in zip(PAPER, (0.95, 0.32), strict=True):
        found[f"planned-{paper.key}"] = {
            "at_threshold": numbers(bits),
            "at_paper_return": numbers(bits - 0.05, paper.expected_return),
        }
        curve = {"bits": [0.1, 0.2, bits], "return": [0.0, 0.2, 0.3], "multiplier": [0.0, 0.1, 0.2]}
        dots = [{"iteration": k, "bits": 0.1, "bits_error": 0.01, "return": 0.1, "return_error": 0.01} for k in (0, 2)]
        found[f"convergence-{paper.key}"] = {
            "iterations": 3,
            "settings": {"sequences": 1000, "step": 10.8},
            "curve": curve,
            "estimates": dots,
            "last": {"bits": bits, "return": 0.299},
            "answer": numbers(bits - 0.01),
        }
    temperatures = [step / 100 for step in range(1, 11)]
    found["baseline"] = {
        paper.key: [{"temperature": tau} | numbers(3 * tau, 0.5 - 8 * tau) for tau in temperatures] for paper in PAPER
    }
    three = {"seen": 0.32, "unseen": 1.7, "literal": -0.6, "return": 0.3}
    found["readings"] = {
        "policies": [{"words": "one"} | three, {"words": "another"} | three],
        "unseen": numbers(1.7),
        "literal": three | {"sampled": -0.61, "sampled_error": 0.02},
    }
    for run in LATER:
        ours = {"markov": numbers(run.bits + 0.05), "timed": numbers(run.bits + 0.1)}
        found[run.key] = ours | {"history_bits": run.bits + 0.15, "upper": run.bits + 0.16}
    found["layouts"] = {"layouts": [RECONSTRUCTION.document()] * 2, "drawn": 57}
    for number in range(3):
        ahead = wins or number != 2
        found[f"layout-{number:02d}"] = {"last": contest(0.8 if ahead else 0.2, 0.35), "initial": contest(0.3, 0.1)}
    return plain(found)


def kept(folder: Path, settings: Settings, *, without: Collection[str] = ()) -> None:
    """Put made-up results of all parts of a run into a folder, as an earlier run leaves them there."""
    store, results = Store(folder, settings), made_up()
    store.prepare()
    for piece in pieces(settings):
        if piece.name not in without:
            store.write(piece.name, results.get(piece.name, results["layout-00"]), Times())
