"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# Machines that run tests are shared: how long an example takes says nothing about the code.
settings.register_profile("streamfit", deadline=None)
settings.load_profile("streamfit")
