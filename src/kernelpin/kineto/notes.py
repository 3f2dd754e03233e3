"""What was wrong with a file: told once a kind, with the place of the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


class Notes:
    """The lines for `Trace.warnings`, and how many records they mean are missing."""

    def __init__(self, repairs: Sequence[str] = ()) -> None:
        self.unread = 0
        self._repairs = [f"repaired: {', '.join(repairs)}"] if repairs else []
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, what: str, first: str, *, count: int = 1, unread: bool = False) -> None:
        """`count` more of a kind; `unread`: they are left out of the trace."""
        self._counts[what] += count
        self._first.setdefault(what, f"{first:.100}")
        if unread:
            self.unread += count

    def lines(self) -> list[str]:
        """One a kind."""
        return self._repairs + [
            f"{count} {what}, the first: {self._first[what]}"
            for what, count in self._counts.items()
        ]
