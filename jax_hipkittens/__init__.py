"""HipKittens kernels for JAX: fast ops that are plain JAX functions.

Every op takes ``implementation``: "hk" for our kernels, "xla" for plain JAX, or None
(the default) for HK where it can serve the call and XLA otherwise, saying so once per
reason on the logger "jax_hipkittens".
"""

from jax_hipkittens.ops.attention import attention as attention
from jax_hipkittens.ops.gemm import dot_general as dot_general
from jax_hipkittens.ops.gemm import matmul as matmul
from jax_hipkittens.ops.norm import layer_norm as layer_norm
from jax_hipkittens.ops.norm import rms_norm as rms_norm
from jax_hipkittens.ops.rotary import rotary as rotary
from jax_hipkittens.ops.rotary import rotary_tables as rotary_tables

__version__ = "0.1.0"
