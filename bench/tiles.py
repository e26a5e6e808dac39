"""Which tiles the convolution kernels run quickest with on this GPU: a fleet's three layers, bfloat16, batch 64.

    python bench/tiles.py [--runs 100]

Prints milliseconds of each kernel and tile. What conv_triton.py takes is chosen from this table. Kernels are compiled
by several processes first.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--runs", type=int, default=100)
parser.add_argument("--workers", type=int, default=12)
parser.add_argument("--compile", type=int, default=-1, help="only compile, as this worker")
options = parser.parse_args()
if options.compile < 0:
    words = [sys.executable, __file__, f"--runs={options.runs}", f"--workers={options.workers}", "--compile"]
    for worker in [subprocess.Popen([*words, str(i)]) for i in range(options.workers)]:
        worker.wait()

import torch
import triton

from sacd.kernels import adam_triton, conv_triton
from sacd.kernels.adam import corrections
from sacd.kernels.gradient import Follower, Product

Variant = tuple[str, tuple[int, ...], Callable]  # title, tile, call
CUDA, BATCH = torch.device("cuda"), 64
# nets that share an image, height and width in blocks, channels, kernel side, outputs, output places, their block
LAYERS = {
    "conv1 of two nets": (2, 21, 21, 64, 2, 32, 20, 2),
    "conv1 of one net": (1, 21, 21, 64, 2, 32, 20, 2),
    "conv2": (1, 10, 10, 128, 2, 64, 9, 1),
    "conv3": (1, 9, 9, 64, 3, 64, 7, 1),
}
FORWARD = [(128, 32, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (64, 64, 4, 4), (128, 128, 8, 2), (256, 64, 8, 3)]
WEIGHT = [(64, 128, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (64, 64, 4, 4), (128, 64, 8, 3), (64, 256, 8, 3)]
INPUT = [(128, 128, 8, 3), (128, 64, 4, 3), (128, 64, 8, 3), (64, 64, 4, 3), (64, 128, 8, 3), (128, 32, 4, 3)]
PRODUCT = [(64, 64, 64), (64, 64, 128), (64, 32, 64), (64, 128, 64), (64, 32, 128)]


def images(*shape: int, pixels: bool) -> torch.Tensor:
    """Random pixels, or what a layer with a ReLU leaves."""
    if pixels:
        return torch.randint(0, 256, shape, dtype=torch.uint8, device=CUDA)
    return torch.randn(shape, device=CUDA, dtype=torch.bfloat16).relu_()


def layer(name: str, runs: int, batch: int) -> Iterator[Variant]:
    """Every variant of a layer's kernels."""
    nets, high, wide, channels, side, outputs, places, block = LAYERS[name]
    first = name.startswith("conv1")
    count = runs * (nets if first else 2)
    x = images(runs if first else count, batch, high, wide, channels, pixels=first)
    w = torch.randn(count, side * side * channels, outputs, device=CUDA, dtype=torch.bfloat16) * 0.05
    bias, size = torch.randn(count, outputs, device=CUDA, dtype=torch.bfloat16), (places, places)
    grad = torch.randn(count, batch, high, wide, outputs, device=CUDA, dtype=torch.bfloat16)
    before, grid = (2, (21, 21)) if name == "conv2" else (1, (10, 10))
    for t in (t for t in FORWARD if side * channels % t[1] == 0):
        yield f"{name}, forward", t, partial(conv_triton.forward, x, w, bias, side, size, block, t)
    for t in (t for t in WEIGHT if side * channels % t[1] == 0):
        yield f"{name}, weight gradient", t, partial(conv_triton.weight_gradient, x, grad, side, t)
    for t in (t for t in INPUT if channels % t[1] == 0 and not first):
        yield f"{name}, input gradient", t, partial(conv_triton.input_gradient, grad, w, x, side, before, grid, t)


def dense(runs: int, batch: int) -> Iterator[Variant]:
    """Every variant of the large layer's gradient and step."""
    values = [torch.randn(runs, 512, 3136, device=CUDA) for _ in range(3)]
    values[2].square_()
    factors = Product(*(torch.randn(runs, batch, n, device=CUDA, dtype=torch.bfloat16) for n in (512, 3136)))
    part = (*values, Follower(values[0].bfloat16().flatten(1), None))
    count, table = torch.ones((), device=CUDA), corrections((0.9, 0.999), CUDA)
    for t in PRODUCT:
        step = partial(adam_triton.step, part, factors, count, table, 1e-4, 1e-8, (0.9, 0.999), t)
        yield "dense, gradient and Adam", t, step


def variants(runs: int, batch: int) -> Iterator[Variant]:
    """All of them; one layer's numbers at a time are in memory."""
    for name in LAYERS:
        yield from layer(name, runs, batch)
    yield from dense(runs, batch)


def main() -> None:
    """Compile a share, or measure all."""
    if options.compile >= 0:
        for i, (_, _, call) in enumerate(variants(options.runs, BATCH)):
            if i % options.workers == options.compile:
                call()
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, R = {options.runs}; milliseconds")
    best: dict[str, list[tuple[float, tuple]]] = {}
    for name, tile, call in variants(options.runs, BATCH):
        best.setdefault(name, []).append((triton.testing.do_bench(call, warmup=3, rep=15, return_mode="median"), tile))
    for name, found in best.items():
        print(f"{name:36}", "  ".join(f"{'x'.join(map(str, t))} {ms:.3f}" for ms, t in sorted(found)))


main()
