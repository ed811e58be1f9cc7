"""What a search did."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SearchReport"]


@dataclass(frozen=True, slots=True)
class SearchReport:
    """How the pairs of rows were dealt with. Equal rows are one row here.

    Each pair is left out by proof or measured, so the neighbours need no trust in these numbers: they tell
    how dear the proofs were. They may differ between runs, since threads race for the sharpest limits.

    Examples
    --------
    >>> report = SearchReport(n_rows=10, n_skipped=50, n_float32=50, n_measured=5) + SearchReport(n_rows=1)
    >>> report.n_rows, report.measured_share, report.float64_share
    (11, 0.05, 0.0)
    """

    n_rows: int = 0
    """Rows whose neighbours were sought."""
    n_skipped: int = 0
    """Pairs left out because their tiles lie too far apart."""
    n_float32: int = 0
    """Pairs screened by float32 bounds."""
    n_float64: int = 0
    """Pairs of tiles that float32 could not tell apart, screened again by float64 bounds."""
    n_measured: int = 0
    """Distances measured by direct float64 differences."""

    @property
    def float64_share(self) -> float:
        """Share of the screened pairs that float64 bounds had to screen again."""
        return self.n_float64 / max(1, self.n_float32)

    @property
    def measured_share(self) -> float:
        """Measured distances as a share of all pairs; a pair may be measured more than once."""
        return self.n_measured / max(1, self.n_float32 + self.n_skipped)

    def __add__(self, other: SearchReport) -> SearchReport:
        """Join the reports of two searches, or of two parts of one."""
        return SearchReport(
            self.n_rows + other.n_rows,
            self.n_skipped + other.n_skipped,
            self.n_float32 + other.n_float32,
            self.n_float64 + other.n_float64,
            self.n_measured + other.n_measured,
        )
