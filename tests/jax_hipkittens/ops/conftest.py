"""Settings of the tests of ops."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_promotion():
    """Ops neither mix dtypes nor stretch ranks by accident."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield
