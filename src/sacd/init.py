"""First weights: a function of the run's seed, the same on every device and in every fleet."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sacd import rng
from sacd.layers import Layer


def first_weights(layers: Sequence[Layer], seeds: Tensor, names: Sequence[str], scheme: str) -> dict[str, Tensor]:
    """First weights (R, K, …), one stream a copy in `names`. Equal names give equal weights.

    He: normal with gain sqrt 2 over fan-in on every weight, heads included; biases and scheme `torch` are uniform
    within 1 / sqrt(fan-in), torch's default for both.
    """
    found = {}
    for i, layer in enumerate(layers):
        fan_in, size = math.prod(layer.shape[1:]), math.prod(layer.shape)
        zero, bound = torch.zeros(1, dtype=torch.int64, device=seeds.device), fan_in**-0.5
        weights, biases = [], []
        for name in names:
            label = f"init/{name}/{i}"
            if scheme == "he":
                w = rng.normal(seeds, f"{label}/weight", size) * math.sqrt(2.0 / fan_in)
            else:
                w = (rng.uniform(seeds, f"{label}/weight", zero, size)[:, 0] * 2 - 1) * bound
            b = (rng.uniform(seeds, f"{label}/bias", zero, layer.shape[0])[:, 0] * 2 - 1) * bound
            weights.append(w.view(-1, *layer.shape))
            biases.append(b)
        found[f"{i}.weight"] = torch.stack(weights, 1).float().contiguous()
        found[f"{i}.bias"] = torch.stack(biases, 1).float().contiguous()
    return found
