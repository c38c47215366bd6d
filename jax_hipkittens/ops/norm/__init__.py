"""Layer norm and RMS norm with fused dropout and residual."""

from jax_hipkittens.ops.norm.api import layer_norm as layer_norm
from jax_hipkittens.ops.norm.api import rms_norm as rms_norm
