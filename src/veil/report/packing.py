"""Numbers packed for the page: frames of probabilities over states, short enough for a file that people mail around."""

import base64

import numpy as np
from jaxtyping import Float

_FINE = 65535


def pack_bytes(array: np.ndarray) -> str:
    """The bytes of an array, little-endian, as text."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def pack_frames(frames: Float[np.ndarray, "F n"], most: int) -> dict[str, object]:
    """Frames of probabilities, of each the largest entries, in all at most `most`; zeros are left out.

    **Returns:** `begin`, where each frame begins; `place` and `root`, base64 of 16-bit (or 32-bit) positions and of
    `65535 · √p`, 16-bit: the root keeps small probabilities apart, to about one part in ten thousand. `kept`: the smallest
    share of a frame's mass that is in it.
    """
    each = max(1, most // max(1, len(frames)))
    places, roots, begin, kept = [], [], [0], 1.0
    for frame in frames:
        chosen = np.flatnonzero(frame > 0.25 / _FINE**2)
        if len(chosen) > each:
            chosen = np.sort(chosen[np.lexsort((chosen, -frame[chosen]))[:each]])
        total = float(frame.sum())
        kept = min(kept, float(frame[chosen].sum()) / total if total > 0 else 1.0)
        places.append(chosen)
        roots.append(np.rint(_FINE * np.sqrt(np.clip(frame[chosen], 0, 1))))
        begin.append(begin[-1] + len(chosen))
    wide = "<u4" if frames.shape[1] > _FINE else "<u2"
    return {
        "begin": begin,
        "wide": wide == "<u4",
        "place": pack_bytes(np.concatenate(places).astype(wide)),
        "root": pack_bytes(np.concatenate(roots).astype("<u2")),
        "kept": round(kept, 4),
    }


def pack_shares(shares: Float[np.ndarray, "*shape"]) -> str:
    """Probabilities in steps of 1/255, one byte each."""
    return pack_bytes(np.rint(255 * np.clip(shares, 0, 1)).astype("u1"))
