"""Which chip HK kernels run on here: the host, an AMD GPU, or a simulated one."""

import functools
import os
from typing import Any, NamedTuple

import jax
from jax.extend.backend import get_backend

from jax_hipkittens import _checks

GPUS = ("gfx950", "gfx942")
"""The chips that there may be kernels for."""

VARIABLE = "JAX_HIPKITTENS_SIMULATE"

HOST = "host"


class Target(NamedTuple):
    """A chip; ``simulated`` if its machine code runs on the CPU.

    ``name`` is "host", or what the GPU calls itself: "gfx950".
    """

    name: str
    simulated: bool = False

    @property
    def is_host(self) -> bool:
        return self.name == HOST

    def __str__(self) -> str:
        return f"{self.name} (simulated)" if self.simulated else self.name


@functools.cache
def simulated() -> str | None:
    """The chip that ``JAX_HIPKITTENS_SIMULATE`` names, for programs on JAX's CPU.

    Read once, as handlers are registered once.

    Raises:
      ValueError: it names no chip that can be simulated.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    if name not in GPUS:
        raise ValueError(
            f"jax_hipkittens: expected {VARIABLE} to be one of {', '.join(GPUS)}, but "
            f"received {name!r}; unset it to run on the host."
        )
    return name


def current() -> Target:
    """Where a call that is traced now will run, as JAX's default backend says.

    Raises:
      NotImplementedError: that backend is neither a CPU nor an AMD GPU.
      ValueError: as :func:`simulated`.
    """
    platform = jax.default_backend()
    if platform == "cpu":
        name = simulated()
        return Target(HOST) if name is None else Target(name, simulated=True)
    if not is_rocm(platform):
        raise NotImplementedError(
            "HK kernels are built for CPUs and AMD GPUs, and JAX's default backend "
            f"here is {platform}; set JAX_PLATFORMS=cpu to run on the host"
        )
    return Target(_architecture())


def is_rocm(platform: str) -> bool:
    """Whether a backend of that name is ROCm's; both kinds of GPU are called "gpu"."""
    if platform in ("gpu", "rocm"):
        return "rocm" in get_backend(platform).platform_version.lower()
    return False


@functools.cache
def _architecture() -> str:
    device: Any = jax.devices()[0]
    return str(getattr(device, "compute_capability", "")).split(":")[0] or "rocm"


def require(family: str, built: list[str], target: Target) -> None:
    """Raises NotImplementedError unless ``family`` has kernels for ``target``.

    Args:
      family: of kernels, such as "gemm".
      built: the GPUs that this build has kernels of the family for.
      target: a chip; a GPU that JAX cannot name is checked when a kernel is launched.
    """
    if target.is_host or target.name == "rocm" or target.name in built:
        return
    have = ", ".join(["the host", *built])
    raise _checks.limit(f"{family} on {have}", str(target))
