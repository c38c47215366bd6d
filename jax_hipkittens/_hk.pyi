"""
The compiled part of jax_hipkittens: XLA FFI handlers, and what they were built for.
"""

def handlers() -> dict[str, object]:
    """Capsules for jax.ffi.register_ffi_target, by target name."""

def hip_handlers() -> dict[str, dict[str, object]]:
    """Bundles for the platform ROCM, by target name."""

def simulated_handlers(architecture: str) -> dict[str, object]:
    """Capsules that run an architecture's kernels on the simulated device."""

def architectures(family: str) -> list[str]:
    """GPU architectures that this build has kernels of a family for."""

def gemm_workspace(
    batch: int,
    m: int,
    n: int,
    k: int,
    trans_a: bool,
    trans_b: bool,
    broadcast_a: bool,
    broadcast_b: bool,
) -> int:
    """Bytes of the workspace that a product on a GPU has as its last result."""

def hip_problem() -> str:
    """Why the HIP library cannot be used; empty if it can."""

def package_folder() -> str:
    """Where the extension module and the package's data lie."""

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
