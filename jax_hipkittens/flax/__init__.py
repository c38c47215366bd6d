"""HK ops as drop-in parts of Flax models.

:mod:`jax_hipkittens.flax.linen` and :mod:`jax_hipkittens.flax.nnx` each have an
``attention_fn``, a ``dot_general`` and the modules ``LayerNorm`` and ``RMSNorm``.
Flax is optional: only importing one of the two needs it.
"""
