"""Attention: ``api`` checks, ``vjp`` and ``kernel`` run on HK, ``reference`` on XLA."""

from jax_hipkittens.ops.attention.api import attention as attention
from jax_hipkittens.ops.attention.packed import attention_decode as attention_decode
from jax_hipkittens.ops.attention.packed import attention_varlen as attention_varlen
from jax_hipkittens.ops.attention.ring import ring_attention as ring_attention
from jax_hipkittens.ops.attention.ring import (
    ring_attention_sharded as ring_attention_sharded,
)
from jax_hipkittens.ops.attention.ring import zigzag_order as zigzag_order
