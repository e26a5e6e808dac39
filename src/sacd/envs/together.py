"""Lanes of several environments side by side, as if they were of one: a fleet that plays different games.

All emulators get their actions before the first is waited for. An error names the lanes it came from, so that the
others can go on without them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sacd.errors import EnvError, blaming
from sacd.types import Spec, Step

if TYPE_CHECKING:
    from sacd.envs.pool import Lanes


class Together:
    """Lanes one after the other: those of part p have the numbers starts[p] … starts[p + 1] - 1."""

    def __init__(self, parts: "Sequence[Lanes]", counts: Sequence[int]):
        self.parts, self.starts = parts, [0, *np.cumsum(counts).tolist()]
        self.spec = widest([part.spec for part in parts])
        self.parked: set[int] = set()  # parts that stand still

    def reset(self, seeds: dict[int, int | None], first: bool = False) -> NDArray:
        """Start the lanes in `seeds` anew; the frames of all lanes."""
        if first:  # a seeded reset takes an emulator a tenth of a second
            with ThreadPoolExecutor(len(self.parts)) as threads:
                found = threads.map(
                    lambda part, mine: part.reset(mine, first=True), self.parts, split(seeds, self.starts)
                )
                self.frame = np.concatenate(list(found))
            return self.frame
        frame = self.frame.copy()
        for p, mine in enumerate(split(seeds, self.starts)):
            if mine:
                frame[self.starts[p] : self.starts[p + 1]] = self.parts[p].reset(mine)
        self.frame = frame
        return frame

    def send(self, actions: NDArray, seeds: dict[int, int]) -> None:
        """Begin a step everywhere but in parked parts."""
        for p, (part, mine) in enumerate(zip(self.parts, split(seeds, self.starts), strict=True)):
            if p not in self.parked:
                part.send(actions[self.starts[p] : self.starts[p + 1]], mine)

    def recv(self) -> Step:
        """Finish it everywhere."""
        steps = []
        for p, part in enumerate(self.parts):
            with blaming(range(self.starts[p], self.starts[p + 1])):
                steps.append(self._still(p) if p in self.parked else part.recv())
        reward, closes, ended = (np.concatenate([getattr(s, k) for s in steps]) for k in ("reward", "closes", "ended"))
        self.frame = np.concatenate([s.frame for s in steps])
        final = np.concatenate([s.final for s in steps]) if ended.any() else self.frame
        return Step(self.frame, final, reward, closes, ended)

    def close(self) -> None:
        for part in self.parts:
            part.close()

    def _still(self, part: int) -> Step:
        """What a parked part answers."""
        count = self.starts[part + 1] - self.starts[part]
        frame = self.frame[self.starts[part] : self.starts[part + 1]]
        return Step(frame, frame, np.zeros(count), np.zeros(count, np.uint8), np.zeros(count, bool))


def split(seeds: dict[int, Any], starts: Sequence[int]) -> list[dict[int, Any]]:
    """Each part's share, by its own numbers."""
    shares: list[dict[int, Any]] = [{} for _ in starts[1:]]
    for lane, seed in seeds.items():
        p = bisect_right(starts, lane) - 1
        shares[p][lane - starts[p]] = seed
    return shares


def widest(specs: Sequence[Spec]) -> Spec:
    """What a fleet of these sees, with the most actions of any."""
    first = specs[0]
    for spec in specs[1:]:
        if replace(spec, actions=0, action_start=0) != replace(first, actions=0, action_start=0):
            raise EnvError(f"environments with observations {first.obs} and {spec.obs} cannot be trained as one fleet.")
    return replace(first, actions=max(spec.actions for spec in specs), action_start=0)
