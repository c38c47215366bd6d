"""Prints how long bfloat16 products take on the simulated device, all checks on.

python -m tests.hipsim.speed [size ...]
"""

import json
import os
import sys

os.environ.setdefault("JAX_HIPKITTENS_SIMULATE", "gfx950")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import jax_hipkittens as hk  # noqa: E402
from tests.jax_hipkittens.simulated import simulator  # noqa: E402


def seconds_of(size: int) -> tuple[float, str]:
    """Of one launch, as the simulated device counts them, and its kernel."""
    keys = jax.random.split(jax.random.key(0))
    a, b = (jax.random.normal(key, (size, size), jnp.bfloat16) for key in keys)
    hk.matmul(a, b, implementation="hk").block_until_ready()
    found = json.loads(simulator().hipsim_statistics())
    return found["simulated_in_seconds"], found["kernel"]


for size in map(int, sys.argv[1:] or ("512", "2048")):
    seconds, kernel = seconds_of(size)
    print(f"{size}^3: {seconds:.2f} s ({kernel})")
