"""One gradient step: the package's, beside the same step written the ordinary way with modules and autograd.

    python bench/update.py [--rounds 6] [--threads 0] [--plain-allocator]

Prints a table with the ratio to the ordinary code and the share of the matrix-product peak that was reached, all from
one interleaved run. Operations are counted from the layers: a backward pass counts weight and input gradients, but none
for the first layer's input.
"""

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sacd import engine

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=6)
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--plain-allocator", action="store_true", help="leave glibc's allocator as it is")
options = parser.parse_args()
if options.plain_allocator:
    engine.keep_freed_memory = lambda: None
threads = engine.prepare(options.threads)

import statistics

import torch

from ordinary import OrdinarySAC
from sacd import config, runs
from sacd.agents.sac import SAC
from sacd.doctor import gemm_rate
from sacd.layers import Conv
from sacd.machine import processor
from sacd.types import Batch, Spec
from timing import interleaved, spread

ATARI = Spec((84, 84), True, 4, 6)
CARTPOLE = Spec((4,), False, 1, 2)
BATCH = 64


def random_batch(spec: Spec) -> Batch:
    """Recorded frames and random frames cost the same; zeros do not."""

    def observations() -> torch.Tensor:
        shape = (1, BATCH, *spec.obs)
        return torch.randint(0, 256, shape, dtype=torch.uint8) if spec.image else torch.randn(shape)

    action = torch.randint(0, spec.actions, (1, BATCH))
    return Batch(observations(), action, torch.randn(1, BATCH), torch.full((1, BATCH), 0.99), observations())


def operations(agent: SAC, order: str) -> float:
    """Floating-point operations of an update: 8 or 6 forward and 3 backward passes."""
    net, size, forward, first = agent.net, agent.spec.frame[0], 0.0, 0.0
    for layer in net.layers:
        pixels = 1
        if isinstance(layer, Conv):
            size = (size - layer.kernel) // layer.stride + 1
            pixels = size**2
        forward += 2 * math.prod(layer.shape) * pixels
        first = first or forward
    passes = 8 if order == "sequential" else 6
    return BATCH * (passes * forward + 3 * (2 * forward - first))


def variant(spec: Spec, precision: str, order: str):
    """An update as a call without arguments, and its operations."""
    agent = SAC(spec, config.make("bench", precision=precision, update_order=order))
    state, batch, u = agent.init(torch.tensor([0])), random_batch(spec), torch.rand(1, BATCH)
    return lambda: agent.update(state, batch, u, 0.0), operations(agent, order)


def main() -> None:
    """Measure and print."""
    peak = {p: gemm_rate(d, 2048) for p, d in (("fp32", torch.float32), ("bf16", torch.bfloat16))}
    print(f"{processor()}, {threads} threads, torch {torch.__version__}, commit {runs.commit()}")
    print(f"matrix products of 2048: fp32 {peak['fp32']:.0f} GFLOP/s, bf16 {peak['bf16']:.0f} GFLOP/s\n")
    print(f"{'update, batch 64':44} {'ms, median (10 %-90 %)':26} {'ordinary':>9} {'of peak':>8}")
    for title, spec, rounds in (("Nature CNN", ATARI, options.rounds), ("MLP 2x256", CARTPOLE, 20 * options.rounds)):
        ordinary = OrdinarySAC(spec)
        batch = random_batch(spec)
        made = {(p, o): variant(spec, p, o) for p in peak for o in ("simultaneous", "sequential")}
        calls = {"ordinary": lambda o=ordinary, b=batch: o.update(b)} | {str(k): f for k, (f, _) in made.items()}
        times = interleaved(calls, rounds)
        base = statistics.median(times["ordinary"])
        print(f"{title + ', ordinary modules, fp32, sequential':44} {spread(times['ordinary']):26} {'1.00':>9}")
        for (precision, order), (_, work) in made.items():
            found = times[str((precision, order))]
            reached = work / statistics.median(found) / 1e6 / peak[precision]
            ratio = base / statistics.median(found)
            print(f"{f'{title}, {precision}, {order}':44} {spread(found):26} {ratio:8.2f}x {reached:8.0%}")


main()
