"""All nets as batched products against the same nets one after the other."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sacd import batched, config, nets
from sacd.init import first_weights
from sacd.kernels import adam
from sacd.optim import Adam
from sacd.types import Spec

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SEEDS, NAMES = torch.tensor([3, 8]), ("critic0", "critic1")
SPECS = [
    Spec((7,), False, 1, 5),
    Spec((84, 84), True, 4, 6),
    Spec((36, 36), True, 1, 3),
    Spec((90, 53, 3), True, 2, 4),  # pixels and places at the far edges that no kernel reaches
    Spec((31, 24), True, 2, 5),  # with the layers of OTHER
]
OTHER = {"conv_channels": (16, 32), "conv_kernels": (6, 2), "conv_strides": (3, 1), "dense": (64, 48)}


DTYPE = torch.float32 if DEVICE.type == "cuda" else torch.float64  # in float64 no unit near its kink changes sides


def both(spec: Spec):
    """The single nets and the batched ones with equal masters."""
    net = nets.build(spec, config.make("test", hidden=(33, 18), **(OTHER if spec.frame == (31, 24) else {})))
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
    each = pull_right(slopes)
    three = zip(pull(slopes.to(DEVICE)), packed.tensors.values(), packed.followers(), strict=True)
    stacked = [adam.dense(*of_one) for of_one in three]
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
    for follower, master in zip(weights.followers(), weights.tensors.values(), strict=True):
        if follower is not None:  # as the optimiser does
            follower.write(master)
    stepped = together(weights, x)
    assert not torch.allclose(stepped, before)
    weights.refresh()
    assert torch.equal(together(weights, x), stepped)
    assert [w.data_ptr() for pair in weights.packed for w in pair] == places


def test_pull_is_the_adjoint_of_pack():
    """<pack w, g> = <w, pull g> for the paper's three kernels, and what a follower writes is what was packed."""
    net = nets.build(SPECS[1], config.make("test"))
    weights = batched.batched(net, SPECS[1].frame).weights(first_weights(net.layers, SEEDS, NAMES, "he"))
    for i, (follower, master) in enumerate(zip(weights.followers(), weights.tensors.values(), strict=True)):
        if follower is None:
            assert i % 2 or i >= 6, "a kernel lies in another order"
            continue
        g = torch.randn(follower.tensor.shape, generator=torch.Generator().manual_seed(i)).double()
        right = (master.double() * follower.pull(g).view(master.shape)).sum()
        torch.testing.assert_close((follower.tensor * g).sum(), right, rtol=1e-5, atol=1e-4)
        packed = follower.tensor.clone()
        follower.tensor.fill_(float("nan"))
        follower.write(master)
        assert torch.equal(follower.tensor, packed)


def test_a_step_in_bfloat16_writes_every_copy():
    """Adam brings masters and packed copies along, from sums, products and kernels in another order."""
    net = nets.build(SPECS[1], config.make("test", precision="bf16"))
    together = batched.batched(net, SPECS[1].frame)
    weights = together.weights({k: t.to(DEVICE) for k, t in first_weights(net.layers, SEEDS, NAMES, "he").items()})
    optimiser = Adam(weights.tensors, weights.split, 1e-8, weights.followers())
    out, pull = together.vjp(weights, together.prepare(observations(SPECS[1]).to(DEVICE)))
    before = {k: t.clone() for k, t in weights.tensors.items()}
    optimiser.step(pull(torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)), 0.01)
    stepped = [w.clone() for pair in weights.packed for w in pair]
    assert all((t - before[k]).abs().max() > 0.005 for k, t in weights.tensors.items())
    weights.refresh()
    assert all(torch.equal(a, b) for a, b in zip(stepped, (w for pair in weights.packed for w in pair), strict=True))
