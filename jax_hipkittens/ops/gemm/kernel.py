"""Matrix products by HK kernels: what they can serve, and the call to them.

Axis letters: B batch, M rows of a, N columns of b, K contracted; ``m...``, ``n...`` and
``k...`` are any number of axes that make up M, N and K.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_hipkittens import _checks, _ffi, _partition, _stack
from jax_hipkittens.ops.gemm import parts, reference

DTYPES = ("bfloat16", "float16", "float32")
# As hk/kernels/gemm/device_plan.h has them: offsets inside of a tile take 31 bits.
_GPU_SIZE = 2**31 - 257
_GPU_ROW = (2**31 - 1024) // 128 - 1
_GPU_TILE = 64  # rows and columns of the smallest
_ACTIVATIONS = {None: 0, "gelu": 1, "silu": 2, "gelu_exact": 3}
_M, _N, _K = "abcdefgh", "ijklmnop", "qrstuvwxy"  # K: and that of parts


def require(
    a: jax.Array,
    b: jax.Array,
    dtype: np.dtype[Any],
    precision: Any,
    bias: jax.Array | None = None,
) -> None:
    """Raises NotImplementedError, naming the limit, unless HK can serve the call."""
    _ffi.require_family("gemm")
    served = ", ".join(DTYPES)
    if a.dtype != b.dtype or a.dtype.name not in DTYPES:
        raise _checks.limit(
            f"two operands of one dtype of {served}", f"{a.dtype} and {b.dtype}"
        )
    if dtype.name not in DTYPES:
        raise _checks.limit(f"results of dtype {served}", dtype.name)
    if bias is not None and bias.dtype.name not in DTYPES:
        raise _checks.limit(f"a bias of dtype {served}", bias.dtype.name)
    most = len(_M)
    if max(a.ndim, b.ndim) > most:
        raise _checks.limit(f"up to {most} axes", f"{max(a.ndim, b.ndim)}")
    named = precision if isinstance(precision, tuple) else (precision,)
    if not all(p is None or isinstance(p, jax.lax.Precision) for p in named):
        raise _checks.limit(
            "every jax.lax.Precision, by exact products summed in f32", repr(precision)
        )


def _is_plain(a: Any, b: Any) -> bool:
    """Whether a GPU's matrix units take the operands as they are."""
    return a.dtype == b.dtype and a.dtype != jnp.float32


