"""Bounded, mergeable states over all rows."""
