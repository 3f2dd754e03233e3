"""Process figures × baseline, or base × head → SLOWER, SAME, FASTER, or that one cannot tell. Pure.

A figure is what one fresh process measured: the median of its samples, in any unit. The figures of
the screening process choose the suspects and are no evidence against them: `judge` is given the
fresh ones. How the rule behaves, and why it is this one: docs/detection.md.
"""

from kernelpin.verdict.evidence import LOOKS, MIN_CONFIRM
from kernelpin.verdict.judging import (
    MIN_DIFFERENCE_US,
    MIN_SCREEN_BASELINE,
    is_suspect,
    judge,
    judge_counts,
    judge_pairs,
    judge_reference,
)
from kernelpin.verdict.outcome import (
    PAIRED,
    STORED,
    STORED_SAME_CARD,
    UNCLEAR_SHARE,
    Outcome,
    Rule,
    Verdict,
    fails,
    needs_more,
    too_many_unclear,
)

__all__ = [
    "LOOKS",
    "MIN_CONFIRM",
    "MIN_DIFFERENCE_US",
    "MIN_SCREEN_BASELINE",
    "PAIRED",
    "STORED",
    "STORED_SAME_CARD",
    "UNCLEAR_SHARE",
    "Outcome",
    "Rule",
    "Verdict",
    "fails",
    "is_suspect",
    "judge",
    "judge_counts",
    "judge_pairs",
    "judge_reference",
    "needs_more",
    "too_many_unclear",
]
