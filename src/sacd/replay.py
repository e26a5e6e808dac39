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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sacd.kernels import lookup
from sacd.kernels.frames import Stacks
from sacd.types import NOT_ENDED, TERMINATED, TRUNCATED, Batch, Spec, Step

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
        self.frame = torch.empty((count, slots, *spec.frame), dtype=dtype, device=device)  # untouched pages are free
        self._tape = self.frame.flatten(0, 1)
        self.action = np.full((count, slots), -1, np.int16)
        self.reward = np.zeros((count, slots), np.float32)
        self.closes = np.zeros((count, slots), np.uint8)
        self.age = np.zeros((count, slots), np.uint8)  # frames since the episode's start, up to the stack's reach
        self.order = np.zeros((count, slots), np.int64)
        self.head = np.zeros(count, np.int64)  # the newest slot of each lane
        self.oldest = np.zeros(count, np.int64)  # the first transition whose stack is whole
        self.taken = np.zeros(count, np.int64)  # transitions so far
        self.open = np.zeros(count, np.int64)  # transitions since a return closed: their n steps may be missing
        self._lane, self._run = np.arange(count), np.arange(runs)[:, None]
        self._reach = spec.stack - 1 if spec.image else 0
        self._back = np.arange(self._reach, -1, -1)  # to the frames of a stack
        self._ahead = np.arange(n_step)  # to the rewards of a return
        self._weight = (gamma ** np.arange(n_step + 1)).astype(np.float32)
        self._mirror: lookup.Lookup | None = None
        if lookup.wanted(self.device):
            self._mirror = lookup.Lookup(count, slots, self.device)
            self._weights = torch.from_numpy(self._weight).to(self.device)

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
        """The newest observations (R, E, *obs)."""
        return self._stacks(self._lane, self.head, (self.runs, self.lanes))

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
            spans = self._spans()
            found = self._mirror.find(u, self.oldest, spans, self._weights, self._reach + 1, clip_reward)
            obs, next_obs = self._observations(found.rows), self._observations(found.after)
            return Batch(obs, found.action, found.reward, found.discount, next_obs)
        lane, slot = self._find(u.cpu().numpy())
        reward, discount, after = self._returns(lane, slot, clip_reward)
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
        self._tape.index_copy_(0, lookup.upload(rows, self.device), lookup.upload(frame, self.device))
        self.action[lanes, at], self.closes[lanes, at], self.age[lanes, at] = -1, NOT_ENDED, age
        return rows

    def _tell(self, rows: NDArray, places: NDArray = NOWHERE) -> None:
        """The mirror on a GPU: these slots, and these entries of `order`, were written."""
        if self._mirror is not None:
            columns = (getattr(self, k).ravel()[rows] for k in COLUMNS[1:])
            self._mirror.tell(rows, lookup.pack(*columns), places, self.order.ravel()[places])

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

    def _find(self, u: NDArray) -> tuple[NDArray, NDArray]:
        """Lane and slot (R*B,) of the transitions at uniforms u (R, B)."""
        spans = self._spans()
        reached = spans.cumsum(1)  # (R, E)
        index = (u * reached[:, -1:]).astype(np.int64)  # (R, B)
        lane = (index[:, :, None] >= reached[:, None, :]).sum(-1) + self._run * self.lanes
        before = (reached - spans).ravel()  # transitions in the run's earlier lanes
        number = self.oldest[lane] + index - before[lane]
        lane = lane.ravel()
        return lane, self.order[lane, number.ravel() % self.slots]

    def _returns(self, lane: NDArray, slot: NDArray, clip: bool) -> tuple[NDArray, NDArray, NDArray]:
        """n-step reward, discount, and the slot to bootstrap from."""
        at = lane[:, None] * self.slots + (slot[:, None] + self._ahead) % self.slots  # (N, n) on the flat tape
        closes = self.closes.ravel()[at]
        last = np.where(closes.any(1), (closes != NOT_ENDED).argmax(1), self.n_step - 1)  # the last reward to sum
        reward = self.reward.ravel()[at]
        weight = self._weight[:-1] * (self._ahead <= last[:, None])
        total = ((reward.clip(-1, 1) if clip else reward) * weight).sum(1)
        alive = closes[np.arange(len(slot)), last] != TERMINATED
        return total, self._weight[last + 1] * alive, slot + last + 1

    def _stacks(self, lane: NDArray, slot: NDArray, shape: Sequence[int]) -> Tensor | Stacks:
        """Observations (*shape, *obs) ending at these slots."""
        age = self.age[lane, slot % self.slots]
        rows = lane[:, None] * self.slots + (slot[:, None] - np.minimum(self._back, age[:, None])) % self.slots
        return self._observations(lookup.upload(rows, self.device).view(*shape, -1))

    def _observations(self, rows: Tensor) -> Tensor | Stacks:
        """Observations of stacks (…, S) of the tape; images on a GPU are left where they are."""
        found = Stacks(self._tape, rows)
        if self.spec.image and self.frame.is_cuda:
            return found
        return found.gather().view(*rows.shape[:-1], *self.spec.obs)

    def save(self, run: int, since: list[int]) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
        """A run's slots from number `since` (E,) on, lane by lane, and the counters that place them.

        The slot before is saved again: a cut may have closed its return since.
        """
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


def slots_for(spec: Spec, buffer_size: int, steps: int, lanes: int) -> int:
    """Ring size of a lane: no more than the run can fill, where every step of vectors or eighth of images is a last."""
    each = steps // lanes + 2
    return max(min(buffer_size // lanes, each + (each // 8 if spec.image else each)), 2 * spec.stack + 2)
