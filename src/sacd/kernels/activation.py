"""Activations, applied in place, and their adjoints."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

APPLY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "elu": F.elu_,
    "none": lambda x: x,
}
ADJOINT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # from the gradient and the activation's output
    "relu": lambda g, y: torch.ops.aten.threshold_backward.default(g, y, 0),
    "tanh": torch.ops.aten.tanh_backward.default,
    "elu": lambda g, y: torch.ops.aten.elu_backward.default(g, 1.0, 1.0, 1.0, True, y),
    "none": lambda g, y: g,
}
