"""Counter-based randomness against an oracle in Python's integers, and its independence where runs rely on it."""

import hashlib
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from sacd import rng

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def seeds(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def steps(first: int, last: int) -> Tensor:
    return torch.arange(first, last, dtype=torch.int64)


def finaliser(x: int) -> int:
    """The output function of splitmix64 (Steele, Lea, Flood 2014), in unsigned 64-bit arithmetic."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def oracle_bits(seed: int, name: str, step: int, index: int) -> int:
    """The key absorbs seed and stream, then step; the index (from 1) is drawn from it."""
    stream = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    key = finaliser((seed * GOLDEN + stream) & WORD)
    key = finaliser((key + (step + 1) * GOLDEN) & WORD)
    return finaliser(finaliser((key + (index + 1) * GOLDEN) & WORD))


def z_of_mean(u: Tensor) -> float:
    """The mean's distance from 1/2 in its standard errors."""
    return abs(float(u.mean()) - 0.5) * math.sqrt(12 * u.numel())


def z_of_correlation(a: Tensor, b: Tensor) -> float:
    """The correlation in its standard errors, for as many independent pairs."""
    pair = torch.stack([a.flatten(), b.flatten()])
    return abs(float(torch.corrcoef(pair)[0, 1])) * math.sqrt(a.numel())


def test_finaliser_is_splitmix64():
    """The oracle itself gives the published first outputs of splitmix64 seeded with 0."""
    found = [finaliser(((i + 1) * GOLDEN) & WORD) for i in range(3)]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("name", ["act", "batch", "init/critic0/2/weight", ""])
def test_bits_are_the_oracles(name):
    """Every bit, for small and large seeds, steps and indices."""
    some, places = [0, 1, 7, 2**31, 2**32 - 1], [0, 1, 99_999, 2**40]
    found = rng.bits(seeds(*some), name, torch.tensor(places), 5).numpy().view(np.uint64)
    wanted = [[[oracle_bits(s, name, t, i) for i in range(5)] for t in places] for s in some]
    assert found.shape == (5, 4, 5)
    assert found.tolist() == wanted


def test_uniform_is_the_top_53_bits():
    """Uniforms are float64 in [0, 1) with all 53 bits, from the same words."""
    found = rng.uniform(seeds(3, 4), "act", steps(0, 50), 6)
    words = rng.bits(seeds(3, 4), "act", steps(0, 50), 6).numpy().view(np.uint64)
    assert found.dtype == torch.float64
    np.testing.assert_array_equal(found.numpy(), (words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def test_known_bits_never_change():
    """Stored runs depend on these bits: one of them is written down here, worked out by the oracle."""
    assert oracle_bits(1, "act", 2, 3) == 0x0F83D27367B7F275
    assert int(rng.bits(seeds(1), "act", steps(2, 3), 4)[0, 0, 3]) == 0x0F83D27367B7F275
    assert rng.stream_id("act") & WORD == int.from_bytes(hashlib.sha256(b"act").digest()[:8], "little")


@pytest.mark.parametrize("axis", ["runs", "steps", "indices"])
def test_uniformity(axis):
    """65,536 draws along each axis alone: mean, 64-cell chi-square (5 sigma and more) and every bit balanced."""
    n = 1 << 16
    runs, times, width = {
        "runs": (steps(0, n), steps(5, 6), 1),
        "steps": (seeds(5), steps(0, n), 1),
        "indices": (seeds(5), steps(5, 6), n),
    }[axis]
    u = rng.uniform(runs, "act", times, width).flatten()
    assert u.min() >= 0.0
    assert u.max() < 1.0
    assert z_of_mean(u) < 5.0
    cells = torch.bincount((u * 64).long(), minlength=64)
    assert len(cells) == 64
    assert ((cells - n / 64) ** 2 / (n / 64)).sum() < 63 + 6 * math.sqrt(2 * 63)
    words = (u * 2.0**53).long()
    for bit in range(53):
        assert abs(float(((words >> bit) & 1).double().mean()) - 0.5) * 2 * math.sqrt(n) < 6.0


@pytest.mark.parametrize("other", ["stream", "run", "step", "lag"])
def test_independence(other):
    """Streams, neighbouring runs, the same run one step later and neighbouring indices are uncorrelated."""
    base = rng.uniform(seeds(0), "act", steps(0, 400), 100)
    second = {
        "stream": lambda: rng.uniform(seeds(0), "batch", steps(0, 400), 100),
        "run": lambda: rng.uniform(seeds(1), "act", steps(0, 400), 100),
        "step": lambda: rng.uniform(seeds(0), "act", steps(1, 401), 100),
        "lag": lambda: base.roll(1, -1),
    }[other]()
    assert z_of_correlation(base, second) < 5.0
    joint = torch.bincount(((base * 8).long() * 8 + (second * 8).long()).flatten(), minlength=64)
    assert ((joint - 625.0) ** 2 / 625.0).sum() < 63 + 6 * math.sqrt(2 * 63)


def test_no_two_draws_agree():
    """No word repeats over runs, streams, steps and indices (300,000 words of 64 bits)."""
    words = [rng.bits(steps(0, 30), name, steps(0, 50), 50).flatten() for name in ("act", "batch", "noise", "explore")]
    together = torch.cat(words)
    assert together.numel() == 300_000
    assert together.unique().numel() == together.numel()


def test_a_run_of_several_is_the_run_alone():
    """Bits, uniforms and normals of run r do not depend on the other runs, or on which steps are drawn together."""
    all_seeds = seeds(11, 0, 2**32 - 1, 12)
    together = rng.bits(all_seeds, "act", steps(0, 20), 7)
    normals = rng.normal(all_seeds, "init/actor/0/weight", 33)
    for r in range(4):
        assert torch.equal(together[r : r + 1], rng.bits(all_seeds[r : r + 1], "act", steps(0, 20), 7))
        assert torch.equal(normals[r : r + 1], rng.normal(all_seeds[r : r + 1], "init/actor/0/weight", 33))
    assert torch.equal(together[:, 13:14, :3], rng.bits(all_seeds, "act", steps(13, 14), 3))


@pytest.mark.parametrize("block", [1, 7, 128])
def test_stream_is_the_pure_function(block):
    """Stream.at gives the uniforms of its step, in any order of access, back and forth over its blocks."""
    stream = rng.Stream(seeds(1, 2), "batch", 5, block)
    wanted = rng.uniform(seeds(1, 2), "batch", steps(0, 400), 5)
    for step in (0, 1, 2, 127, 128, 399, 5, 5, 130, 0, 256, 255):
        assert torch.equal(stream.at(step), wanted[:, step])


def test_normal_has_the_right_moments():
    """Mean 0, variance 1, skew 0, kurtosis 3 and the tails of 200,000 draws, within 6 standard errors."""
    n = 200_000
    x = rng.normal(seeds(9), "weights", n)[0]
    assert x.isfinite().all()
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(float((x**power).mean()) - moment) < 6 * math.sqrt(variance / n)
    for edge, beyond in ((1.0, 0.317311), (2.0, 0.045500), (3.0, 0.0026998)):
        assert abs(float((x.abs() > edge).double().mean()) - beyond) < 6 * math.sqrt(beyond / n)


def test_derived_seeds():
    """Seeds for emulators fit in 31 bits, and differ by run, stream and index."""
    found = [rng.derived_seed(s, name, i) for s in (0, 1, 2) for name in ("env", "eval") for i in range(20)]
    assert all(0 <= seed < 2**31 for seed in found)
    assert len(set(found)) == len(found)
    assert max(found) > 2**30
    assert rng.derived_seed(1, "env", 4) == oracle_bits(1, "env", 4, 0) >> 33
