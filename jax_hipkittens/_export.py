"""What programs with HK kernels need to be exported, and to run again.

``jax.export`` refuses custom calls that nobody vouches for. Those here take what they
took before as long as a program and the package that runs it have the same version.
"""

from jax import export

from jax_hipkittens import _ffi

# Known without the extension, so that a machine without it can export for others.
TARGETS = (
    "attention_forward",
    "attention_backward",
    "gemm",
    "norm_forward",
    "norm_backward",
    "rotary",
)

# What custom_partitioning leaves in programs made where there are several devices.
_SHARDING = "CustomSPMDPartitioning"


EXPORT_CHECKS = [
    export.DisabledSafetyCheck.custom_call(name)
    for name in (*map(_ffi.full_name, TARGETS), _SHARDING)
]
"""For ``jax.export.export(..., disabled_checks=EXPORT_CHECKS)``: one check for every
custom call that an op may lower to."""


def register() -> None:
    """Makes HK kernels known to XLA, as the first use of an op does.

    For a process that runs exported programs and calls no op before.

    Raises:
      NotImplementedError: they cannot be called in this process; says why.
    """
    _ffi.require()
