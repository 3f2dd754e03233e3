"""Base against head: base's code in a worktree of its own, and interleaved pairs on one card.

with checkout(rootdir, ref, environ=os.environ) as base:      # Checkout, or Unavailable: why
    launch, environ = in_base(launch, base), base_environment(base, os.environ)
    why = foreign_code(base, launch, environ)                 # before, and describe(base) for after
    pairs = measure_pairs(nodeids, measure, judge, left)
"""

from kernelpin.base.code import base_environment, foreign_code, in_base
from kernelpin.base.git import GitError
from kernelpin.base.loaded import describe
from kernelpin.base.pairs import MAX_CLOCK_DIFFERENCE, NEW, Pairs, Side, measure_pairs, new_in_head
from kernelpin.base.worktree import Checkout, Unavailable, checkout

__all__ = [
    "MAX_CLOCK_DIFFERENCE",
    "NEW",
    "Checkout",
    "GitError",
    "Pairs",
    "Side",
    "Unavailable",
    "base_environment",
    "checkout",
    "describe",
    "foreign_code",
    "in_base",
    "measure_pairs",
    "new_in_head",
]
