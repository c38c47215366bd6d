"""The ops, one folder each with the same file names.

- ``api``: the public function: documentation, checks, dispatch.
- ``reference``: the op in plain ``jax.numpy``, the implementation "xla".
- ``kernel``: what HK kernels can serve, and the calls to them.
- ``vjp``: the gradient rule around ``kernel``, the implementation "hk".
- ``shapes``: production shapes by name, for tests and benchmarks.
"""
