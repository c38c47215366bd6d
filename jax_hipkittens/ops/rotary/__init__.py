"""Rotary position embedding."""

from jax_hipkittens.ops.rotary.api import rotary as rotary
from jax_hipkittens.ops.rotary.tables import rotary_tables as rotary_tables
