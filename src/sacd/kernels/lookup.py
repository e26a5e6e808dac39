"""Sampled transitions on a tape, in NumPy: where they lie and what they returned. The reference of mirror_triton.py."""

import numpy as np
from numpy.typing import NDArray

from sacd.types import NOT_ENDED, TERMINATED


def places(u: NDArray, oldest: NDArray, spans: NDArray, order: NDArray) -> tuple[NDArray, NDArray]:
    """Lane and slot (R*B,) of the transitions at uniforms u (R, B): of each run's lanes, whose transitions begin with
    number `oldest` (L,) and are `spans` (R, E) many. `order` (L, slots) has each transition's slot."""
    reached, (runs, lanes) = spans.cumsum(1), spans.shape
    index = (u * reached[:, -1:]).astype(np.int64)  # (R, B)
    lane = (index[:, :, None] >= reached[:, None, :]).sum(-1) + np.arange(runs)[:, None] * lanes
    before = (reached - spans).ravel()  # transitions in the run's earlier lanes
    number = oldest[lane] + index - before[lane]
    lane = lane.ravel()
    return lane, order[lane, number.ravel() % order.shape[1]]


def returns(
    lane: NDArray, slot: NDArray, rewards: NDArray, closings: NDArray, weight: NDArray, clip: bool
) -> tuple[NDArray, NDArray, NDArray]:
    """n-step reward, discount, and the slot to bootstrap from; `weight` (n + 1,) are the powers of gamma."""
    slots, ahead = rewards.shape[1], np.arange(len(weight) - 1)
    at = lane[:, None] * slots + (slot[:, None] + ahead) % slots  # (N, n) on the flat tape
    closes = closings.ravel()[at]
    last = np.where(closes.any(1), (closes != NOT_ENDED).argmax(1), len(ahead) - 1)  # the last reward to sum
    reward = rewards.ravel()[at]
    total = ((reward.clip(-1, 1) if clip else reward) * (weight[:-1] * (ahead <= last[:, None]))).sum(1)
    alive = closes[np.arange(len(slot)), last] != TERMINATED
    return total, weight[last + 1] * alive, slot + last + 1
