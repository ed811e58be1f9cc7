"""How the parts of ``stream.py`` are timed and judged: ways take turns, and a ratio is that of one turn."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

MISSING = "not installed: "


@dataclass(frozen=True, slots=True)
class Way:
    """One way to do the work that all ways of a table do."""

    name: str
    run: Callable[[], object]
    """Does all of it, or the share that `scale` tells."""
    scale: float = 1.0
    """What CPU and wall seconds are multiplied with, where a whole epoch would take minutes or hours."""


@dataclass(slots=True)
class Seconds:
    """What a way took, one value a repetition."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table of verdicts."""

    name: str
    asked: str
    seen: str
    held: bool | None
    """Whether it is as asked; None where nothing is asked."""


def process_cpu_seconds():
    """CPU seconds of this process with all its threads, and of the processes that it has started and that still run."""
    children = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        children += times.user + times.system
    return time.process_time() + children


def machine_cpu_seconds():
    """CPU seconds of all processes of the machine."""
    times = psutil.cpu_times()
    return times.user + times.system


def measure(ways, n_repetitions):
    """Let the ways take turns, so that a busy machine disturbs all of them; the first turn only warms up.

    Prints how busy others kept the machine meanwhile: with much of that, wall seconds tell little.
    """
    seconds = {way.name: Seconds() for way in ways}
    began, others = time.perf_counter(), machine_cpu_seconds() - process_cpu_seconds()
    for repetition in range(n_repetitions + 1):
        for way in ways:
            cpu, wall = process_cpu_seconds(), time.perf_counter()
            way.run()
            if repetition:
                wall, cpu = time.perf_counter() - wall, process_cpu_seconds() - cpu
                seconds[way.name].cpu.append(cpu * way.scale)
                seconds[way.name].wall.append(wall * way.scale)
    others = machine_cpu_seconds() - process_cpu_seconds() - others
    busy = max(0.0, others / (time.perf_counter() - began))
    print(f"(other processes took {busy:.2f} of {psutil.cpu_count()} cores meanwhile)\n")
    return seconds


def print_seconds(seconds, n_rows):
    width = max(map(len, seconds))
    print(f"{'':{width}}{'CPU s':>9}{'least':>9}{'wall s':>9}{'least':>9}{'M rows/s':>10}")
    for name, found in seconds.items():
        cpu, wall = statistics.median(found.cpu), statistics.median(found.wall)
        values = "".join(f"{value:9.3f}" for value in (cpu, min(found.cpu), wall, min(found.wall)))
        print(f"{name:{width}}{values}{n_rows / wall / 1e6:10.2f}", flush=True)


def print_skipped(skipped):
    for name, how in skipped.items():
        print(f"skipped: {name}, {MISSING}pip install {how}")


def pairs(ours, theirs):
    """Median of the ratios of the values that were measured in the same turn."""
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))


def at_most(name, seen, limit):
    asked = "" if limit is None else f"<= {limit:.3g}"
    return Row(name, asked, f"{seen:.3f}", None if limit is None else seen <= limit)


def at_least(name, seen, limit, unit):
    return Row(name, f">= {limit:.3g} {unit}", f"{seen:.2f} {unit}", seen >= limit)


def print_verdicts(rows, *, judged):
    """Print what is asked and seen; where sizes are too small to tell, without a verdict."""
    if not rows:
        return
    width = max(len(row.name) for row in rows)
    print(f"\n{'':{width}}{'asked':>18}{'seen':>18}")
    for row in rows:
        verdict = {True: "held", False: "MISSED", None: ""}[row.held if judged else None]
        print(f"{row.name:{width}}{row.asked:>18}{row.seen:>18}  {verdict}".rstrip(), flush=True)
