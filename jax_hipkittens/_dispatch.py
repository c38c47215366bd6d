"""Chooses the implementation of an op: the only dispatcher.

Every public op ends in :func:`run` with a table of its implementations, "hk" (our
kernels) and "xla" (plain ``jax.numpy``). An implementation says that it cannot serve
a call by raising ``NotImplementedError`` while it is traced, before anything runs.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from jax_hipkittens import _checks

Name: TypeAlias = Literal["hk", "xla"]
Implementation: TypeAlias = Name | Sequence[Name] | None

_Result = TypeVar("_Result")

DEFAULT: tuple[Name, ...] = ("hk", "xla")

logger = logging.getLogger("jax_hipkittens")
_said: set[str] = set()


def order(op: str, implementation: Implementation) -> tuple[str, ...]:
    """The implementations to try, first to last; None means HK, then XLA."""
    if implementation is None:
        return DEFAULT
    names: tuple[str, ...]
    if isinstance(implementation, str) or not isinstance(implementation, Sequence):
        names = (implementation,)
    else:
        names = tuple(implementation)
    if not names:
        raise _checks.mistake(
            op,
            "at least one implementation",
            "none of them",
            "pass None for the default",
        )
    for name in names:
        _checks.choice(op, "implementation", name, DEFAULT)
    return names


def run(
    op: str,
    implementation: Implementation,
    implementations: Mapping[str, Callable[..., _Result]],
    *args: Any,
    **kwargs: Any,
) -> _Result:
    """Calls the first implementation that can serve ``args`` and ``kwargs``.

    Args:
      op: public name of the op, which starts every message.
      implementation: what the user gave: None, a name, or names in order.
      implementations: every implementation of the op, by name. "hk" is also given
        ``strict``: whether XLA may not replace it where its program ends up.

    Returns:
      What that implementation returns. If an earlier one declined, a warning on the
      logger "jax_hipkittens" says why, once per reason.

    Raises:
      ValueError: a name that is not an implementation.
      NotImplementedError: all of them declined; the message has every reason.
    """
    declined: dict[str, str] = {}
    names = order(op, implementation)
    for name in names:
        own = {"strict": "xla" not in names} if name == "hk" else {}
        try:
            result = implementations[name](*args, **kwargs, **own)
        except NotImplementedError as error:
            declined[name] = str(error).rstrip(".")
            continue
        for reason in declined.values():
            warn_once(f"{op} falls back to {name.upper()}: {reason}")
        return result
    advice = "" if "xla" in declined else "; implementation=None falls back to XLA"
    raise NotImplementedError(f"{op}: {_reasons(declined)}{advice}.")


def _reasons(declined: Mapping[str, str]) -> str:
    if len(declined) == 1:
        return next(iter(declined.values()))
    return "; ".join(f"{name}: {reason}" for name, reason in declined.items())


def warn_once(message: str) -> None:
    """Logs a warning on the logger "jax_hipkittens", once in a process."""
    if message not in _said:
        _said.add(message)
        logger.warning("%s", message)
