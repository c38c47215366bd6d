"""The policy of ``jax.checkpoint`` that keeps what attention's kernels computed."""

import jax

from jax_hipkittens.ops.attention.vjp import RESIDUAL_NAME

save_attention = jax.checkpoint_policies.save_only_these_names(RESIDUAL_NAME)
"""Keeps the output and LSE of every attention inside the checkpoint, whose backward
then does not run its forward kernel again; all else is recomputed."""
