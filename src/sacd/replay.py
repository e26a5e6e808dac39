"""Single-frame tape: every observation is stored once, as one frame; stacks and next observations are views into it.

A lane's tape is a ring of slots. A slot holds a frame and what followed it: action, raw reward, how the return closed.
The last frame of an episode has a slot of its own without an action, so the next observation of a transition is always
the next slot: at a truncation that is the true final frame, never the reset one. Slots are numbered from 0 for ever;
slot s lies at s modulo the ring's size.

    stack of slot s          frames s-3 … s, the episode's first frame repeated before its start
    transition j             the j-th slot with an action; `order` finds it
    n-step from slot s       sums rewards until n are reached or the return closes, and bootstraps there;
                             discount gamma^m, or 0 after a terminal state

A transition may be sampled when its whole stack is still on the tape and its bootstrap frame is already there. The
sampled index is uniform over exactly those.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sacd.kernels import lookup, mirror
from sacd.kernels.frames import Stacks
from sacd.types import NOT_ENDED, TRUNCATED, Batch, Spec, Step

COLUMNS = ("frame", "action", "reward", "closes", "age")  # what a slot holds
NOWHERE = np.empty(0, np.int64)


class Replay:
    """The tapes of R runs of E lanes: L = R * E lanes, run by run."""

    def __init__(
        self,
        spec: Spec,
        runs: int,
        lanes: int,
        slots: int,
        n_step: int = 1,
        gamma: float = 0.99,
        device: torch.device | None = None,
    ):
        self.spec, self.runs, self.lanes, self.slots = spec, runs, lanes, slots
        self.n_step, self.gamma, self.device = n_step, gamma, device or torch.device("cpu")
        count = runs * lanes
        dtype = torch.uint8 if spec.image else torch.float32
        self._tape = torch.empty((count * slots + 1, *spec.frame), dtype=dtype, device=device)  # the last is nowhere
        self.frame = self._tape[:-1].view(count, slots, *spec.frame)  # untouched pages are free
        self.action = np.full((count, slots), -1, np.int16)
        self.reward = np.zeros((count, slots), np.float32)
        self.closes = np.zeros((count, slots), np.uint8)
        self.age = np.zeros((count, slots), np.uint8)  # frames since the episode's start, up to the stack's reach
        self.order = np.zeros((count, slots), np.int64)
        self.head = np.zeros(count, np.int64)  # the newest slot of each lane
        self.oldest = np.zeros(count, np.int64)  # the first transition whose stack is whole
        self.taken = np.zeros(count, np.int64)  # transitions so far
        self.open = np.zeros(count, np.int64)  # transitions since a return closed: their n steps may be missing
        self._lane = np.arange(count)
        self._reach = spec.stack - 1 if spec.image else 0
        self._back = np.arange(self._reach, -1, -1)  # to the frames of a stack
        self._weight = (gamma ** np.arange(n_step + 1)).astype(np.float32)
        self._mirror: mirror.Mirror | None = None
        if mirror.wanted(self.device):
            self._mirror = mirror.Mirror(self._tape, runs, lanes, slots, self._reach + 1, self._weight)
        self._settled = False

    def start(self, frame: NDArray) -> None:
        """The first frames of all lanes."""
        self.head[:] = 0
        self._tell(self._write(self._lane, frame, np.zeros(len(self._lane), np.uint8)))

    def add(self, action: NDArray, step: Step) -> None:
        """What followed the newest frames, and the frames after that."""
        at = self.head % self.slots
        self.action[self._lane, at], self.reward[self._lane, at] = action, step.reward
        self.closes[self._lane, at] = step.closes
        place = self.taken % self.slots
        self.order[self._lane, place] = self.head
        self.taken += 1
        self.open = np.where(step.closes == NOT_ENDED, self.open + 1, 0)
        older = np.minimum(self.age[self._lane, at] + 1, self._reach).astype(np.uint8)
        self.head += 1
        changed = [self._lane * self.slots + at, self._write(self._lane, step.final, older)]
        if step.ended.any():
            over = self._lane[step.ended]
            self.head[over] += 1
            changed.append(self._write(over, step.frame[over], np.zeros(len(over), np.uint8)))
        self._tell(np.concatenate(changed), self._lane * self.slots + place)
        self._forget()

    def cut(self, lane: int, frame: NDArray) -> None:
        """A lane's episode cannot go on: its last transition becomes a truncation and `frame` starts another."""
        if self.taken[lane]:
            last = self.order[lane, (self.taken[lane] - 1) % self.slots] % self.slots
            if self.closes[lane, last] == NOT_ENDED:
                self.closes[lane, last] = TRUNCATED
                self._tell(np.array([lane * self.slots + last]))
        self.open[lane] = 0
        self.head[lane] += 1
        self._tell(self._write(self._lane[[lane]], frame[None], np.zeros(1, np.uint8)))
        self._forget()

    def observe(self) -> Tensor | Stacks:
        """The newest observations (R, E, *obs). On a GPU they change in place."""
        if self._mirror is not None:
            self.settle()
            return self._on_tape(self._mirror.seen)
        return self._stacks(self._lane, self.head, (self.runs, self.lanes))

    def settle(self) -> None:
        """Have everything where it belongs, also on a GPU, where writes may wait."""
        if self._mirror is not None and not self._settled:
            self._mirror.settle(self.oldest, self._spans(), self._rows(self._lane, self.head))
            self._settled = True

    def hasten(self, record: mirror.Record) -> None:
        """From here on what runs on a GPU is recorded and replayed."""
        if self._mirror is not None:
            self._mirror.hasten(record)

    @property
    def sampled_on(self) -> torch.device:
        """Where `sample` wants its uniforms."""
        return self.device if self._mirror is not None else torch.device("cpu")

    def size(self) -> NDArray:
        """Transitions that may be sampled, by run (R,)."""
        return self._spans().sum(1)

    def sample(self, u: Tensor, clip_reward: bool) -> Batch:
        """Transitions at uniforms u (R, B) in [0, 1), drawn where `sampled_on` says.

        Where that is a GPU, they are overwritten by the next call.
        """
        if self._mirror is not None:
            self.settle()
            found = self._mirror.find(u, clip_reward)
            if self.spec.image:
                return found
            return replace(found, obs=self._on_tape(found.obs), next_obs=self._on_tape(found.next_obs))
        lane, slot = lookup.places(u.cpu().numpy(), self.oldest, self._spans(), self.order)
        reward, discount, after = lookup.returns(lane, slot, self.reward, self.closes, self._weight, clip_reward)
        shape = tuple(u.shape)
        return Batch(
            self._stacks(lane, slot, shape),
            torch.from_numpy(self.action[lane, slot % self.slots].astype(np.int64)).view(shape),
            torch.from_numpy(reward).view(shape),
            torch.from_numpy(discount).view(shape),
            self._stacks(lane, after, shape),
        )

    def _write(self, lanes: NDArray, frame: NDArray, age: NDArray) -> NDArray:
        """Frames into these lanes' newest slots, which nothing has followed yet; where those lie."""
        at = self.head[lanes] % self.slots
        rows = lanes * self.slots + at
        if self._mirror is not None:
            self._mirror.put(rows, frame)
        else:
            self._tape.index_copy_(0, self._on_device(rows), torch.from_numpy(frame).to(self.device))
        self.action[lanes, at], self.closes[lanes, at], self.age[lanes, at] = -1, NOT_ENDED, age
        return rows

    def _tell(self, rows: NDArray, places: NDArray = NOWHERE) -> None:
        """The half on a GPU: these slots, and these entries of `order`, were written."""
        self._settled = False
        if self._mirror is not None:
            columns = (getattr(self, k).ravel()[rows] for k in COLUMNS[1:])
            self._mirror.tell(rows, mirror.pack(*columns), places, self.order.ravel()[places])

    def _forget(self) -> None:
        """Move `oldest` past transitions whose stack begins before the tape does."""
        first = self.head + 1 - self.slots  # the oldest slot that is still there
        while (first > 0).any():
            slot = self.order[self._lane, self.oldest % self.slots]
            begin = slot - self.age[self._lane, slot % self.slots]  # its stack's first slot
            gone = (self.oldest < self.taken) & (begin < first)
            if not gone.any():
                return
            self.oldest += gone

    def _spans(self) -> NDArray:
        """Transitions that may be sampled, (R, E)."""
        ready = self.taken - np.minimum(self.open, self.n_step - 1)
        return np.maximum(ready - self.oldest, 0).reshape(self.runs, self.lanes)

    def _stacks(self, lane: NDArray, slot: NDArray, shape: Sequence[int]) -> Tensor | Stacks:
        """Observations (*shape, *obs) ending at these slots."""
        return self._on_tape(Stacks(self._tape, self._on_device(self._rows(lane, slot)).view(*shape, -1)))

    def _rows(self, lane: NDArray, slot: NDArray) -> NDArray:
        """The tape's frames of the stacks that end at these slots (N, S)."""
        age = self.age[lane, slot % self.slots]
        return lane[:, None] * self.slots + (slot[:, None] - np.minimum(self._back, age[:, None])) % self.slots

    def _on_device(self, index: NDArray) -> Tensor:
        return torch.from_numpy(index).to(self.device)

    def _on_tape(self, found: Any) -> Tensor | Stacks:
        """Observations; images on a GPU are left where they are."""
        if self.spec.image and self._mirror is not None:
            return found
        return found.gather().view(*found.rows.shape[:-1], *self.spec.obs)

    def save(self, run: int, since: list[int]) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
        """A run's slots from number `since` (E,) on, lane by lane, and the counters that place them.

        The slot before is saved again: a cut may have closed its return since.
        """
        self.settle()
        mine = self._lane[run * self.lanes : (run + 1) * self.lanes]
        chunk = {}
        for lane, first in zip(mine, since, strict=True):
            numbers = np.arange(max(first - 1, self.head[lane] + 1 - self.slots, 0), self.head[lane] + 1)
            for column in COLUMNS:
                held = torch.as_tensor(getattr(self, column)[lane])
                chunk[f"{lane - mine[0]}.{column}"] = held[torch.from_numpy(numbers % self.slots).to(held.device)].cpu()
            chunk[f"{lane - mine[0]}.first"] = torch.tensor([numbers[0]])
        counters = {k: getattr(self, k)[mine].tolist() for k in ("head", "oldest", "taken", "open")}
        return chunk, counters

    def load(self, run: int, chunks: Iterable[dict[str, Tensor]], counters: dict[str, list[int]]) -> None:
        """Lay saved chunks back, oldest first; later ones correct the slots they share."""
        self.settle()
        mine = range(run * self.lanes, (run + 1) * self.lanes)
        for chunk in chunks:
            for e, lane in enumerate(mine):
                first = int(chunk[f"{e}.first"])
                at = torch.arange(first, first + len(chunk[f"{e}.action"])) % self.slots
                for column in COLUMNS:
                    place = torch.as_tensor(getattr(self, column)[lane])
                    place[at.to(place.device)] = chunk[f"{e}.{column}"].to(place.device)
        for e, lane in enumerate(mine):
            for k, values in counters.items():
                getattr(self, k)[lane] = values[e]
            held = np.arange(max(0, self.head[lane] + 1 - self.slots), self.head[lane] + 1)
            acted = held[self.action[lane, held % self.slots] >= 0]
            numbers = np.arange(self.taken[lane] - len(acted), self.taken[lane])
            self.order[lane, numbers % self.slots] = acted
            self._tell(lane * self.slots + held % self.slots, lane * self.slots + numbers % self.slots)
