"""The tape against plain lists: a stream whose frames and rewards are numbers, cut into episodes in every way."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from sacd.memory import tape_bytes
from sacd.replay import COLUMNS, Replay, slots_for
from sacd.types import NOT_ENDED, TRUNCATED, Spec, Step
from streams import ENDS, NOTHING, Stream, check, mixed, read, sweep


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_every_way_to_end_at_every_position(n, stack, kind):
    """After each step of a stream that ends at any position, exactly the finished n-step transitions come out."""
    for position in range(8):
        stream = Stream(n=n, stack=stack)
        check(stream)
        for t in range(14):
            stream.step(ENDS[kind] if t == position else NOTHING)
            check(stream, clip=t % 2 == 0)


@pytest.mark.parametrize("slots", [8, 17])
@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_ring_that_wraps_shows_nothing_torn(n, stack, slots):
    """Around the write head no stack, reward or bootstrap ever mixes old frames with new ones."""
    stream = Stream(slots=slots, n=n, stack=stack)
    for t in range(90):
        stream.step(mixed(t))
        check(stream, clip=t % 2 == 0, all_of_them=False)


@pytest.mark.parametrize("stack", [1, 4])
def test_a_full_ring_gives_every_whole_transition(stack):
    """A transition stays available until a frame of its own stack is overwritten, and no longer."""
    stream = Stream(slots=17, stack=stack)
    for t in range(60):
        stream.step(mixed(t))
        check(stream)


@pytest.mark.parametrize("n", [1, 3])
def test_lanes_and_runs_do_not_mix(n):
    """Each run samples its own lanes only, all of them, uniformly over their transitions."""
    stream = Stream(runs=2, lanes=3, n=n)
    for t in range(25):
        stream.step(*(mixed(t, phase) for phase in range(6)))
        if t in (0, 1, 7, 24):
            check(stream, 0)
            check(stream, 1, clip=True)


def test_vectors_are_not_stacked():
    """A vector observation is one frame, whatever the configured stack; its numbers come back as they were."""
    tape = Replay(Spec((2,), False, 1, 3), 1, 1, 50)
    frames = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 1, 2)
    tape.start(frames[0])
    for t in range(5):
        step = Step(frames[t + 1], frames[t + 1], np.array([float(t)]), np.zeros(1, np.uint8), np.zeros(1, bool))
        tape.add(np.array([t % 3]), step)
    batch = tape.sample((torch.arange(5, dtype=torch.float64)[None] + 0.5) / 5, False)
    assert torch.equal(batch.obs[0], torch.from_numpy(frames[:5, 0]))
    assert torch.equal(batch.next_obs[0], torch.from_numpy(frames[1:, 0]))


def test_observe_shows_the_newest_stack():
    """What the policy acts on is the newest frames, the episode's first one repeated before its start."""
    stream = Stream(lanes=2)
    for t in range(12):
        stream.step(mixed(t), mixed(t, 1))
        for lane, tale in enumerate(stream.tales):
            newest = tale.episodes[-1]
            assert read(stream.tape.observe()[0, lane]) == tale.stack(newest, len(newest) - 1, 4)


def same(a: Replay, b: Replay) -> None:
    """Two tapes give the same bits, whatever is sampled."""
    assert (a.size() == b.size()).all() and torch.equal(a.observe(), b.observe())
    x, y = (r.sample(sweep(a.size()), False) for r in (a, b))
    for name in ("obs", "action", "reward", "discount", "next_obs"):
        assert torch.equal(getattr(x, name), getattr(y, name)), name


def saved(tape: Replay, run: int, since: list[int]) -> tuple[dict[str, torch.Tensor], dict[str, list[int]]]:
    chunk, counters = tape.save(run, since)
    return {k: v.clone() for k, v in chunk.items()}, counters


@pytest.mark.parametrize("slots", [200, 13])
@pytest.mark.parametrize("n", [1, 3])
def test_chunks_bring_back_the_same_tape(slots, n):
    """Saved in chunks and loaded, also after the ring wrapped, a tape samples the same bits, and so ever after."""
    stream = Stream(runs=2, lanes=2, slots=slots, n=n)
    chunks: list[list[tuple]] = [[], []]
    for t in range(48):
        stream.step(*(mixed(t, phase) for phase in range(4)))
        if t not in (0, 1, 9, 10, 30, 47):
            continue
        twin = Stream(runs=2, lanes=2, slots=slots, n=n)
        for run in range(2):
            chunks[run].append(saved(stream.tape, run, chunks[run][-1][1]["head"] if chunks[run] else [0, 0]))
            counters = chunks[run][-1][1]
            gone = min(counters["head"]) - slots  # chunks that end before the tape begins are not kept
            twin.tape.load(run, (c for c, old in chunks[run] if max(old["head"]) > gone), counters)
        same(stream.tape, twin.tape)
    twin.tales = deepcopy(stream.tales)
    for t in range(48, 80):
        stream.step(*(mixed(t, phase) for phase in range(4)))
        twin.step(*(mixed(t, phase) for phase in range(4)))
        same(stream.tape, twin.tape)


