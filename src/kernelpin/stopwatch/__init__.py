"""A callable's device time, kernel times, counts, and ratio of host times.

This measures and judges nothing, and it knows no pytest. A process is the replicate: what one
process measures of one callable is a `Samples`, and `Samples.figure` is what it comes to.
"""

from __future__ import annotations

from kernelpin.stopwatch.compiler import fresh_compiler
from kernelpin.stopwatch.samples import KernelFigure, MeasureError, Samples
from kernelpin.stopwatch.watch import Stopwatch

__all__ = ["KernelFigure", "MeasureError", "Samples", "Stopwatch", "fresh_compiler"]
