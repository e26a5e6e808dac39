"""A whole fleet in its learning phase, and its emulators alone: environment steps a second, and the share reached.

    python bench/fleet_loop.py [--games 20] [--seeds 5] [--parts 4] [--precision bf16] [--seconds 20]

All in one run: first the emulators with random actions, then the fleet as `sacd sweep` trains it, timed from a while
after its first updates on.
"""

import argparse
import gc
import sys
import threading
import time

from sacd import engine

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--games", type=int, default=20)
parser.add_argument("--seeds", type=int, default=5)
parser.add_argument("--parts", default="4", help="that take turns; several numbers are tried one after the other")
parser.add_argument("--precision", default="bf16")
parser.add_argument("--device", default="auto")
parser.add_argument("--switch", type=float, default=0.005, help="seconds a thread may keep Python from the others")
parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
options = parser.parse_args()
engine.prepare(0)

import torch

from sacd import config, rates, runs, sweep
from sacd.envs import names
from sacd.machine import processor
from sacd.train import ALONE, Training


class Watch(rates.Watch):
    """With the seconds of the loop by what it does, from the same moment on."""

    def __init__(self) -> None:
        super().__init__(options.seconds)
        self.spent: dict[str, float] = {}

    def tick(self, step: int) -> None:
        if step >= rates.SETTLED and not self.marks:
            self.spent.clear()
        super().tick(step)


def chosen() -> list[config.Config]:
    """The runs, in the order of the paper's table."""
    games = [names.resolve(game) for game in names.PAPER_GAMES[: options.games]]
    fields = {"precision": options.precision, "device": options.device}
    each = (config.make(g, "paper", seed=s, **fields) for g in games for s in range(options.seeds))
    return [rates.measured(c) for c in each]


def at_once(call, arguments) -> None:
    """Threads, all waited for."""
    threads = [threading.Thread(target=call, args=(a,)) for a in arguments]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def timed(owner: object, name: str, label: str, spent: dict[str, float]) -> None:
    """Have a method's seconds added up."""
    call = getattr(owner, name)

    def measured(*arguments):
        begin = time.perf_counter()
        found = call(*arguments)
        spent[label] = spent.get(label, 0.0) + time.perf_counter() - begin
        return found

    setattr(owner, name, measured)


def instrument(training: Training, spent: dict[str, float]) -> None:
    """Seconds of a part's loop by what it does; `chosen` is where it waits for the GPU before acting."""
    for owner, name, label in (
        (training.replay, "observe", "observe"), (training, "act", "act"), (training.pool, "send", "send"),
        (training, "_learn", "learn, with waiting"), (training, "_update", "learn: host"),
        (training.replay, "sample", "learn: sample"), (training.agent, "update", "learn: launch"),
        (training.pool, "recv", "recv"), (training.replay, "add", "add"), (training, "_turn", "turn"),
    ):  # fmt: skip
        timed(owner, name, label, spent)


def train(parts: list[list[config.Config]], best: float) -> None:
    """A fleet in these parts."""
    watches, turns = [Watch() for _ in parts], engine.Turns() if len(parts) > 1 else ALONE
    gc.collect()  # the fleet before
    torch.cuda.empty_cache()
    look = [lambda training, w=w: instrument(training, w.spent) for w in watches]
    at_once(lambda i: rates.fleet(parts[i], watches[i], turns, look[i]), range(len(parts)))
    learning, runs = rates.rate(watches, [len(p) for p in parts]), sum(map(len, parts))
    print(f"fleet of {runs} in {len(parts)} parts, learning: {learning:.0f} steps/s, {learning / best:.2f} of the best")
    for label, seconds in watches[0].spent.items():
        print(f"  {label:22} {seconds / len(watches[0].marks) * 1e3:7.2f} ms a turn")
    if torch.cuda.is_available():
        print(f"  GPU memory at the peak: {torch.cuda.max_memory_allocated() / 1e9:.1f} GB", flush=True)


def main() -> None:
    """Measure and print."""
    sys.setswitchinterval(options.switch)
    counts = [int(n) for n in options.parts.split(",")]
    print(f"{processor()}, {engine.cores()} cores, {engine.device(options.device)}, commit {runs.commit()}")
    best = 0.0
    for parts in sorted({1, counts[0]}):
        found: list[float] = []
        alone = sweep.split(chosen(), parts)
        at_once(lambda p, found=found: found.append(rates.emulators(p, options.seconds / 2)), alone)
        print(f"emulators alone in {parts} parts: {sum(found):.0f} steps/s", flush=True)
        best = max(best, sum(found))
    for parts in counts:
        train(sweep.split(chosen(), parts), best)


main()