def test_a_chunk_holds_only_what_is_new():
    """A save writes the slots since the last one, and at most two from before: what was not complete, or is cut."""
    stream = Stream()
    for _ in range(20):
        stream.step(NOTHING)
    chunk, counters = stream.tape.save(0, [15])
    assert counters["head"] == [20]
    assert 14 <= int(chunk["0.first"]) <= 15
    assert all(len(chunk[f"0.{column}"]) == 21 - int(chunk["0.first"]) for column in COLUMNS)


def cut_stream(n: int, before: tuple[int, bool]) -> Stream:
    """Two lanes, the first of which loses its episode after four steps, and plays on in another."""
    stream = Stream(lanes=2, n=n)
    for t in range(4):
        stream.step(before if t == 3 else NOTHING, NOTHING)
    tale = stream.tales[0]
    if tale.closes[max(tale.closes)] == NOT_ENDED:
        tale.closes[max(tale.closes)] = TRUNCATED
    stream.tape.cut(0, tale.frame(True))
    return stream


@pytest.mark.parametrize("before", [NOTHING, *ENDS.values()])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_cut_is_a_truncation(n, before):
    """A lane that cannot go on bootstraps from its true last frame; no reward or stack reaches into what follows."""
    stream = cut_stream(n, before)
    check(stream)
    for t in range(6):
        stream.step(NOTHING, mixed(t))
        check(stream)


def test_cut_before_anything_was_done():
    """A lane without a transition can be cut too."""
    stream = Stream(n=2)
    stream.tape.cut(0, stream.tales[0].frame(True))
    for _ in range(4):
        stream.step(NOTHING)
        check(stream)


@pytest.mark.parametrize("n", [1, 3])
def test_cut_is_in_the_next_chunk(n):
    """A cut right after a load is still there after the next save and load."""
    before, stream = Stream(lanes=2, n=n), cut_stream(n, NOTHING)
    for _ in range(4):
        before.step(NOTHING, NOTHING)
    first, counters = saved(before.tape, 0, [0, 0])
    for _ in range(5):
        stream.step(NOTHING, NOTHING)
    second, after = saved(stream.tape, 0, counters["head"])
    copy = Stream(lanes=2, n=n).tape
    copy.load(0, [first, second], after)
    same(stream.tape, copy)


def test_a_million_atari_steps_fit():
    """The paper's replay of 1,000,000 frames takes at most 7.2 GB, a run of 100,000 steps a tenth and its ends."""
    atari = Spec((84, 84), True, 4, 6)
    assert tape_bytes(atari, 10**6, 10**6) <= 7.2e9
    assert tape_bytes(atari, 10**6, 10**5) <= 0.72e9 * 9 / 8


@pytest.mark.parametrize("shape", [Spec((84, 84), True, 4, 6), Spec((5,), False, 1, 2)])
def test_tape_bytes_counts_all_columns(shape):
    """The memory announced is that of the arrays themselves."""
    tape = Replay(shape, 1, 1, 100)
    arrays = [tape.frame.numpy(), *(getattr(tape, k) for k in (*COLUMNS[1:], "order"))]
    assert tape_bytes(shape, 100, 10**6) == sum(a.nbytes for a in arrays)


def test_slots_for():
    """The ring holds the buffer, or where the run is shorter all its frames, with one more for each episode's end."""
    vector, image = Spec((5,), False, 1, 2), Spec((84, 84), True, 4, 6)
    for spec in (vector, image):
        assert slots_for(spec, 1_000_000, 10_000_000, 1) == 1_000_000
        assert slots_for(spec, 1_000_000, 10_000_000, 8) == 125_000
    assert slots_for(vector, 1_000_000, 100, 1) >= 2 * 100
    assert slots_for(image, 1_000_000, 800, 1) >= 800 + 800 // 8
