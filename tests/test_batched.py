"""All nets as batched products against the same nets one after the other."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sacd import batched, config, nets
from sacd.init import first_weights
from sacd.types import Spec

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SEEDS, NAMES = torch.tensor([3, 8]), ("critic0", "critic1")
SPECS = [
    Spec((7,), False, 1, 5),
    Spec((84, 84), True, 4, 6),
    Spec((36, 36), True, 1, 3),
    Spec((90, 53, 3), True, 2, 4),  # pixels and places at the far edges that no kernel reaches
]


DTYPE = torch.float32 if DEVICE.type == "cuda" else torch.float64  # in float64 no unit near its kink changes sides


def both(spec: Spec):
    """The single nets and the batched ones with equal masters."""
    net = nets.build(spec, config.make("test", hidden=(33, 18)))
    tensors = {k: t.to(DTYPE) for k, t in first_weights(net.layers, SEEDS, NAMES, "he").items()}
    net = nets.Net(tuple(replace(layer, dtype=DTYPE) for layer in net.layers), net.image)
    together = batched.batched(net, spec.frame)
    moved = {k: t.to(DEVICE) for k, t in tensors.items()}
    return (net, nets.Weights(net.layers, tensors)), (together, together.weights(moved))


def observations(spec: Spec, batch: int = 3) -> Tensor:
    g, shape = torch.Generator().manual_seed(1), (len(SEEDS), batch, *spec.obs)
    return (
        torch.randint(1, 256, shape, generator=g, dtype=torch.uint8) if spec.image else torch.randn(shape, generator=g)
    )


@pytest.mark.parametrize("spec", SPECS)
def test_outputs_and_gradients(spec):
    """The same outputs and the same gradients of every master."""
    bound = 1e-2 if DEVICE.type == "cuda" else 1e-5
    (net, weights), (together, packed) = both(spec)
    obs = observations(spec)
    right, pull_right = net.vjp(weights, net.prepare(obs))
    found, pull = together.vjp(packed, together.prepare(obs.to(DEVICE)))
    torch.testing.assert_close(found.cpu(), right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together(packed, together.prepare(obs.to(DEVICE))), found)
    slopes = torch.randn(right.shape, generator=torch.Generator().manual_seed(2), dtype=DTYPE)
    each, stacked = pull_right(slopes), pull(slopes.to(DEVICE))
    assert [tuple(g.shape) for g in stacked] == [tuple(t.shape) for t in packed.tensors.values()]
    for i, (name, g) in enumerate(zip(packed.tensors, stacked, strict=True)):
        alone = torch.stack(each[i :: len(stacked)]).view(g.shape)
        error = (g.cpu() - alone).norm() / alone.norm()
        assert error < bound, f"{name}: {error}"
        assert g.dtype == torch.float32 and g.is_contiguous()


@pytest.mark.parametrize("spec", SPECS[:2])
def test_packed_tensors_keep_their_place(spec):
    """A refresh brings new masters into the same memory: a recorded update reads them there."""
    net = nets.build(spec, config.make("test", hidden=(33, 18), precision="bf16"))
    together = batched.batched(net, spec.frame)
    weights = together.weights({k: t.to(DEVICE) for k, t in first_weights(net.layers, SEEDS, NAMES, "he").items()})
    x = together.prepare(observations(spec).to(DEVICE))
    before, places = together(weights, x), [w.data_ptr() for pair in weights.packed for w in pair]
    for t in weights.tensors.values():
        t.mul_(1.5)
    weights.repack()
    for cast, master in zip(weights.casts(), weights.tensors.values(), strict=True):
        if cast is not None:  # as the optimiser does
            cast.copy_(master.flatten(0, 1))
    stepped = together(weights, x)
    assert not torch.allclose(stepped, before)
    weights.refresh()
    assert torch.equal(together(weights, x), stepped)
    assert [w.data_ptr() for pair in weights.packed for w in pair] == places


def test_unpack_is_the_adjoint_of_pack():
    """<pack w, g> = <w, unpack g> for the paper's three kernels."""
    net = nets.build(SPECS[1], config.make("test"))
    for layer in net.layers[:3]:
        w = torch.randn(2, *layer.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        g = torch.randn(2, *layer.shape, generator=torch.Generator().manual_seed(4)).view(2, -1, layer.outputs)
        packed, _ = batched.pack(layer, w, torch.zeros(2, layer.outputs))
        right = (w * batched.unpack(layer, g)).sum()
        torch.testing.assert_close((packed * g).sum().double(), right.double(), rtol=1e-5, atol=1e-3)
