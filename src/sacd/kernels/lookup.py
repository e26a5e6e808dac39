"""Where sampled transitions lie, found in GPU memory: what a tape's slots hold besides frames, mirrored there.

The tape keeps these columns on the host, where NumPy reads them (replay.py, which is the reference). A fleet samples
thousands of transitions at once; looked up here, in one kernel, its host does nothing but begin it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sacd.kernels import HAVE_TRITON


@dataclass(frozen=True)
class Found:
    """Transitions (R, B): frames of their stacks (R, B, S), and all that a loss needs of them."""

    rows: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    after: Tensor  # frames of the stacks to bootstrap from


def wanted(device: torch.device) -> bool:
    """Whether a tape on this device has its columns mirrored there."""
    return HAVE_TRITON and device.type == "cuda"


def upload(array: NDArray, device: torch.device) -> Tensor:
    """An array's values on the device; a GPU takes them when it comes to it, and nobody waits."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def pack(action: NDArray, reward: NDArray, closes: NDArray, age: NDArray) -> NDArray:
    """A slot's columns as one 64-bit number each: reward, action, closes, age from the top."""
    low = (action.astype(np.int64) & 0xFFFF) << 16 | closes.astype(np.int64) << 8 | age
    return reward.astype(np.float32).view(np.int32).astype(np.int64) << 32 | low


class Lookup:
    """The mirror of L lanes' columns, and of `order`."""

    def __init__(self, lanes: int, slots: int, device: torch.device):
        self.slots, self.device = slots, device
        self.marks = torch.empty((2, lanes * slots), dtype=torch.int64, device=device)  # packed slots, order
        self._found: dict[tuple[int, ...], Found] = {}

    def tell(self, rows: NDArray, packed: NDArray, places: NDArray, order: NDArray) -> None:
        """Slots at `rows`, and entries of `order` at `places`, have these values now."""
        where = np.concatenate([rows, places + self.marks.shape[1]])
        given = upload(np.stack([where, np.concatenate([packed, order])]), self.device)
        self.marks.view(-1).index_copy_(0, given[0], given[1])

    def find(
        self, u: Tensor, oldest: NDArray, spans: NDArray, weight: Tensor, stack: int, clip: bool
    ) -> Found:  # fmt: skip
        """Transitions at uniforms u (R, B), of `spans` (R, E) that begin with number `oldest`. What is found is
        overwritten by the next call."""
        from sacd.kernels import lookup_triton  # noqa: PLC0415

        found = self._found.setdefault(tuple(u.shape), self._empty(u.shape, stack))
        limits = upload(np.stack([oldest, spans.ravel()]), self.device)
        lookup_triton.find(u, limits, self.marks, weight, self.slots, spans.shape[1], clip, found)
        return found

    def _empty(self, shape: torch.Size, stack: int) -> Found:
        def new(dtype: torch.dtype, *more: int) -> Tensor:
            return torch.empty((*shape, *more), dtype=dtype, device=self.device)

        rows, action, after = new(torch.int64, stack), new(torch.int64), new(torch.int64, stack)
        return Found(rows, action, new(torch.float32), new(torch.float32), after)
