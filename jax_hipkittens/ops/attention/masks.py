"""Which keys a query sees by its position: causality and sliding windows.

Axis letters: T queries, S keys.
"""

from typing import NamedTuple

NONE, TOP_LEFT, BOTTOM_RIGHT = range(3)


class Masks(NamedTuple):
    """The static part of the masks.

    Query t sees key s if ``s <= t'`` (when causal) and ``t' - left <= s <= t' + right``
    (when there is a window), where t' = t, or t + S - T when causal is BOTTOM_RIGHT,
    with lengths in place of S and T where they are given.

    Attributes:
      causal: NONE, TOP_LEFT or BOTTOM_RIGHT.
      window: (left, right) in keys, or None.
    """

    causal: int
    window: tuple[int, int] | None

    def hides_every_key(self, queries: int, keys: int) -> bool:
        """Whether some row sees no key, for full lengths T and S >= 1."""
        if self.causal == BOTTOM_RIGHT:
            return queries > keys
        return self.window is not None and queries - self.window[0] > keys