@dataclasses.dataclass(frozen=True)
class Gemm(_stack.Kernel):
    """c = activation(z), z = op(a) @ op(b) + bias: gives c, and z ``with_z``.

    Operands of different dtypes meet in f32, as in ``jax.lax``.

    Attributes:
      m, n, k: how many axes make up M, N and K.
      trans_a: a lies [...,k...,m...] rather than [...,m...,k...].
      trans_b: b lies [...,n...,k...] rather than [...,k...,n...].
      dtype: of the results [...,m...,n...].
      activation: None, "gelu" (tanh approximation), "gelu_exact" or "silu".
      on_gpu: the call is a GPU's, real or simulated, whose last result is a workspace.
    """

    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    dtype: np.dtype[Any]
    activation: str | None = None
    with_z: bool = False
    on_gpu: bool = False

    name = "gemm"
    sums_over_devices = True

    @property
    def ranks(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.m + self.k, self.k + self.n, self.n)

    def _sizes(
        self, operands: Sequence[Any]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The sizes of m..., n... and k...."""
        a, b = (
            x.shape[x.ndim - rank :]
            for x, rank in zip(operands[:2], self.ranks, strict=False)
        )
        rows = a[self.k :] if self.trans_a else a[: self.m]
        columns = b[: self.n] if self.trans_b else b[self.k :]
        return rows, columns, a[: self.k] if self.trans_a else a[self.m :]

    def types(self, operands: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
        rows, columns, _ = self._sizes(operands)
        return [(rows + columns, self.dtype)] * (2 if self.with_z else 1)

    def letters(
        self, operands: Sequence[Any]
    ) -> tuple[Sequence[str], Sequence[str], str]:
        m, n, k = _M[: self.m], _N[: self.n], _K[: self.k]
        a = k + m if self.trans_a else m + k
        b = n + k if self.trans_b else k + n
        return (a, b, n), [m + n] * (2 if self.with_z else 1), m + n + k

    def gpu_limit(self, operands: Sequence[Any]) -> str | None:
        a, b, _ = operands
        if not all(isinstance(size, int) for x in (a, b) for size in x.shape):
            return "kernels for GPUs take sizes that are known when a program is made"
        m, n, k = (math.prod(sizes) for sizes in self._sizes(operands))
        terms = k * (1 if _is_plain(a, b) else parts.count(a.dtype.name, b.dtype.name))
        rows = m if self.trans_a else terms, terms if self.trans_b else n
        batch = math.prod(self._leading(operands))
        tiles = batch * -(-m // _GPU_TILE) * -(-n // _GPU_TILE)
        most = max(m, n, terms, batch, tiles)
        if most <= _GPU_SIZE and max(rows) <= _GPU_ROW:
            return None
        return (
            f"kernels for GPUs take sizes up to {_GPU_SIZE} and stored rows of up to "
            f"{_GPU_ROW} elements, and not a batch of {batch} with M={m}, N={n}, K={k}"
        )

    def gpu(self, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """Operands of f32, or of different dtypes, become sums of bf16."""
        a, b, bias = restored = self._restored(operands)
        gemm = dataclasses.replace(self, on_gpu=True)
        if _is_plain(a, b) or self.gpu_limit(restored) is not None:
            return super(Gemm, gemm).gpu(operands)
        a, b = parts.pairs(
            (a, a.ndim - self.ranks[0] + (0 if self.trans_a else self.m)),
            (b, b.ndim - self.ranks[1] + (self.n if self.trans_b else 0)),
        )
        gemm = dataclasses.replace(gemm, k=self.k + 1)
        return gemm.gpu([x for x in (a, b, bias) if x is not None])

    def flat(
        self, part: _partition.Part, operands: Sequence[Any]
    ) -> Sequence[jax.Array]:
        a, b, bias = self._matrices(operands)
        rows, columns, _ = self._sizes(operands)
        contracted = _K[: self.k]
        if any(part.count(letter) > 1 for letter in contracted):
            plain = dataclasses.replace(self, activation=None, with_z=False)
            plain = dataclasses.replace(plain, dtype=np.dtype(np.float32))
            (z,) = plain.call(a, b, None)
            z = z.reshape(max(a.shape[0], b.shape[0]), -1, math.prod(columns))
            found: Sequence[jax.Array] = self._epilogue(part.sum(z, contracted), bias)
        else:
            found = self.call(a, b, bias)
        batch = max(x.shape[0] for x in operands if x is not None)
        return [x.reshape(batch, *rows, *columns) for x in found]

    def _matrices(
        self, operands: Sequence[Any]
    ) -> tuple[jax.Array, jax.Array, jax.Array | None]:
        """a [Ba,M,K] or [Ba,K,M], b [Bb,K,N] or [Bb,N,K], bias [Bc,N]."""
        a, b, bias = operands
        m, n, k = (math.prod(sizes) for sizes in self._sizes(operands))
        a = a.reshape(a.shape[0], *((k, m) if self.trans_a else (m, k)))
        b = b.reshape(b.shape[0], *((n, k) if self.trans_b else (k, n)))
        return a, b, None if bias is None else bias.reshape(bias.shape[0], n)

    def call(
        self, a: jax.Array, b: jax.Array, bias: jax.Array | None
    ) -> Sequence[jax.Array]:
        """a [Ba,M,K] or [Ba,K,M], b [Bb,K,N] or [Bb,N,K], bias [Bc,N] -> [B,M,N] each.

        Ba, Bb and Bc are B or 1.
        """
        if a.dtype != b.dtype:
            a, b = a.astype(jnp.float32), b.astype(jnp.float32)
        shared_b = b.shape[0] == 1 and (bias is None or bias.shape[0] == 1)
        fits = not self.on_gpu or a.shape[0] * a.shape[1] <= _GPU_SIZE
        if a.shape[0] > 1 and shared_b and not self.trans_a and fits:
            a = a.reshape(1, a.shape[0] * a.shape[1], a.shape[2])
        m = a.shape[2] if self.trans_a else a.shape[1]
        n = b.shape[1] if self.trans_b else b.shape[2]
        batch = max(x.shape[0] for x in (a, b, bias) if x is not None)
        if bias is not None and bias.shape[0] == 1:
            bias = bias[0]
        result = _ffi.result(a, (batch, m, n), self.dtype)
        results = [result] * (2 if self.with_z else 1)
        workspace = [self._workspace(a, b, batch, m, n)] if self.on_gpu else []
        found = _ffi.call(
            "gemm",
            results + workspace,
            *(a, b, jnp.zeros((0,), jnp.float32) if bias is None else bias),
            trans_a=self.trans_a,
            trans_b=self.trans_b,
            activation=_ACTIVATIONS[self.activation],
        )
        return found[: len(results)]

    def _workspace(self, a: jax.Array, b: jax.Array, batch: int, m: int, n: int) -> Any:
        """The type of a GPU's workspace; never empty, as XLA skips calls with those."""
        size = _ffi.require().gemm_workspace(
            batch=batch,
            m=m,
            n=n,
            k=a.shape[1] if self.trans_a else a.shape[2],
            trans_a=self.trans_a,
            trans_b=self.trans_b,
            broadcast_a=a.shape[0] == 1,
            broadcast_b=b.shape[0] == 1,
        )
        return _ffi.result(a, (max(16, size),), np.dtype(np.uint8))

    def flat_reference(self, operands: Sequence[Any]) -> Sequence[jax.Array]:
        a, b, bias = self._matrices(operands)
        rows, columns, _ = self._sizes(operands)
        batch = max(x.shape[0] for x in operands if x is not None)
        a, b = (jnp.broadcast_to(x, (batch, *x.shape[1:])) for x in (a, b))
        if a.dtype != b.dtype:
            a, b = a.astype(jnp.float32), b.astype(jnp.float32)
        contracted = (1 if self.trans_a else 2,), (2 if self.trans_b else 1,)
        z = jax.lax.dot_general(
            a, b, (contracted, ((0,), (0,))), preferred_element_type=jnp.float32
        )
        found = self._epilogue(z, bias)
        return [x.reshape(batch, *rows, *columns) for x in found]

    def _epilogue(self, z: jax.Array, bias: jax.Array | None) -> list[jax.Array]:
        """What the kernel does to f32 sums z [B,M,N]; bias [Bc,N]."""
        if bias is not None:
            z = z + bias.astype(jnp.float32)[:, None, :]
        c = reference.ACTIVATIONS[self.activation](z)
        return [x.astype(self.dtype) for x in ((c, z) if self.with_z else (c,))]
