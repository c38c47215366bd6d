"""Matrix products with an optional fused epilogue."""

from .api import dot_general as dot_general
from .api import matmul as matmul
