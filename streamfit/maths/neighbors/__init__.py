"""Exact nearest neighbours by tiles: screen pairs with a matrix product, measure what may win in float64.

The answer for a query is the `k` candidates that come first by ``(squared distance, row number)``, where
the squared distance is the float64 sum of squared differences of the original values (`kernels`). It does
not depend on how the pairs are visited, so neither blocks, threads nor memory can change a bit of it.

A pair is left out only where a proof says that it cannot win: the tile's region lies too far away
(`regions`), or a lower bound of its distance, which costs one matrix product a tile, is too large
(`bounds`). Every other pair is measured. Rows that are equal are searched once (`duplicates`), rows that
lie near each other share a tile (`order`), `tiles` prepares rows and `join` visits the pairs of tiles.
"""
