"""HipKittens kernels for JAX: fast ops that are plain JAX functions."""
