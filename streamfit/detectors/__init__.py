"""PyOD detectors on more rows than memory holds: one file an algorithm, found through the registry."""
