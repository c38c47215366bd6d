"""Random operands of matrix products."""

import jax.numpy as jnp
import numpy as np


def draw(seed, dtype, *shapes):
    """Standard normal arrays of one dtype."""
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.standard_normal(s, np.float32), dtype) for s in shapes]
