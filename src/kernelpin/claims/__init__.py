"""Claims about a trace that read as sentences, and say on failure what was found instead. Pure."""

from __future__ import annotations

from kernelpin.claims.claims import Claims, expect
from kernelpin.claims.finding import ClaimFailed, Finding

__all__ = ["ClaimFailed", "Claims", "Finding", "expect"]
