"""Frames in blocks, by the reference and by the kernel, against indices written out."""

import pytest
import torch

from sacd.kernels import HAVE_TRITON, frames

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASES = [
    ((84, 84), 4, 4, (84, 84)),
    ((36, 36), 1, 2, (36, 36)),
    ((53, 41, 3), 2, 4, (52, 36)),
    ((9, 12), 3, 1, (8, 11)),
]


def given(shape: tuple[int, ...], stack: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    tape = torch.randint(0, 256, (7, *shape), generator=g, dtype=torch.uint8)
    return tape.to(DEVICE), torch.randint(0, 7, (2, 3, stack), generator=g).to(DEVICE)


def check(blocks, case: tuple) -> None:
    """Channel (s, y, x, colour) of block (i, j) is the pixel at (block i + y, block j + x) of frame s."""
    shape, stack, block, crop = case
    tape, rows = given(shape, stack)
    found = blocks(tape, rows, block, crop, torch.float32)
    images = tape[rows].reshape(2, 3, stack, *shape[:2], -1)
    colours = images.shape[-1]
    assert found.shape == (2, 3, crop[0] // block, crop[1] // block, stack * block * block * colours)
    split = found.view(2, 3, crop[0] // block, crop[1] // block, stack, block, block, colours)
    for y in range(block):
        for x in range(block):
            right = images[:, :, :, y : crop[0] : block, x : crop[1] : block]
            right = right[:, :, :, : crop[0] // block, : crop[1] // block]
            assert torch.equal(split[..., y, x, :].permute(0, 1, 4, 2, 3, 5), right.float())


@pytest.mark.parametrize("case", CASES)
def test_blocks(case):
    """As this device does it."""
    check(frames.blocks, case)


@pytest.mark.skipif(not HAVE_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("case", CASES)
def test_triton_blocks(case):
    """The kernel, in Triton's interpreter where there is no GPU."""
    from sacd.kernels import frames_triton

    check(frames_triton.blocks, case)
