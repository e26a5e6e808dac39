"""The paper's convolutions as they are written, and in the dense form that the package computes (batch 64).

    python bench/kernels.py [--rounds 10]

Times in milliseconds, both forms interleaved. The cost of the rearrangement itself stands in its own column.
"""

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sacd import engine

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=10)
parser.add_argument("--threads", type=int, default=0)
options = parser.parse_args()
threads = engine.prepare(options.threads)

import torch

from sacd import runs
from sacd.doctor import gemm_rate
from sacd.kernels import cpu
from sacd.machine import processor
from timing import interleaved

LAYERS = {"conv1": (4, 84, 32, 8, 4), "conv2": (32, 20, 64, 4, 2), "conv3": (64, 9, 64, 3, 1)}


def adjoint(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: int, which: tuple[bool, bool]):
    """The strided convolution's gradients, by the vendor's kernel."""
    return torch.ops.aten.convolution_backward(
        grad, x, weight, [weight.shape[0]], [stride] * 2, [0, 0], [1, 1], False, [0, 0], 1, [*which, False]
    )


def forms(dtype: torch.dtype, inputs: int, size: int, outputs: int, kernel: int, stride: int) -> dict:
    """Calls by name for one layer; channels last throughout."""
    last = torch.channels_last
    x = torch.randn(64, inputs, size, size).to(dtype).contiguous(memory_format=last)
    weight = torch.randn(outputs, inputs, kernel, kernel).to(dtype).contiguous(memory_format=last)
    y = torch.conv2d(x, weight, None, stride)
    grad = torch.randn(y.shape).to(dtype).contiguous(memory_format=last)
    rows = x.permute(0, 2, 3, 1)
    xd = cpu.space_to_depth(rows, stride).permute(0, 3, 1, 2)
    wd = cpu.dense_kernel(weight, 1, stride).contiguous(memory_format=last)
    return {
        "forward": lambda: torch.conv2d(x, weight, None, stride),
        "forward, dense": lambda: torch.conv2d(xd, wd),
        "weight": lambda: adjoint(grad, x, weight, stride, (False, True)),
        "weight, dense": lambda: adjoint(grad, xd, wd, 1, (False, True)),
        "input": lambda: adjoint(grad, x, weight, stride, (True, False)),
        "input, dense": lambda: adjoint(grad, xd, wd, 1, (True, False)),
        "rearrange": lambda: cpu.space_to_depth(rows, stride),
    }


def main() -> None:
    """Measure and print."""
    print(f"{processor()}, {threads} threads, torch {torch.__version__}, commit {runs.commit()}")
    names = list(forms(torch.float32, *LAYERS["conv3"]))
    print(f"{'':12}" + "".join(f"{n:>16}" for n in names))
    for label, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        print(f"{label}, matrix products of 2048: {gemm_rate(dtype, 2048):.0f} GFLOP/s")
        for layer, shape in LAYERS.items():
            times = interleaved(forms(dtype, *shape), options.rounds)
            print(f"{layer:12}" + "".join(f"{statistics.median(times[n]):16.2f}" for n in names))


main()
