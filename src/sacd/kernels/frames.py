"""From single frames on a tape to what a first convolution reads: stacked, in blocks of pixels, in its precision."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sacd.kernels import HAVE_TRITON, cpu


@dataclass(frozen=True)
class Stacks:
    """Observations whose frames still lie on a tape: who needs them gathers them in the form it needs."""

    tape: Tensor  # (slots, *frame)
    rows: Tensor  # (…, S) int64: the frames of each stack

    def gather(self) -> Tensor:
        """(…, S, *frame). Words move faster than bytes."""
        flat = self.tape.flatten(1)
        words = flat.view(torch.int64) if flat[0].nbytes % 8 == 0 else flat
        found = words.index_select(0, self.rows.flatten()).view(flat.dtype)
        return found.view(*self.rows.shape, *self.tape.shape[1:])

    def to(self, device: torch.device) -> "Stacks":
        """They are where their tape is."""
        assert self.tape.device == device
        return self

    def clone(self) -> "Stacks":
        """Rows of its own, on the same tape."""
        return Stacks(self.tape, self.rows.clone())


def blocks(tape: Tensor, rows: Tensor, block: int, crop: tuple[int, int], dtype: torch.dtype) -> Tensor:
    """Frames (X, H, W[, C]) at `rows` (…, S), cropped: (…, h/b, w/b, S*b*b*C), channels as in `cpu.stack_to_depth`."""
    if tape.is_cuda and HAVE_TRITON:
        from sacd.kernels import frames_triton  # noqa: PLC0415

        return frames_triton.blocks(tape, rows, block, crop, dtype)
    high, wide = tape.shape[1:3]
    stacks = tape.index_select(0, rows.flatten()).view(-1, rows.shape[-1], high, wide, tape[0].numel() // (high * wide))
    found = cpu.stack_to_depth(stacks[:, :, : crop[0], : crop[1]], block).to(dtype)
    return found.view(*rows.shape[:-1], *found.shape[1:])
