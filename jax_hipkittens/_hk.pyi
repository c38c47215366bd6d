"""
The compiled part of jax_hipkittens: XLA FFI handlers for the host's kernels.
"""

def handlers() -> dict[str, object]:
    """Capsules for jax.ffi.register_ffi_target, by target name."""

def ffi_api_version() -> tuple[int, int]:
    """
    (major, minor) of the XLA FFI headers that the handlers are built with.
    """

def host_isas() -> list[str]:
    """Instruction sets that this build and this CPU have, best first."""

def launches() -> dict[str, int]:
    """
    How often this process has launched each target's kernel, by target name.
    """

def host_isa() -> str:
    """
    The instruction set in use; ValueError if the environment names one not here.
    """
