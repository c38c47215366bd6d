"""Scaled dot-product attention with grouped queries."""

from .api import attention as attention
