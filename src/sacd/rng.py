"""Randomness as a pure function of (run seed, stream name, step, index).

There is no generator state: nothing to save, nothing shared between runs. Run r of a fleet draws what run r alone
draws, and a resumed run draws what it would have drawn. The function is the finaliser of splitmix64, applied to a key
that absorbs seed, stream and step one after the other; all arithmetic is on int64 tensors, wrapping, so that every
device draws the same bits.
"""

import hashlib
from functools import lru_cache

import torch
from torch import Tensor

MOST = 2**22  # numbers drawn at once
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_M1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_M2 = 0x94D049BB133111EB - (1 << 64)


def _shift(x: Tensor, n: int) -> Tensor:
    """Logical shift right: torch's own copies the sign bit."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift(x, 30)) * _M1
    x = (x ^ _shift(x, 27)) * _M2
    return x ^ _shift(x, 31)


def stream_id(name: str) -> int:
    """A stream's name as a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little", signed=True)


def bits(seeds: Tensor, name: str, steps: Tensor, width: int) -> Tensor:
    """64 random bits for each (run, step, index): int64 of shape (R, steps, width)."""
    index = torch.arange(1, width + 1, dtype=torch.int64, device=seeds.device)
    key = _mix(seeds * _GOLDEN + stream_id(name))
    key = _mix(key[:, None] + (steps + 1) * _GOLDEN)
    return _mix(_mix(key[..., None] + index * _GOLDEN))


def uniform(seeds: Tensor, name: str, steps: Tensor, width: int) -> Tensor:
    """Uniform float64 in [0, 1) with 53 random bits: shape (R, steps, width)."""
    return _shift(bits(seeds, name, steps, width), 11).to(torch.float64) * 2.0**-53


def normal(seeds: Tensor, name: str, width: int) -> Tensor:
    """Standard normal float64 (Box-Muller) of shape (R, width), at step 0 of the stream."""
    u = uniform(seeds, name, torch.zeros(1, dtype=torch.int64, device=seeds.device), 2 * width)[:, 0]
    radius = torch.sqrt(-2.0 * torch.log1p(-u[:, :width]))
    return radius * torch.cos(2.0 * torch.pi * u[:, width:])


@lru_cache(100_000)
def derived_seed(seed: int, name: str, index: int) -> int:
    """A seed in [0, 2^31) for something outside that keeps its own generator, such as an emulator."""
    drawn = bits(torch.tensor([seed]), name, torch.tensor([index]), 1)
    return int(_shift(drawn, 33).item())


class Stream:
    """One named stream of uniforms for R runs, drawn a block of steps at a time because small draws cost calls.

    The block is a cache of a pure function: dropping it changes nothing.
    """

    def __init__(self, seeds: Tensor, name: str, width: int, block: int = 512):
        self.seeds, self.name, self.width = seeds, name, width
        self.block = max(1, min(block, MOST // (width * len(seeds))))
        self._number, self._drawn = -1, torch.empty(0)

    def at(self, step: int) -> Tensor:
        """The uniforms of one step: (R, width)."""
        number, offset = divmod(step, self.block)
        if number != self._number:
            first = number * self.block
            steps = torch.arange(first, first + self.block, dtype=torch.int64, device=self.seeds.device)
            self._drawn = uniform(self.seeds, self.name, steps, self.width)
            self._number = number
        return self._drawn[:, offset]
