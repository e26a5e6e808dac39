"""A whole fleet in its learning phase, and its emulators alone: environment steps a second, and the share reached.

    python bench/fleet_loop.py [--games 20] [--seeds 5] [--parts 2] [--precision bf16] [--seconds 20]

All in one run: first the emulators with random actions, then the fleet as `sacd sweep` trains it, timed from a while
after its first updates on.
"""

import argparse
import contextlib
import gc
import sys
import tempfile
import threading
import time
from pathlib import Path

from sacd import engine

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--games", type=int, default=20)
parser.add_argument("--seeds", type=int, default=5)
parser.add_argument("--parts", default="2", help="that take turns; several numbers are tried one after the other")
parser.add_argument("--precision", default="bf16")
parser.add_argument("--device", default="auto")
parser.add_argument("--switch", type=float, default=0.005, help="seconds a thread may keep Python from the others")
parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
options = parser.parse_args()
engine.prepare(0)

import numpy as np
import torch

from sacd import config, runs
from sacd.envs import names
from sacd.envs.pool import Pool
from sacd.machine import processor
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import ALONE, Training

WARM = 100  # random steps before learning
SETTLED = WARM + 120  # steps after which the clock runs: graphs are recorded by then


class Enough(Exception):
    """The measurement is over."""


class Watch:
    """Steps and seconds of one part from SETTLED on."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, int]] = []
        self.spent: dict[str, float] = {}

    def note(self, text: str) -> None: ...
    def rows(self, step: int, rows: list) -> None: ...

    def tick(self, step: int) -> None:
        if step >= SETTLED:
            now = time.perf_counter()
            if not self.marks:
                self.spent.clear()
            self.marks.append((now, step))
            if now - self.marks[0][0] > options.seconds:
                raise Enough


def chosen() -> list[config.Config]:
    """The runs, in the order of the paper's table."""
    games = [names.resolve(game) for game in names.PAPER_GAMES[: options.games]]
    fields = {"precision": options.precision, "device": options.device, "learning_starts": WARM, "save_every": 10**9}
    return [config.make(g, "paper", seed=s, **fields) for g in games for s in range(options.seeds)]


def split(configs: list[config.Config], parts: int) -> list[list[config.Config]]:
    """The parts that take turns."""
    size = -(-len(configs) // parts)
    return [configs[i : i + size] for i in range(0, len(configs), size)]


def at_once(call, arguments: list) -> None:
    """Threads, all waited for."""
    threads = [threading.Thread(target=call, args=(a,)) for a in arguments]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def emulators(part: list[config.Config], found: list[float]) -> None:
    """Agent steps a second of a part's emulators, with random actions."""
    pool = Pool(part, 1)
    pool.start()
    counts, draws, steps = np.array(pool.actions_of), np.random.default_rng(0), 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < options.seconds / 2:
        pool.send((draws.random(len(part)) * counts).astype(np.int64))
        pool.recv()
        steps += len(part)
    found.append(steps / (time.perf_counter() - begin))
    pool.close()


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


def fleet(part: list[config.Config], watch: Watch, place: Path, turns: contextlib.AbstractContextManager) -> None:
    """Train a part until its watch has seen enough."""
    folders = [RunFolder(place / f"{names.short(c.env)}_{c.seed}") for c in part]
    for folder, each in zip(folders, part, strict=True):
        folder.claim(each)
    with engine.own_stream(engine.device(options.device)):
        training = Training(part, folders, watch, turns)
        instrument(training, watch.spent)
        with contextlib.suppress(Enough):
            training.run(Stop())
        training.close()


def rate(watches: list[Watch], sizes: list[int]) -> float:
    """Steps a second of all parts while all were running."""
    begin, end = max(w.marks[0][0] for w in watches), min(w.marks[-1][0] for w in watches)
    steps = 0
    for watch, size in zip(watches, sizes, strict=True):
        inside = [step for t, step in watch.marks if begin <= t <= end]
        steps += (inside[-1] - inside[0]) * size
    return steps / (end - begin)


def train(parts: list[list[config.Config]], best: float) -> None:
    """A fleet in these parts."""
    watches, turns = [Watch() for _ in parts], engine.Turns() if len(parts) > 1 else ALONE
    gc.collect()  # the fleet before
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as place:
        at_once(lambda i: fleet(parts[i], watches[i], Path(place), turns), list(range(len(parts))))
    learning, runs = rate(watches, [len(p) for p in parts]), sum(map(len, parts))
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
        at_once(lambda p, found=found: emulators(p, found), split(chosen(), parts))
        print(f"emulators alone in {parts} parts: {sum(found):.0f} steps/s", flush=True)
        best = max(best, sum(found))
    for parts in counts:
        train(split(chosen(), parts), best)


main()
