"""How long an Atari emulator takes to be made and to be reset from a seed, and for how long Python stands still.

python bench/starts.py [--game pong] [--lanes 10]
"""

import argparse
import threading
import time
from collections.abc import Callable

import numpy as np
from ale_py.vector_env import AtariVectorEnv

from sacd.machine import processor

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="pong", help="as ALE names its ROM")
parser.add_argument("--lanes", type=int, default=10)
options = parser.parse_args()


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a call, and the longest in which another thread of Python could do nothing."""
    over, gaps = threading.Event(), [0.0]

    def watch() -> None:
        last = time.perf_counter()
        while not over.is_set():
            now = time.perf_counter()
            gaps[0], last = max(gaps[0], now - last), now

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    call()
    seconds = time.perf_counter() - begin
    over.set()
    watcher.join()
    return seconds, gaps[0]


def main() -> None:
    """Measure and print."""
    made: list[AtariVectorEnv] = []
    one = np.arange(options.lanes) == 0
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "made": (lambda: made.append(AtariVectorEnv(options.game, options.lanes, stack_num=1)), options.lanes),
        "first reset": (lambda: made[0].reset(seed=np.arange(options.lanes)), options.lanes),
        "reset from a seed": (lambda: made[0].reset(seed=np.array([5]), options={"reset_mask": one}), 1),
        "reset without one": (lambda: made[0].reset(options={"reset_mask": one}), 1),
    }
    print(f"{processor()}, {options.game}, {options.lanes} emulators; milliseconds")
    for name, (call, count) in calls.items():
        seconds, gap = timed(call)
        print(f"{name:20} {seconds / count * 1e3:8.1f} each   Python stood still for {gap * 1e3:8.1f}")


main()
