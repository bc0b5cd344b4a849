"""A place in the plane for each state of a graph, so that few steps apart means close together; always the same."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.csgraph import shortest_path

_ROUNDS = 400
_LEAST = 0.9  # how close two states may come, where a step is 1
_WIDEST = 1.9  # how much wider than high a picture may be
_LONG = 8.0  # how wide a strip may be that is shown as one row
_BAND = 1.2  # how far apart the rows of a folded strip are


def place(graph: sp.csr_array) -> Float[np.ndarray, "n 2"]:
    """Places whose distances come near the number of steps between the states, by stress majorisation (SMACOF).

    **Arguments:** `graph`, `(n, n)`: an entry where a step is possible, in either direction.

    **Returns:** x to the right and y down, in steps, from (0, 0) on; wider than high.

    Cost: `O(n³)`, meant for a few dozen states.
    """
    size = len(graph.indptr) - 1
    if size == 1:
        return np.zeros((1, 2))
    steps = np.asarray(shortest_path(graph + graph.T, directed=False, unweighted=True))
    apart = steps[np.isfinite(steps)].max() + 1.0  # pieces that are not joined stand beside each other
    distance = np.where(np.isfinite(steps), steps, apart)
    places = _majorised(_spread(distance), distance)
    return _framed(_apart(_lying(places)))


def _spread(distance: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n 2"]:
    """Classical scaling: the two directions in which the distances vary most. Ties are broken by a slight twist."""
    size = len(distance)
    centre = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    vectors = vectors[:, -2:] * np.sign(vectors[np.abs(vectors[:, -2:]).argmax(axis=0), [-2, -1]] + 1e-300)
    places = vectors * np.sqrt(np.maximum(values[-2:], 1e-3))
    turn = 2 * np.pi * np.arange(size) / size
    return places + 0.05 * np.column_stack([np.cos(turn), np.sin(turn)])


def _majorised(places: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Steps that never raise `Σ w (|x_i − x_j| − d_ij)²` with `w = d^-2`: near states count more than far ones."""
    weights = 1 / np.where(distance > 0, distance, 1.0) ** 2
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(_ROUNDS):
        gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
        pull = -weights * distance / np.where(gaps > 1e-9, gaps, 1e-9)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        moved = inverse @ (pull @ places)
        if np.abs(moved - places).max() < 1e-6:
            return moved
        places = moved
    return places


def _lying(places: np.ndarray) -> np.ndarray:
    """Turned so that the picture is wide rather than high, each axis in the sense that puts the first state left and up."""
    centred = places - places.mean(axis=0)
    _, _, turn = np.linalg.svd(centred, full_matrices=False)
    if len(turn) < 2:
        return centred
    turned = centred @ turn.T
    return turned * np.where(turned[0] > 1e-9, -1.0, 1.0)


def _apart(places: np.ndarray) -> np.ndarray:
    """States that came too close pushed from each other."""
    for _ in range(60):
        gaps = places[:, None] - places[None]
        lengths = np.linalg.norm(gaps, axis=2)
        near = (lengths < _LEAST) & ~np.eye(len(places), dtype=bool)
        if not near.any():
            break
        push = np.where(near, (_LEAST - lengths) / np.where(lengths > 1e-9, lengths, 1e-9), 0.0)
        places = places + 0.5 * (push[..., None] * gaps).sum(axis=1)
    return places


def _folded(places: np.ndarray) -> np.ndarray:
    """A long strip cut into rows below each other, every second one read backwards, so that neighbours stay close."""
    width, height = places.max(axis=0)
    band = height + _BAND
    rows = int(np.ceil(np.sqrt((width + 1) / (_WIDEST * band))))
    if rows < 2 or width < _LONG:
        return places
    length = width / rows
    row = np.minimum((places[:, 0] / length).astype(int), rows - 1)
    along = places[:, 0] - row * length
    return np.column_stack([np.where(row % 2 == 1, length - along, along), places[:, 1] + row * band])


def _framed(places: np.ndarray) -> np.ndarray:
    """From (0, 0) on; a flat picture is made higher, so that names find room."""
    places = _folded(places - places.min(axis=0))
    width, height = places.max(axis=0)
    if height > 1e-9 and width > _WIDEST * height:
        places = places * [1.0, min(2.0, width / (_WIDEST * height))]
    return places
