"""``streamfit`` and ``python -m streamfit``."""

from __future__ import annotations

import logging
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["main"]


def _stop(signal_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signal_number)


def main() -> None:
    """Run the command line."""
    from streamfit.cli.allocator import return_freed_memory
    from streamfit.cli.app import app  # a worker that is spawned imports this file, and needs none of it

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    # Only streamfit's own words: a local cluster tells at the same level how it starts and ends.
    logger = logging.getLogger("streamfit")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    # A scheduler of containers asks with SIGTERM: leave through `finally`, so that scratch is removed.
    signal.signal(signal.SIGTERM, _stop)
    return_freed_memory()
    app()


if __name__ == "__main__":
    main()
