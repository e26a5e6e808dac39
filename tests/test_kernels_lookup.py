"""Transitions looked up by the kernel, against the tape's own NumPy: streams cut into episodes in every way."""

import numpy as np
import pytest
import torch

from sacd.kernels import HAVE_TRITON, lookup
from sacd.replay import Replay
from streams import Stream, mixed, sweep

pytestmark = pytest.mark.skipif(not HAVE_TRITON, reason="Triton is not installed")


@pytest.fixture
def mirrored(monkeypatch) -> None:
    """Tapes have a mirror, on a CPU too: the kernel runs in Triton's interpreter."""
    monkeypatch.setattr(lookup, "wanted", lambda device: True)


def check(tape: Replay, clip: bool) -> None:
    """What the kernel finds is what NumPy finds, also beside uniforms that hit the edges of each transition."""
    sizes = tape.size()
    edges = (torch.arange(int(sizes.max()), dtype=torch.float64)[None] / torch.from_numpy(sizes)[:, None]).clamp(
        max=1 - 2**-53
    )
    u = torch.cat([sweep(np.minimum(sizes, 5)), edges], 1)
    found, mirror = tape.sample(u, clip), tape._mirror
    tape._mirror = None
    right = tape.sample(u, clip)
    tape._mirror = mirror
    for name in ("obs", "action", "reward", "discount", "next_obs"):
        assert torch.equal(getattr(found, name), getattr(right, name)), name


@pytest.mark.parametrize("slots", [200, 13])
@pytest.mark.parametrize(("runs", "lanes", "n", "stack"), [(1, 1, 1, 4), (2, 3, 1, 4), (2, 1, 3, 4), (1, 2, 5, 1)])
@pytest.mark.usefixtures("mirrored")
def test_the_kernel_finds_what_numpy_finds(runs, lanes, n, stack, slots):
    """Also after the ring wrapped, over several lanes, and for returns of several steps."""
    stream = Stream(runs, lanes, slots, n, stack)
    for t in range(45):
        stream.step(*(mixed(t, phase) for phase in range(runs * lanes)))
        if t in (7, 12, 13, 44):
            check(stream.tape, clip=t % 2 == 0)


@pytest.mark.usefixtures("mirrored")
def test_a_cut_and_a_loaded_tape_are_mirrored():
    """What changes outside a step reaches the mirror too."""
    stream = Stream(lanes=2)
    for _ in range(6):
        stream.step((0, False), (0, False))
    stream.tape.cut(1, stream.tales[1].frame(True))
    check(stream.tape, clip=False)
    twin = Stream(lanes=2)
    twin.tape.load(0, [stream.tape.save(0, [0, 0])[0]], stream.tape.save(0, [0, 0])[1])
    check(twin.tape, clip=False)
    stream.step((0, False), (0, False))
    check(stream.tape, clip=False)


def test_packed_columns_come_apart_again():
    """Negative rewards, the largest action, every way to close, the longest stack."""
    action, reward = np.array([-1, 0, 17, 32767], np.int16), np.array([-1.5, 0.0, 3e38, -0.0], np.float32)
    closes, age = np.array([0, 1, 2, 1], np.uint8), np.array([0, 3, 15, 1], np.uint8)
    packed = lookup.pack(action, reward, closes, age)
    assert ((packed >> 32).astype(np.int32).view(np.float32) == reward).all()
    assert ((packed >> 16 & 0xFFFF).astype(np.uint16).view(np.int16) == action).all()
    assert (packed >> 8 & 255 == closes).all() and (packed & 255 == age).all()
