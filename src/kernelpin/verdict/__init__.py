"""Process figures × baseline, or base × head → SLOWER, SAME, FASTER, or that one cannot tell. Pure.

A figure is what one fresh process measured (`Samples.figure`), in any unit. One process
screens (`is_suspect`); its figure chooses the suspects and is no evidence against them, so that
`judge` is given the fresh ones alone: 4, then 2 more while undecided (`needs_more`), 12 at most.
Simulated on an H200's noise (docs/detection.md): no false SLOWER in 20,000 sessions of 60 tests;
+5 % on the same card caught in 99.9 %, at twice that noise in 96 %, with 12 baseline processes. If
the screening figure counted, disturbed processes would leave ten times as many tests UNCLEAR.
"""

from kernelpin.verdict.agreement import disagreement
from kernelpin.verdict.evidence import LOOKS, MIN_CONFIRM
from kernelpin.verdict.judging import (
    MIN_DIFFERENCE_OTHER_CARD_US,
    MIN_DIFFERENCE_PAIRED_US,
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
    "MIN_DIFFERENCE_OTHER_CARD_US",
    "MIN_DIFFERENCE_PAIRED_US",
    "MIN_DIFFERENCE_US",
    "MIN_SCREEN_BASELINE",
    "PAIRED",
    "STORED",
    "STORED_SAME_CARD",
    "UNCLEAR_SHARE",
    "Outcome",
    "Rule",
    "Verdict",
    "disagreement",
    "fails",
    "is_suspect",
    "judge",
    "judge_counts",
    "judge_pairs",
    "judge_reference",
    "needs_more",
    "too_many_unclear",
]
