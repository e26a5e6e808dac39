"""Interleaved timing: the variants take turns, so that a noisy machine is noisy for all of them alike.

A turn is a few calls in a row, the first of which is not counted: a variant finds its own weights in the cache, as in
training, and not its neighbours'.
"""

import statistics
import time
from collections.abc import Callable


def interleaved(variants: dict[str, Callable[[], object]], rounds: int, turn: int = 6) -> dict[str, list[float]]:
    """Sorted times in milliseconds, by variant."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            for call in range(turn):
                begin = time.perf_counter()
                run()
                if call:
                    times[name].append((time.perf_counter() - begin) * 1e3)
    return {name: sorted(found) for name, found in times.items()}


def spread(times: list[float]) -> str:
    """Median, and the tenth and ninetieth percentile."""
    low, high = times[len(times) // 10], times[(9 * len(times)) // 10]
    return f"{statistics.median(times):.2f} ({low:.2f}-{high:.2f})"
