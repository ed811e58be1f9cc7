"""What a sample of whole chunks can tell of all rows: variances of means under the order of an epoch.

An epoch draws rows in two stages. A window is a simple random sample of `n` of `N` chunks of `c` rows each; a batch
is a simple random sample of `B` rows of the window. With the mean squares of the analysis of variance,

    A = c · Σ (chunk mean − mean)² / (N − 1)        between chunks
    W = Σ (value − its chunk's mean)² / (N (c − 1))  within chunks

and the intraclass correlation ρ = (A − W) / (A + (c − 1) W), all of what follows is a function of ρ, in units of
σ² = (A + (c − 1) W) / c, since then A = σ² (1 + (c − 1) ρ) and W = σ² (1 − ρ):

- The variance of all rows is S² = σ² (1 − (c − 1) ρ / (N c − 1)). The same holds, on average, of the rows of a window,
  with `n` for `N`.
- The mean of a window has the variance (1/n − 1/N) A / c (Cochran, Sampling Techniques, 1977, chapter 9), and the
  mean of a batch given its window (1/B − 1/(n c)) times the variance of the rows of the window. The expectation of the
  latter and the former add up to that of a batch,

      V(n) = (1/n − 1/N) A / c + (1/B − 1/(n c)) · σ² (1 − (c − 1) ρ / (n c − 1)).

- A full shuffle is the case n = N: one window holds everything.

For large `N` and `c` this is 1 + (B − 1) ρ / n times what a full shuffle gives. All of it is exact for chunks of equal
size, and close to it with `c` = their mean where they differ by little. Windows at the end of an epoch may hold fewer
chunks, and batches across the edge of two windows hold rows of more of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ClusteredRows", "chance_of_none"]


@dataclass(frozen=True, slots=True)
class ClusteredRows:
    """Rows in chunks whose values are more alike within a chunk than across, in units of σ² (see the module).

    Examples
    --------
    >>> rows = ClusteredRows(n_chunks=100, chunk_rows=1_000, rho=0.991)
    >>> round(rows.variance_ratio(8, batch_size=500), 1), round(rows.drift)
    (58.7, 1001)
    >>> [round(passes.rho, 3) for passes in (rows, rows.rewritten(8), rows.rewritten(8).rewritten(8))]
    [0.991, 0.121, 0.015]
    >>> rows.variance_ratio(100, batch_size=500)
    1.0
    """

    n_chunks: int
    """Chunks, `N`."""
    chunk_rows: float
    """Rows of a chunk, `c`, on average."""
    rho: float
    """Intraclass correlation, −1/(c − 1) to 1."""

    @property
    def _n_rows(self) -> float:
        return self.n_chunks * self.chunk_rows

    @property
    def _between(self) -> float:
        return 1 + (self.chunk_rows - 1) * self.rho

    def _variance_of_rows(self, n_chunks: float) -> float:
        """Variance of the rows of some chunks, on average."""
        n_rows = n_chunks * self.chunk_rows
        return 1.0 if n_rows <= 1 else 1 - (self.chunk_rows - 1) * self.rho / (n_rows - 1)

    @property
    def drift(self) -> float:
        """Variance of the mean of some windows as a multiple of that of as many rows of a full shuffle.

        It is A / S² for one window and for any number of them, whatever their size: h_D of CorgiPile (arXiv
        2206.05830), relative to a full shuffle instead of draws with replacement. So a larger window does not keep
        an epoch closer to its mean on the way, unless it holds a good part of all chunks.
        """
        variance = self._variance_of_rows(self.n_chunks)
        return self._between / variance if self.n_chunks > 1 and variance > 0 else 1.0

    def batch_variance(self, window_chunks: float, *, batch_size: float) -> float:
        """Variance V(n) of the mean of a batch in units of σ²; `batch_size` at most the rows of the window."""
        window = min(window_chunks, self.n_chunks)
        of_windows = (1 / window - 1 / self.n_chunks) * self._between / self.chunk_rows
        within = 1 / batch_size - 1 / (window * self.chunk_rows)
        return of_windows + within * self._variance_of_rows(window)

    def variance_ratio(self, window_chunks: float, *, batch_size: float) -> float:
        """Give V(n) / V(N): the variance of the mean of a batch as a multiple of that after a full shuffle."""
        if window_chunks >= self.n_chunks:
            return 1.0
        full = self.batch_variance(self.n_chunks, batch_size=batch_size)
        # Exactly 0 of labels that are all alike, or where a batch holds all rows.
        return self.batch_variance(window_chunks, batch_size=batch_size) / full if full > 0 else 1.0

    def rewritten(self, window_chunks: int) -> ClusteredRows:
        """Give what the rows become when they are written again in the order of an epoch, on average.

        A new chunk is a simple random sample of `c` rows of a window, so that its mean has the variance V(n) with
        B = c, and the chunks of a window together are its rows. Large stores: ρ / n (Corgi², arXiv 2309.01640).
        """
        if self.n_chunks == 1 or self.chunk_rows <= 1:
            return self
        window = min(window_chunks, self.n_chunks)
        rest = self.n_chunks % window  # chunks of a last window that is not full
        spread = (self.n_chunks - rest) * self.batch_variance(window, batch_size=self.chunk_rows)
        if rest:
            spread += rest * self.batch_variance(rest, batch_size=self.chunk_rows)
        between = self.chunk_rows * spread / (self.n_chunks - 1)
        total = (self._n_rows - 1) * self._variance_of_rows(self.n_chunks)
        within = (total - (self.n_chunks - 1) * between) / (self.n_chunks * (self.chunk_rows - 1))
        denominator = between + (self.chunk_rows - 1) * within
        rho = (between - within) / denominator if denominator > 0 else 0.0
        return ClusteredRows(self.n_chunks, self.chunk_rows, rho)


def chance_of_none(n_all: int, n_marked: int, n_drawn: int) -> float:
    """Give the probability that a simple random sample holds none of the marked ones.

    Examples
    --------
    >>> chance_of_none(4, 1, 2), chance_of_none(4, 0, 2), chance_of_none(4, 3, 2)
    (0.5, 1.0, 0.0)
    """
    if n_marked == 0 or n_drawn == 0:
        return 1.0
    if n_marked + n_drawn > n_all:
        return 0.0
    if min(n_marked, n_drawn) <= 64:  # products are exact to the last digits, and quick where few
        fewer, others = sorted((n_marked, n_drawn))
        return math.prod((n_all - others - i) / (n_all - i) for i in range(fewer))
    log = math.lgamma
    outside = log(n_all - n_marked + 1) - log(n_all - n_marked - n_drawn + 1)
    return math.exp(outside - log(n_all + 1) + log(n_all - n_drawn + 1))
