"""Attention and its gradients in float64, from their definition."""

from typing import NamedTuple

import numpy as np


class Results(NamedTuple):
    """Out and LSE of the forward, then cotangents by the names of what they are of."""

    out: np.ndarray
    lse: np.ndarray
    d_query: np.ndarray
    d_key: np.ndarray
    d_value: np.ndarray
    d_scale: np.ndarray
    d_bias: np.ndarray | None
    d_sinks: np.ndarray
    d_alibi_slopes: np.ndarray


class Extras(NamedTuple):
    """What scores and probabilities are made from besides query, key and scale.

    ``bias`` broadcasts to [B,N,T,S]; ``distance`` [B,T,S] goes with ``slopes`` [N].
    ``factors`` [B,N,T,S] multiply probabilities, as dropout does. ``inside`` [B,T] has
    the queries that have a sink.
    """

    bias: np.ndarray | None = None
    soft_cap: float | None = None
    slopes: np.ndarray | None = None
    distance: np.ndarray | None = None
    sinks: np.ndarray | None = None
    factors: np.ndarray | None = None
    inside: np.ndarray | None = None


NO_EXTRAS = Extras()


def positions(
    batch,
    queries,
    keys,
    causal_alignment="top_left",
    query_seq_lengths=None,
    key_value_seq_lengths=None,
    query_positions=None,
    key_value_positions=None,
    **_,
):
    """Of queries [B,T], aligned, and keys [B,S]."""
    of_query, of_key = (
        np.tile(np.arange(size), (batch, 1)) if given is None else np.asarray(given)
        for given, size in ((query_positions, queries), (key_value_positions, keys))
    )
    if key_value_positions is None and query_positions is not None:
        of_key = of_query
    if causal_alignment == "bottom_right":
        t_end = queries if query_seq_lengths is None else query_seq_lengths
        s_end = keys if key_value_seq_lengths is None else key_value_seq_lengths
        shift = np.broadcast_to(np.subtract(s_end, t_end), batch)
        of_query = of_query + shift[:, None]
    return of_query, of_key


def visible(
    batch,
    queries,
    keys,
    is_causal=False,
    local_window_size=None,
    query_segment_ids=None,
    key_value_segment_ids=None,
    mask=None,
    **options,
):
    """Which keys each query sees, bool [B,T,S], or [B,N,T,S] with a mask."""
    of_query, of_key = positions(batch, queries, keys, **options)
    lengths = options.get("query_seq_lengths"), options.get("key_value_seq_lengths")
    seen = np.zeros((batch, queries, keys), bool)
    for b in range(batch):
        t_end, s_end = (
            size if given is None else given[b]
            for given, size in zip(lengths, (queries, keys), strict=True)
        )
        for t in range(t_end):
            ahead = of_key[b] - of_query[b, t]
            row = np.arange(keys) < s_end
            if is_causal:
                row &= ahead <= 0
            if local_window_size is not None:
                row &= (-local_window_size[0] <= ahead) & (
                    ahead <= local_window_size[1]
                )
            if query_segment_ids is not None:
                others = key_value_segment_ids
                others = query_segment_ids if others is None else others
                row &= np.asarray(others)[b] == query_segment_ids[b][t]
            seen[b, t] = row
    return seen if mask is None else seen[:, None] & np.asarray(mask)


class _Forward(NamedTuple):
    products: np.ndarray  # [B,N,T,S], of query and key
    slope: np.ndarray  # of the soft cap
    p: np.ndarray  # before dropout
    p_sink: np.ndarray  # [B,N,T]
    factors: np.ndarray
    out: np.ndarray  # [B,T,N,E]
    lse: np.ndarray  # [B,N,T]


