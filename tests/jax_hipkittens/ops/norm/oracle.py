"""The norm ops, their gradients and the dropout mask, in float64 and plain integers."""

from typing import NamedTuple

import numpy as np


class Gradients(NamedTuple):
    dx: np.ndarray
    dresidual: np.ndarray
    dweight: np.ndarray
    dbias: np.ndarray


def f64(array):
    return np.asarray(array, np.float64)


def statistics(h, kind, epsilon):
    """(normalised h, rstd) of rows h [R,H]."""
    centred = h - h.mean(-1, keepdims=True) if kind == "layer" else h
    rstd = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred * rstd, rstd


def forward(h, weight, bias, kind, epsilon=1e-6):
    return statistics(h, kind, epsilon)[0] * weight + bias


def backward(h, weight, dy, dh, kind, epsilon=1e-6, scale=1.0):
    """``scale`` is the dropout mask times 1/(1 - rate)."""
    normalised, rstd = statistics(h, kind, epsilon)
    g = dy * weight
    inner = g - normalised * (g * normalised).mean(-1, keepdims=True)
    if kind == "layer":
        inner = inner - g.mean(-1, keepdims=True)
    total = rstd * inner + dh
    return Gradients(total * scale, total, (dy * normalised).sum(0), dy.sum(0))


def philox(counter, key):
    """Philox 4x32-10 on Python integers of any width."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (second >> 32) ^ c[1] ^ k[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ c[3] ^ k[1],
            first & 0xFFFFFFFF,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def keep_mask(seed, rate, shape):
    size = int(np.prod(shape))
    words = [philox((i, 0, 0, 0), seed) for i in range(-(-size // 4))]
    limit = int(float(np.float32(rate)) * 2**32)
    draws = np.array(words, np.uint64).reshape(-1)[:size]
    return (draws >= limit).reshape(shape)
