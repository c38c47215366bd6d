"""A small Llama on bytes, in flax.nnx, whose ops are HK kernels."""