def _forward(q, k, v, scale, seen, extras):
    """q [B,T,N,D], with as many heads in k and v."""
    products = np.einsum("btnd,bsnd->bnts", q, k)
    logits, slope = scale * products, np.ones(())
    if extras.soft_cap is not None:
        tanh = np.tanh(logits / extras.soft_cap)
        logits, slope = extras.soft_cap * tanh, 1 - tanh**2
    if extras.slopes is not None:
        slopes = _wide(extras.slopes)[:, None, None]
        logits = logits - slopes * extras.distance[:, None]
    if extras.bias is not None:
        logits = logits + _wide(extras.bias)
    logits = np.where(seen if seen.ndim == 4 else seen[:, None], logits, -np.inf)
    sink = np.full((*logits.shape[:3], 1), -np.inf)
    if extras.sinks is not None:
        inside = True if extras.inside is None else extras.inside[:, None]
        sink = np.where(inside, _wide(extras.sinks)[:, None], sink[..., 0])[..., None]
    all_logits = np.concatenate([logits, sink], axis=-1)
    top = all_logits.max(axis=-1, keepdims=True)
    finite_top = np.where(np.isfinite(top), top, 0)
    weights = np.exp(all_logits - finite_top)
    total = weights.sum(axis=-1, keepdims=True)
    p = weights / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + finite_top)[..., 0]
    factors = np.ones(()) if extras.factors is None else extras.factors
    out = np.einsum("bnts,bsne->btne", p[..., :-1] * factors, v)
    return _Forward(products, slope, p[..., :-1], p[..., -1], factors, out, lse)


def attention(query, key, value, scale, seen, d_out, d_lse, extras=NO_EXTRAS):
    """All results of query [B,T,N,D], key [B,S,K,D], value [B,S,K,E], d_lse [B,T,N]."""
    q, k, v, d_out, d_lse = map(_wide, (query, key, value, d_out, d_lse))
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    forward = _forward(q, k, v, scale, seen, extras)
    gradients = _backward(forward, q, k, v, d_out, d_lse, scale, group, extras, -1)
    return Results(forward.out, forward.lse.transpose(0, 2, 1), *gradients)


def gradient_terms(query, key, value, scale, seen, d_out, d_lse, extras=NO_EXTRAS):
    """The gradients' sums taken over absolute terms, which bound their rounding.

    Returns ``Results`` of the largest element of each gradient.
    """
    q, k, v, d_out, d_lse = map(_wide, (query, key, value, d_out, d_lse))
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    forward = _forward(q, k, v, scale, seen, extras)
    forward = forward._replace(
        products=np.abs(forward.products), out=np.abs(forward.out)
    )
    magnitudes = map(np.abs, (q, k, v, d_out, d_lse, np.asarray(scale)))
    gradients = _backward(forward, *magnitudes, group, extras, 1)
    return Results(
        *(0.0, 0.0), *(None if g is None else np.max(g, initial=0) for g in gradients)
    )


def _backward(forward, q, k, v, d_out, d_lse, scale, group, extras, sign):
    """Cotangents; ``sign`` is that of the terms which are subtracted."""
    d_p = np.einsum("btne,bsne->bnts", d_out, v) * forward.factors
    rows = np.einsum("btne,btne->bnt", d_out, forward.out)
    rows = d_lse.transpose(0, 2, 1) + sign * rows
    d_logits = forward.p * (d_p + rows[..., None])
    d_scaled = d_logits * forward.slope
    dropped = forward.p * forward.factors
    bias = None if extras.bias is None else np.shape(extras.bias)
    distance = extras.distance
    if distance is None:
        distance = np.zeros((len(d_logits), *d_logits.shape[2:]))
    return (
        scale * np.einsum("bnts,bsnd->btnd", d_scaled, k),
        _sum_groups(scale * np.einsum("bnts,btnd->bsnd", d_scaled, q), group),
        _sum_groups(np.einsum("bnts,btne->bsne", dropped, d_out), group),
        np.sum(d_scaled * forward.products),
        None if bias is None else _sum_to(d_logits, bias),
        np.einsum("bnt,bnt->n", forward.p_sink, rows),
        sign * np.einsum("bnts,bts->n", d_logits, distance),
    )


def _wide(x):
    return np.asarray(x, np.float64)


def _sum_to(x, shape):
    """The sum of x over the axes along which ``shape`` broadcasts to its shape."""
    full = (1,) * (x.ndim - len(shape)) + tuple(shape)
    axes = tuple(i for i, size in enumerate(full) if size == 1)
    return x.sum(axis=axes, keepdims=True).reshape(shape)


def _sum_groups(x, group):
    batch, keys, heads, dim = x.shape
    return x.reshape(batch, keys, heads // group, group, dim).sum(axis=3)
