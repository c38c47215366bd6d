"""Ops on several devices; the cases are in sharding.py."""

from tests.jax_hipkittens import bits, sharding


def test_sharded_equals_unsharded():
    """In one process of eight devices, which shares the expected results."""
    printed = bits.main_in_process(
        sharding.__name__, XLA_FLAGS="--xla_force_host_platform_device_count=8"
    )
    assert printed == f"ran {len(sharding.CASES)} cases"
