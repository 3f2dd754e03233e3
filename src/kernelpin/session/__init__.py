"""What a session measures, and what becomes of it: rounds, evidence, judgements."""

from __future__ import annotations

from kernelpin.session.case import Case, Settings, from_marker, misplaced
from kernelpin.session.compared import Base, Bases
from kernelpin.session.continued import ago
from kernelpin.session.evidence import Evidence
from kernelpin.session.judgement import Judgement, judgement_of, skipped_without_gpu
from kernelpin.session.message import shown
from kernelpin.session.rounds import Judged, Session, commit_of, differences_of

__all__ = [
    "Base",
    "Bases",
    "Case",
    "Evidence",
    "Judged",
    "Judgement",
    "Session",
    "Settings",
    "ago",
    "commit_of",
    "differences_of",
    "from_marker",
    "judgement_of",
    "misplaced",
    "shown",
    "skipped_without_gpu",
]
