"""A stream of numbered frames, and what a tape must make of it, told with plain lists: the replay tests' oracle."""

from dataclasses import dataclass, field

import numpy as np
import torch

from sacd.replay import Replay
from sacd.types import NOT_ENDED, TERMINATED, TRUNCATED, Spec, Step

GAMMA = 0.5  # powers of two: the expected sums are exact
ENDS = {"termination": (TERMINATED, True), "truncation": (TRUNCATED, True), "life": (TERMINATED, False)}
NOTHING = (NOT_ENDED, False)
Key = tuple[int, int]  # a frame: lane and number; a transition goes by the frame it starts from


def spec(stack: int) -> Spec:
    """Images of three bytes: the lane, and a number in two."""
    return Spec((1, 3), True, stack, 100)


def picture(lane: int, number: int) -> np.ndarray:
    return np.array([[lane, number // 256, number % 256]], np.uint8)


def read(obs: torch.Tensor) -> list[Key]:
    """The frames of a stack, by key."""
    return [(int(f[0]), int(f[1]) * 256 + int(f[2])) for f in obs.reshape(-1, 3)]


def reward_of(number: int) -> float:
    return float(number % 7 - 3)


@dataclass
class Tale:
    """One lane as plain lists: what the tape has to know, told the long way."""

    lane: int
    episodes: list[list[int]] = field(default_factory=list)  # numbers of the frames
    closes: dict[int, int] = field(default_factory=dict)  # by the number of the frame that was acted on
    written: int = 0

    def frame(self, fresh: bool) -> np.ndarray:
        """The next frame, perhaps the first of an episode."""
        if fresh:
            self.episodes.append([])
        self.episodes[-1].append(self.written)
        self.written += 1
        return picture(self.lane, self.written - 1)

    def stack(self, episode: list[int], t: int, size: int) -> list[Key]:
        return [(self.lane, episode[max(t - back, 0)]) for back in range(size - 1, -1, -1)]

    def transitions(self, n: int, stack: int, slots: int, clip: bool) -> dict[Key, tuple]:
        """All that may be sampled: stack, action, reward, discount and next stack, by the frame acted on."""
        found = {}
        for episode in self.episodes:
            for t, number in enumerate(episode):
                if number not in self.closes:  # nothing was done on it
                    continue
                total, m, last = 0.0, 0, NOT_ENDED
                while m < n and last == NOT_ENDED and episode[t + m] in self.closes:
                    r = reward_of(episode[t + m])
                    total += GAMMA**m * (max(-1.0, min(1.0, r)) if clip else r)
                    last = self.closes[episode[t + m]]
                    m += 1
                whole = episode[max(t - stack + 1, 0)] > self.written - 1 - slots
                if whole and (m == n or last != NOT_ENDED):
                    discount = 0.0 if last == TERMINATED else GAMMA**m
                    found[self.lane, number] = (
                        self.stack(episode, t, stack), number % 100, total, discount, self.stack(episode, t + m, stack)
                    )  # fmt: skip
        return found


class Stream:
    """A tape and its tales, fed together."""

    def __init__(
        self, runs: int = 1, lanes: int = 1, slots: int = 1000, n: int = 1, stack: int = 4, device: str = "cpu"
    ):
        self.tape = Replay(spec(stack), runs, lanes, slots, n, GAMMA, torch.device(device))
        self.tales = [Tale(i) for i in range(runs * lanes)]
        self.tape.start(np.stack([tale.frame(True) for tale in self.tales]))

    def step(self, *events: tuple[int, bool]) -> None:
        """One step of every lane: how its return closes, and whether its episode ends."""
        acted = np.array([tale.written - 1 for tale in self.tales])
        for tale, number, (closes, _) in zip(self.tales, acted, events, strict=True):
            tale.closes[int(number)] = closes
        final = np.stack([tale.frame(False) for tale in self.tales])
        frame = [tale.frame(True) if e[1] else f for tale, f, e in zip(self.tales, final, events, strict=True)]
        rewards = np.array([reward_of(int(k)) for k in acted])
        closes, ended = (np.array(x) for x in zip(*events, strict=True))
        self.tape.add(acted % 100, Step(np.stack(frame), final, rewards, closes.astype(np.uint8), ended))

    def expected(self, run: int = 0, clip: bool = False) -> dict[Key, tuple]:
        tape, found = self.tape, {}
        for tale in self.tales[run * tape.lanes : (run + 1) * tape.lanes]:
            found |= tale.transitions(tape.n_step, tape.spec.stack, tape.slots, clip)
        return found

    def sampled(self, clip: bool = False) -> list[list[tuple[Key, tuple]]]:
        """By run: what a sweep of u over [0, 1) brings out, each transition equally often."""
        b = self.tape.sample(sweep(self.tape.size()), clip)
        return [
            [
                (read(o)[-1], (read(o), int(a), float(r), float(d), read(after)))
                for o, a, r, d, after in zip(*rows, strict=True)
            ]
            for rows in zip(b.obs, b.action, b.reward, b.discount, b.next_obs, strict=True)
        ]


def sweep(sizes: np.ndarray) -> torch.Tensor:
    """Uniforms that hit each of `sizes` (R,) equal parts of [0, 1) equally often: (R, B)."""
    count = 2 * int(np.lcm.reduce(np.maximum(sizes, 1)))
    return ((torch.arange(count, dtype=torch.float64) + 0.5) / count).expand(len(sizes), -1)


def check(stream: Stream, run: int = 0, clip: bool = False, all_of_them: bool = True) -> None:
    """What is sampled is exactly what the tale tells, transition by transition, and all of it equally often."""
    wanted, seen = stream.expected(run, clip), stream.sampled(clip)[run] if stream.tape.size().all() else []
    counts: dict[Key, int] = {}
    for key, (stack, action, reward, discount, after) in seen:
        assert key in wanted, f"{key} must not be sampled"
        assert (stack, action, reward, discount, after) == wanted[key]
        counts[key] = counts.get(key, 0) + 1
    assert len(set(counts.values())) <= 1, "not uniform"
    assert stream.tape.size()[run] == len(counts)
    assert not all_of_them or counts.keys() == wanted.keys()


def mixed(t: int, phase: int = 0) -> tuple[int, bool]:
    """Episodes and lives of many lengths, one and zero transitions between two ends among them."""
    kinds = list(ENDS.values())
    return kinds[(t * 7 + phase) % 3] if (t * t + phase * 5) % 11 in (0, 1, 4) else NOTHING
