"""The project's bound on errors: twice XLA's at the same precision, plus rounding."""

import jax.numpy as jnp
import numpy as np


def largest_error(actual, exact):
    """max |actual - exact|, over float64; not finite where ``actual`` is not."""
    actual, exact = np.asarray(actual, np.float64), np.asarray(exact, np.float64)
    assert actual.shape == exact.shape
    return np.abs(actual - exact).max(initial=0.0)


def rounding(dtype, exact):
    """One unit in the last place of the largest value."""
    return float(jnp.finfo(dtype).eps) * np.abs(np.asarray(exact)).max(initial=0.0)


def assert_as_accurate(actual, xla, exact, noise=0.0):
    """``actual`` is at most twice as far from ``exact`` as ``xla`` is, plus rounding.

    ``noise`` is an absolute allowance for values that cancel to nearly zero.
    """
    assert actual.dtype == xla.dtype
    error = largest_error(actual, exact)
    bound = 2 * largest_error(xla, exact) + rounding(actual.dtype, exact) + noise
    assert error <= bound, f"error {error:.3e} above the bound {bound:.3e}"


def assert_rounded(actual, exact, ulps, noise=0.0):
    """``actual`` is within ``ulps`` units in the last place of the largest value."""
    error = largest_error(actual, exact)
    bound = ulps * rounding(actual.dtype, exact) + noise
    assert error <= bound, f"error {error:.3e} above the bound {bound:.3e}"
