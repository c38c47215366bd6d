"""Attention and its gradients in float64, from their definition."""

from typing import NamedTuple

import numpy as np


class Results(NamedTuple):
    """Out and LSE of the forward, then the cotangents of query, key, value, scale."""

    out: np.ndarray
    lse: np.ndarray
    d_query: np.ndarray
    d_key: np.ndarray
    d_value: np.ndarray
    d_scale: np.ndarray


def visible(
    batch,
    queries,
    keys,
    is_causal=False,
    causal_alignment="top_left",
    local_window_size=None,
    query_seq_lengths=None,
    key_value_seq_lengths=None,
):
    """Which keys each query sees, bool [B,T,S], one query and key at a time."""
    seen = np.zeros((batch, queries, keys), bool)
    left = right = queries + keys
    if local_window_size is not None:
        left, right = local_window_size
    for b in range(batch):
        t_end = queries if query_seq_lengths is None else query_seq_lengths[b]
        s_end = keys if key_value_seq_lengths is None else key_value_seq_lengths[b]
        shift = s_end - t_end if causal_alignment == "bottom_right" else 0
        for t in range(t_end):
            last = t + shift + right
            if is_causal:
                last = min(last, t + shift)
            first = max(0, t + shift - left)
            seen[b, t, first : max(0, min(s_end, last + 1))] = True
    return seen


def attention(query, key, value, scale, seen, d_out, d_lse):
    """All results of query [B,T,N,D], key and value [B,S,K,D], d_lse [B,T,N]."""
    q, k, v, d_out, d_lse = (
        np.asarray(x, np.float64) for x in (query, key, value, d_out, d_lse)
    )
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    products = np.einsum("btnd,bsnd->bnts", q, k)
    logits = np.where(seen[:, None], scale * products, -np.inf)
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    finite_top = np.where(np.isfinite(top), top, 0)
    weights = np.exp(logits - finite_top)
    total = weights.sum(axis=-1, keepdims=True)
    p = weights / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + finite_top)[..., 0]

    out = np.einsum("bnts,bsnd->btnd", p, v)
    d_p = np.einsum("btnd,bsnd->bnts", d_out, v)
    rows = np.einsum("btnd,btnd->bnt", d_out, out) - d_lse.transpose(0, 2, 1)
    d_logits = p * (d_p - rows[..., None])
    return Results(
        out,
        lse.transpose(0, 2, 1),
        scale * np.einsum("bnts,bsnd->btnd", d_logits, k),
        _sum_groups(scale * np.einsum("bnts,btnd->bsnd", d_logits, q), group),
        _sum_groups(np.einsum("bnts,btnd->bsnd", p, d_out), group),
        np.sum(d_logits * products),
    )


def gradient_terms(query, key, value, scale, seen, d_out, d_lse):
    """The gradients' sums taken over absolute terms, which bound their rounding.

    Returns the largest element of each of (d_query, d_key, d_value).
    """
    out, lse, *_ = attention(query, key, value, scale, seen, d_out, d_lse)
    q, k, v, d_out, d_lse, out = (
        np.abs(np.asarray(x, np.float64))
        for x in (query, key, value, d_out, d_lse, out)
    )
    group = q.shape[2] // k.shape[2]
    signed_k = np.repeat(np.asarray(key, np.float64), group, axis=2)
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    products = np.einsum("btnd,bsnd->bnts", np.asarray(query, np.float64), signed_k)
    p = np.where(seen[:, None], np.exp(scale * products - _finite(lse)), 0)
    d_p = np.einsum("btnd,bsnd->bnts", d_out, v)
    rows = np.einsum("btnd,btnd->bnt", d_out, out) + d_lse.transpose(0, 2, 1)
    d_logits = abs(scale) * p * (d_p + rows[..., None])
    return (
        np.einsum("bnts,bsnd->btnd", d_logits, k).max(initial=0),
        _sum_groups(np.einsum("bnts,btnd->bsnd", d_logits, q), group).max(initial=0),
        _sum_groups(np.einsum("bnts,btnd->bsnd", p, d_out), group).max(initial=0),
    )


def _finite(lse):
    """LSE [B,T,N] as [B,N,T,1], infinities as zeros."""
    return np.where(np.isfinite(lse), lse, 0).transpose(0, 2, 1)[..., None]


def _sum_groups(x, group):
    batch, keys, heads, dim = x.shape
    return x.reshape(batch, keys, heads // group, group, dim).sum(axis=3)
