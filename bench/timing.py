"""Interleaved timing: every variant once a round, so that a noisy machine is noisy for all of them alike."""

import statistics
import time
from collections.abc import Callable


def interleaved(variants: dict[str, Callable[[], object]], rounds: int, warm: int = 3) -> dict[str, list[float]]:
    """Sorted times in milliseconds, by variant."""
    for run in variants.values():
        for _ in range(warm):
            run()
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            begin = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - begin) * 1e3)
    return {name: sorted(found) for name, found in times.items()}


def spread(times: list[float]) -> str:
    """Median, and the tenth and ninetieth percentile."""
    low, high = times[len(times) // 10], times[(9 * len(times)) // 10]
    return f"{statistics.median(times):.2f} ({low:.2f}-{high:.2f})"
