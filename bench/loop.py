"""The whole loop in its learning phase: environment steps a second, and what everything around the update adds to it.

    python bench/loop.py [--game Pong] [--updates 150] [--threads 0]

The update is timed inside the running loop; the rest of a turn is emulation that did not hide behind it, acting, replay
and logging. `pairs` are environment steps, each with one update, on CartPole with the 2x256 MLP.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sacd import engine

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="Pong")
parser.add_argument("--updates", type=int, default=150)
parser.add_argument("--threads", type=int, default=0)
options = parser.parse_args()
threads = engine.prepare(options.threads)

import torch

from sacd import config, runs
from sacd.doctor import gemm_rate
from sacd.envs import names
from sacd.machine import processor
from sacd.signals import Stop
from sacd.train import Training


class Silent:
    """Looks on and says nothing."""

    def note(self, text: str) -> None: ...
    def tick(self, step: int) -> None: ...
    def rows(self, step: int, rows: list) -> None: ...


def learning_phase(chosen: config.Config) -> tuple[float, float, float]:
    """Steps a second, updates a second, and (time around the update) / (time in it), after learning has started."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training([chosen], [runs.RunFolder(Path(folder) / "run")], Silent())
        update, marks, inside = training.agent.update, [], []

        def timed(*arguments):
            begin = time.perf_counter()
            out = update(*arguments)
            inside.append(time.perf_counter() - begin)
            marks.append((begin, training.clock.step))
            return out

        training.agent.update = timed
        (Path(folder) / "run").mkdir()
        training.run(Stop())
        training.close()
    skip = len(marks) // 10  # the first updates allocate
    seconds, steps = marks[-1][0] - marks[skip][0], marks[-1][1] - marks[skip][1]
    spent = sum(inside[skip:-1])
    return steps / seconds, (len(marks) - 1 - skip) / seconds, (seconds - spent) / spent


def start_up() -> float:
    """Seconds for `sacd --help`, the best of five."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "sacd", "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    peak = {p: gemm_rate(d, 2048) for p, d in (("fp32", torch.float32), ("bf16", torch.bfloat16))}
    print(f"{processor()}, {threads} threads, torch {torch.__version__}, commit {runs.commit()}")
    print(f"matrix products of 2048: fp32 {peak['fp32']:.0f} GFLOP/s, bf16 {peak['bf16']:.0f} GFLOP/s\n")
    print(f"{'learning phase':44} {'env steps/s':>12} {'updates/s':>10} {'around the update':>18}")
    game = names.resolve(options.game)
    atari = {"learning_starts": 100, "steps": 100 + 4 * options.updates, "save_every": 10**9}
    small = {"learning_starts": 100, "steps": 100 + 20 * options.updates, "save_every": 10**9}
    for precision in ("fp32", "bf16"):
        for order in ("sequential", "simultaneous"):
            kind = {"precision": precision, "update_order": order}
            pairs = {t: config.make("CartPole-v1", "classic", threads=t, **small, **kind) for t in sorted({1, threads})}
            for title, chosen in (
                (f"{options.game}, paper", config.make(game, "paper", **atari, **kind)),
                *((f"CartPole, an update a step (pairs), {t} threads", chosen) for t, chosen in pairs.items()),
            ):
                steps, updates, around = learning_phase(chosen)
                print(f"{f'{title}, {precision}, {order}':60} {steps:12.1f} {updates:10.1f} {around:17.1%}")
    print(f"\nsacd --help: {start_up():.2f} s")


main()
