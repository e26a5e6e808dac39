"""One program looks up some transitions of one run: lane and slot, the n-step return, both stacks' frames."""

from typing import TYPE_CHECKING

import triton
import triton.language as tl
from torch import Tensor

from sacd.types import NOT_ENDED, TERMINATED

if TYPE_CHECKING:
    from sacd.kernels.lookup import Found

MOST = 64  # transitions of a program


@triton.jit
def _stack(marks, rows, at, lane, slot, inside, SLOTS: tl.constexpr, S: tl.constexpr):
    """The frames that end at `slot`, the episode's first repeated before its start."""
    age = tl.load(marks + lane * SLOTS + slot % SLOTS, mask=inside, other=0) & 255
    for s in tl.static_range(S):
        row = lane * SLOTS + (slot - tl.minimum(age, S - 1 - s)) % SLOTS
        tl.store(rows + at * S + s, row, mask=inside)


@triton.jit
def _find(
    u, limits, marks, weight, rows, action, reward, discount, after, lanes, size, B,
    E: tl.constexpr, SLOTS: tl.constexpr, N: tl.constexpr, S: tl.constexpr, CLIP: tl.constexpr,
    NOT_ENDED: tl.constexpr, TERMINATED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, at = b < B, run * B + b

    total = tl.zeros((), tl.int64)
    for e in range(E):
        total += tl.load(limits + lanes + run * E + e)
    index = (tl.load(u + at, mask=inside, other=0.0) * total).to(tl.int64)
    lane, before, reached = run * E + b * 0, tl.zeros((BLOCK,), tl.int64), tl.zeros((), tl.int64)
    for e in range(E):  # the transition's lane, and how many lie in the lanes before it
        span = tl.load(limits + lanes + run * E + e)
        reached += span
        lane += (index >= reached).to(tl.int64)
        before += tl.where(index >= reached, span, 0)
    lane = tl.minimum(lane, run * E + E - 1)  # what is outside must not be read outside
    number = tl.load(limits + lane) + index - before
    slot = tl.load(marks + size + lane * SLOTS + number % SLOTS, mask=inside, other=0)

    found, open_, last = tl.zeros((BLOCK,), tl.float32), inside, tl.zeros((BLOCK,), tl.int64)
    alive = tl.full((BLOCK,), 1.0, tl.float32)
    for k in tl.static_range(N):
        held = tl.load(marks + lane * SLOTS + (slot + k) % SLOTS, mask=inside, other=0)
        closes, gain = (held >> 8) & 255, (held >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        if k == 0:
            tl.store(action + at, (held >> 16) & 65535, mask=inside)
        if CLIP:
            gain = tl.minimum(tl.maximum(gain, -1.0), 1.0)
        found += tl.where(open_, gain * tl.load(weight + k), 0.0)
        last = tl.where(open_, k, last)
        alive = tl.where(open_ & (closes == TERMINATED), 0.0, alive)
        open_ = open_ & (closes == NOT_ENDED)
    tl.store(reward + at, found, mask=inside)
    tl.store(discount + at, tl.load(weight + last + 1) * alive, mask=inside)
    _stack(marks, rows, at, lane, slot, inside, SLOTS, S)
    _stack(marks, after, at, lane, slot + last + 1, inside, SLOTS, S)


def find(
    u: Tensor, limits: Tensor, marks: Tensor, weight: Tensor, slots: int, lanes: int, clip: bool, found: "Found"
) -> None:
    """See lookup.py: `limits` are the first transition and the number of each lane, `lanes` those of a run."""
    runs, count = u.shape
    block = min(triton.next_power_of_2(count), MOST)
    _find[(runs, triton.cdiv(count, block))](
        u, limits, marks, weight, found.rows, found.action, found.reward, found.discount, found.after,
        runs * lanes, marks.shape[1], count, E=lanes, SLOTS=slots, N=len(weight) - 1, S=found.rows.shape[-1], CLIP=clip,
        NOT_ENDED=NOT_ENDED, TERMINATED=TERMINATED, BLOCK=block,
    )  # fmt: skip
