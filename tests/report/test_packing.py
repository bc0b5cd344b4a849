"""Packed frames come back: what the page unpacks is what was packed, the largest entries first to stay."""

import base64
from typing import Any

import numpy as np
import pytest

from tests.seeds import looped
from veil.report.packing import pack_frames, pack_shares


def unpack(packed: dict[str, Any], size: int) -> np.ndarray:
    place = np.frombuffer(base64.b64decode(packed["place"]), "<u4" if packed["wide"] else "<u2")
    root = np.frombuffer(base64.b64decode(packed["root"]), "<u2")
    frames = np.zeros((len(packed["begin"]) - 1, size))
    for number, (begin, end) in enumerate(zip(packed["begin"], packed["begin"][1:], strict=False)):
        frames[number, place[begin:end]] = (root[begin:end] / 65535) ** 2
    return frames


@looped("size", [1, 50, 70_000])
def test_frames_come_back(size: int):
    generator = np.random.default_rng(size)
    frames = generator.random((3, size)) * (generator.random((3, size)) < 0.3)
    frames /= np.maximum(frames.sum(axis=1, keepdims=True), 1e-12)
    packed = pack_frames(frames, 10**6)
    assert np.abs(np.sqrt(unpack(packed, size)) - np.sqrt(frames)).max() <= 0.51 / 65535
    assert packed["kept"] == pytest.approx(1, abs=1e-3)


def test_of_too_many_the_largest_stay():
    frames = np.array([[0.1, 0.4, 0.2, 0.3], [0.0, 0.0, 1.0, 0.0]])
    found = unpack(packed := pack_frames(frames, 4), 4)
    assert np.flatnonzero(found[0]).tolist() == [1, 3]
    assert np.flatnonzero(found[1]).tolist() == [2]
    assert packed["kept"] == pytest.approx(0.7)


def test_shares_are_bytes():
    assert base64.b64decode(pack_shares(np.array([0.0, 0.5, 1.0, 1.5]))) == bytes([0, 128, 255, 255])
