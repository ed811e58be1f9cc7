"""Transformers of scikit-learn fitted exactly to rows that do not fit in memory, by summaries."""
