"""A tape's half in GPU memory against the tape's own NumPy: streams cut into episodes in every way."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sacd.kernels import HAVE_TRITON, mirror
from sacd.kernels.frames import Stacks
from sacd.replay import Replay
from sacd.types import Spec, Step
from streams import Stream, mixed, sweep

pytestmark = pytest.mark.skipif(not HAVE_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def mirrored(monkeypatch) -> None:
    """Tapes have another half, on a CPU too: the kernel runs in Triton's interpreter."""
    monkeypatch.setattr(mirror, "wanted", lambda device: True)


def whole(x: torch.Tensor | Stacks) -> torch.Tensor:
    return (x.gather() if isinstance(x, Stacks) else x).cpu()


def check(tape: Replay, clip: bool) -> None:
    """What the kernel finds is what NumPy finds, also at uniforms that hit the edges of each transition; and the newest
    observations are there."""
    sizes = tape.size()
    edges = torch.arange(int(sizes.max()), dtype=torch.float64)[None] / torch.from_numpy(sizes)[:, None]
    u = torch.cat([sweep(np.minimum(sizes, 5)), edges.clamp(max=1 - 2**-53)], 1).to(DEVICE)
    u = torch.stack([u, u + 1], 1)[:, 0]  # rows that do not follow each other in memory, as a stream's
    found = {k: whole(t) for k, t in vars(tape.sample(u, clip)).items()} | {"seen": whole(tape.observe())}
    half, tape._mirror = tape._mirror, None
    right = {k: whole(t) for k, t in vars(tape.sample(u, clip)).items()} | {"seen": whole(tape.observe())}
    tape._mirror = half
    for name in right:
        assert torch.equal(found[name], right[name]), name


@pytest.mark.parametrize("slots", [200, 13])
@pytest.mark.parametrize(("runs", "lanes", "n", "stack"), [(1, 1, 1, 4), (2, 3, 1, 4), (2, 1, 3, 4), (1, 2, 5, 1)])
def test_the_kernel_finds_what_numpy_finds(runs, lanes, n, stack, slots):
    """Also after the ring wrapped, over several lanes, for returns of several steps, and when much was waiting."""
    stream = Stream(runs, lanes, slots, n, stack, DEVICE)
    for t in range(45):
        stream.step(*(mixed(t, phase) for phase in range(runs * lanes)))
        if t in (7, 12, 13, 44):
            check(stream.tape, clip=t % 2 == 0)


@pytest.mark.parametrize("observed", [1, 2, 100])
def test_frames_are_those_of_a_tape_without(observed, monkeypatch):
    """Every frame lies where it lies on a tape that is all on the host, however often somebody looked."""
    found = []
    for half in (True, False):
        monkeypatch.setattr(mirror, "wanted", lambda device, half=half: half)
        stream = Stream(2, 2, 13, 2, 4, DEVICE if half else "cpu")
        for t in range(40):
            stream.step(*(mixed(t, phase) for phase in range(4)))
            if t % observed == 0:
                stream.tape.observe()
        stream.tape.settle()
        found.append(stream.tape.frame.cpu())
    assert torch.equal(*found)


def test_a_cut_and_a_loaded_tape_are_mirrored():
    """What changes outside a step reaches the other half too."""
    stream = Stream(lanes=2, device=DEVICE)
    for _ in range(6):
        stream.step((0, False), (0, False))
    stream.tape.cut(1, stream.tales[1].frame(True))
    check(stream.tape, clip=False)
    twin = Stream(lanes=2, device=DEVICE)
    chunk, counters = stream.tape.save(0, [0, 0])
    twin.tape.load(0, [chunk], counters)
    check(twin.tape, clip=False)
    stream.step((0, False), (0, False))
    check(stream.tape, clip=False)
    again, after = stream.tape.save(0, [0, 0])
    stream.tape._mirror = None
    assert all(torch.equal(again[k], t) for k, t in stream.tape.save(0, [0, 0])[0].items()) and after["head"] == [7, 8]


def test_vectors_are_gathered():
    """Vector observations come out as tensors, whatever the configured stack."""
    tape = Replay(Spec((2,), False, 4, 3), 1, 1, 50, device=torch.device(DEVICE))
    frames = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 1, 2)
    tape.start(frames[0])
    for t in range(5):
        step = Step(frames[t + 1], frames[t + 1], np.array([float(t)]), np.zeros(1, np.uint8), np.zeros(1, bool))
        tape.add(np.array([t % 3]), step)
    batch = tape.sample((torch.arange(5, dtype=torch.float64, device=DEVICE)[None] + 0.5) / 5, False)
    assert torch.equal(whole(batch.obs)[0], torch.from_numpy(frames[:5, 0]))
    assert torch.equal(whole(batch.next_obs)[0], torch.from_numpy(frames[1:, 0]))
    assert torch.equal(whole(tape.observe())[0], torch.from_numpy(frames[5]))


def test_what_is_found_is_laid_in_the_same_place():
    """Recorded steps read it where it lies."""
    stream = Stream(device=DEVICE)
    for t in range(9):
        stream.step(mixed(t))
    u = torch.full((1, 6), 0.3, dtype=torch.float64, device=DEVICE)
    first = stream.tape.sample(u, True)
    assert stream.tape.sample(u * 2, True) is first
    assert first.to(first.action.device) is first
    assert stream.tape.observe() is stream.tape.observe()


def test_what_runs_there_can_be_recorded():
    """Carrying over and looking up go through what `hasten` was given, a function for each."""
    called: list[str] = []

    def record(function: Callable) -> Callable:
        name = getattr(function, "func", function).__name__
        return lambda state, *inputs: (called.append(name), function(state, *inputs))[1]

    stream = Stream(device=DEVICE)
    stream.tape.hasten(record)
    for t in range(9):
        stream.step(mixed(t))
    called.clear()
    check(stream.tape, clip=True)
    assert called == ["_carry", "_find"]


def test_packed_columns_come_apart_again():
    """Negative rewards, the largest action, every way to close, the longest stack."""
    action, reward = np.array([-1, 0, 17, 32767], np.int16), np.array([-1.5, 0.0, 3e38, -0.0], np.float32)
    closes, age = np.array([0, 1, 2, 1], np.uint8), np.array([0, 3, 15, 1], np.uint8)
    packed = mirror.pack(action, reward, closes, age)
    assert ((packed >> 32).astype(np.int32).view(np.float32) == reward).all()
    assert ((packed >> 16 & 0xFFFF).astype(np.uint16).view(np.int16) == action).all()
    assert (packed >> 8 & 255 == closes).all() and (packed & 255 == age).all()
