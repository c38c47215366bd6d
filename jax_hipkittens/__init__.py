"""HipKittens kernels for JAX: fast ops that are plain JAX functions.

Every op takes ``implementation``: "hk" for our kernels, "xla" for plain JAX, or None
(the default) for HK where it can serve the call and XLA otherwise, saying so once per
reason on the logger "jax_hipkittens".
"""

from jax_hipkittens._export import EXPORT_CHECKS as EXPORT_CHECKS
from jax_hipkittens._export import register as register
from jax_hipkittens._remat import save_attention as save_attention
from jax_hipkittens.ops.attention import attention as attention
from jax_hipkittens.ops.attention import attention_decode as attention_decode
from jax_hipkittens.ops.attention import attention_varlen as attention_varlen
from jax_hipkittens.ops.attention import ring_attention as ring_attention
from jax_hipkittens.ops.attention import (
    ring_attention_sharded as ring_attention_sharded,
)
from jax_hipkittens.ops.attention import zigzag_order as zigzag_order
from jax_hipkittens.ops.gemm import dot_general as dot_general
from jax_hipkittens.ops.gemm import matmul as matmul
from jax_hipkittens.ops.norm import layer_norm as layer_norm
from jax_hipkittens.ops.norm import rms_norm as rms_norm
from jax_hipkittens.ops.rotary import rotary as rotary
from jax_hipkittens.ops.rotary import rotary_tables as rotary_tables

__version__ = "0.1.0"
