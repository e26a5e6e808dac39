"""A tape's other half, in GPU memory: frames are written behind, and sampled transitions are looked up there.

The tape decides on the host what lies where (replay.py). What it writes is gathered in pinned memory and carried over
in one go, whose size never changes: it can be recorded and replayed, and the host does nothing but begin it. The same
holds for looking up transitions in the columns that are mirrored here (lookup.py is the reference).
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sacd.kernels import HAVE_TRITON
from sacd.kernels.frames import Stacks
from sacd.types import Batch

FRAMES, MARKS = 2, 4  # most writes of a lane in one go: a last frame and a first; their slots, the one before, `order`
Record = Callable[[Callable], Callable]


def wanted(device: torch.device) -> bool:
    """Whether a tape on this device has another half."""
    return HAVE_TRITON and device.type == "cuda"


def pack(action: NDArray, reward: NDArray, closes: NDArray, age: NDArray) -> NDArray:
    """A slot's columns as one 64-bit number each: reward, action, closes, age from the top."""
    low = (action.astype(np.int64) & 0xFFFF) << 16 | closes.astype(np.int64) << 8 | age
    return reward.astype(np.float32).view(np.int32).astype(np.int64) << 32 | low


class Mirror:
    """The half of L lanes. `tape` has one frame, and `marks` one number, more than there are: writes to nowhere."""

    def __init__(self, tape: Tensor, runs: int, lanes: int, slots: int, stack: int, weight: NDArray):
        self.tape, self.slots, self.device = tape, slots, tape.device
        self.lanes, count = lanes, runs * lanes
        self.marks = torch.empty(2 * count * slots + 1, dtype=torch.int64, device=self.device)  # packed slots, order
        self.weight = torch.from_numpy(weight).to(self.device)
        sizes = (FRAMES * count, MARKS * count, MARKS * count, 2 * count, count * stack)
        cuda = self.device.type == "cuda"
        given = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=cuda)
        frames = torch.empty((FRAMES * count, *tape.shape[1:]), dtype=tape.dtype, pin_memory=cuda)
        self._from, self._to = (given, frames), (given.to(self.device), frames.to(self.device))
        self._rows, self._places, self._values, self._limits, self._seen = (t.numpy() for t in given.split(sizes))
        self._frames = frames.numpy()
        self._on_device = self._to[0].split(sizes)
        self.seen = Stacks(tape, self._on_device[-1].view(runs, lanes, stack))  # the newest observations
        self._carried = torch.cuda.Event() if cuda else None
        self._waiting = [0, 0]  # frames and marks
        self._found: dict[tuple[int, ...], Batch] = {}
        self._finders: dict[bool, Callable] = {}
        self.record: Record = lambda function: function
        self._write = self._carry

    def hasten(self, record: Record) -> None:
        """From here on what runs on the GPU is recorded and replayed."""
        self.record, self._write, self._finders = record, record(self._carry), {}

    def put(self, rows: NDArray, frames: NDArray) -> None:
        """Frames for these rows of the tape."""
        if self._waiting[0] + len(rows) > len(self._rows):
            self._send()
        self._wait()
        begin, end = self._waiting[0], self._waiting[0] + len(rows)
        self._rows[begin:end], self._frames[begin:end], self._waiting[0] = rows, frames, end

    def tell(self, rows: NDArray, packed: NDArray, places: NDArray, order: NDArray) -> None:
        """Slots at `rows`, and entries of `order` at `places`, have these values now."""
        where, values = np.concatenate([rows, places + len(self.marks) // 2]), np.concatenate([packed, order])
        if len(where) > len(self._places):  # a loaded tape's
            self.marks[torch.from_numpy(where).to(self.device)] = torch.from_numpy(values).to(self.device)
            return
        if self._waiting[1]:  # perhaps other values of the same slots, and in one go there is no order
            self._send()
        self._wait()
        self._places[: len(where)], self._values[: len(where)], self._waiting[1] = where, values, len(where)

    def settle(self, oldest: NDArray, spans: NDArray, seen: NDArray) -> None:
        """Carry over what waits, and what the tape holds now: each lane's first transition and their number, and the
        frames (L, S) of its newest stack."""
        self._wait()
        self._limits[:], self._seen[:] = np.concatenate([oldest, spans.ravel()]), seen.ravel()
        self._send()

    def find(self, u: Tensor, clip: bool) -> Batch:
        """Transitions at uniforms u (R, B) as things were last settled. The next call overwrites what it found."""
        if clip not in self._finders:
            self._finders[clip] = self.record(partial(self._find, clip))
        found: Batch = self._finders[clip](None, u)
        return found

    def _find(self, clip: bool, state: None, u: Tensor) -> Batch:
        from sacd.kernels import mirror_triton  # noqa: PLC0415

        found = self._found.get(tuple(u.shape)) or self._found.setdefault(tuple(u.shape), self._empty(u.shape))
        mirror_triton.find(
            u.contiguous(), self._on_device[3], self.marks, self.weight, self.slots, self.lanes, clip, found
        )
        return found

    def _wait(self) -> None:
        """Until what was sent before has left the host's memory."""
        if self._carried is not None:
            self._carried.synchronize()

    def _send(self) -> None:
        frames, marks = self._waiting
        self._rows[frames:], self._places[marks:] = len(self.tape) - 1, len(self.marks) - 1
        self._write(None)
        if self._carried is not None:
            self._carried.record()
        self._waiting = [0, 0]

    def _carry(self, state: None) -> None:
        """All that waits, over to the GPU and to where it belongs."""
        for to, given in zip(self._to, self._from, strict=True):
            to.copy_(given, non_blocking=True)
        rows, places, values, *_ = self._on_device
        self.tape.index_copy_(0, rows, self._to[1])
        self.marks.index_copy_(0, places, values)

    def _empty(self, shape: torch.Size) -> Batch:
        """Where so many transitions are laid, always the same."""

        def new(dtype: torch.dtype, *more: int) -> Tensor:
            return torch.empty((*shape, *more), dtype=dtype, device=self.device)

        obs, after = (Stacks(self.tape, new(torch.int64, self.seen.rows.shape[-1])) for _ in range(2))
        return Batch(obs, new(torch.int64), new(torch.float32), new(torch.float32), after)
