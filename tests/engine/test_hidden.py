"""The hidden chain: what is not made dense."""

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from veil.engine.hidden import Emitter

# The paper's augmentation


def test_more_than_two_gibibytes_are_not_made_dense():
    table = sp.csr_array((2**14, 2**14 + 1))
    with pytest.raises(veil.TooLargeError, match=r"16,384 hidden states with 16,385 emissions need 2\.0 GiB"):
        _ = Emitter(np.ones(1, dtype=bool), table).emission
