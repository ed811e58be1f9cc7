"""Stores on disk: Zarr arrays in whole-row chunks, and one manifest that says what counts."""
