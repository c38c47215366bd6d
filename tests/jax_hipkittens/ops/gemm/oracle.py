"""Matrix products and their epilogues in float64."""

import math

import jax
import numpy as np


def f64(x):
    return np.asarray(x, np.float64)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def activate(activation, z):
    """(activation(z), its derivative at z)."""
    if activation is None:
        return z, np.ones_like(z)
    if activation == "silu":
        s = 1 / (1 + np.exp(-z))
        return z * s, s * (1 + z * (1 - s))
    if activation == "gelu_exact":
        cdf = 0.5 * (1 + _erf(z / np.sqrt(2)))
        return z * cdf, cdf + z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    c = np.sqrt(2 / np.pi)
    t = np.tanh(c * (z + 0.044715 * z**3))
    slope = 0.5 * z * (1 - t**2) * c * (1 + 3 * 0.044715 * z**2)
    return 0.5 * z * (1 + t), 0.5 * (1 + t) + slope


def matmul(a, b, bias, activation, d_c):
    """(c, d_a, d_b, d_bias) of a [..., M, K] and b [..., K, N]; d_bias is for [N]."""
    a, b, d_c = f64(a), f64(b), f64(d_c)
    z = a @ b + (0 if bias is None else f64(bias))
    c, slope = activate(activation, z)
    d_z = d_c * slope
    d_a = _sum_to(d_z @ b.swapaxes(-1, -2), a.shape)
    d_b = _sum_to(a.swapaxes(-1, -2) @ d_z, b.shape)
    return c, d_a, d_b, d_z.reshape(-1, d_z.shape[-1]).sum(0)


def _sum_to(x, shape):
    """Undoes the broadcasting of ``shape`` to that of x."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    stretched = [i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1]
    return x.sum(axis=tuple(stretched), keepdims=True)


def dot_general(lhs, rhs, dimension_numbers, d_out):
    """(out, d_lhs, d_rhs)."""
    with jax.enable_x64(True):
        out, pullback = jax.vjp(
            lambda x, y: jax.lax.dot_general(x, y, dimension_numbers),
            f64(lhs),
            f64(rhs),
        )
        return jax.tree.map(np.asarray, (out, *pullback(f64(d_out))))
