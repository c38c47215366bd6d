"""Rotary embedding in NumPy float64, one complex multiplication per pair."""

import numpy as np


def f64(array):
    return np.asarray(array, np.float64)


def table_rows(table, offsets, length):
    """[B or 1,P,R/2] at clip(offset + t) -> [B,T,R/2]."""
    batch = len(offsets)
    table = np.broadcast_to(table, (batch, *table.shape[1:]))
    rows = np.clip(np.asarray(offsets)[:, None] + np.arange(length), 0, None)
    rows = np.minimum(rows, table.shape[1] - 1)
    return np.stack([table[b][rows[b]] for b in range(batch)])


def pair_slices(rotated, interleaved):
    half = rotated // 2
    if interleaved:
        return slice(0, rotated, 2), slice(1, rotated, 2)
    return slice(0, half), slice(half, rotated)


def rotary(x, cos, sin, offsets, interleaved):
    """x [B,T,N,D], cos and sin [B or 1,P,R/2], offsets [B]."""
    x, cos, sin = f64(x), f64(cos), f64(sin)
    first, second = pair_slices(2 * cos.shape[-1], interleaved)
    turn = table_rows(cos, offsets, x.shape[1]) + 1j * table_rows(
        sin, offsets, x.shape[1]
    )
    turned = (x[..., first] + 1j * x[..., second]) * turn[:, :, None]
    y = x.copy()
    y[..., first], y[..., second] = turned.real, turned.imag
    return y
