"""Networks with their explicit backward pass against ordinary autograd ones, and first weights."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sacd import config, nets
from sacd.errors import EnvError, UsageError
from sacd.init import first_weights
from sacd.layers import Conv
from sacd.nets import Net, Weights
from sacd.optim import Adam
from sacd.types import Spec

MLP = Spec((7,), False, 1, 5)
ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "elu": F.elu, "none": lambda x: x}
IMAGES = [Spec((84, 84), True, 4, 6), Spec((36, 36), True, 1, 3), Spec((37, 50, 3), True, 2, 4)]
CASES = [(MLP, {"activation": a, "hidden": (33, 18)}) for a in ("relu", "tanh", "elu")] + [(s, {}) for s in IMAGES]
OTHER = {"conv_channels": (16, 32), "conv_kernels": (6, 2), "conv_strides": (3, 1), "dense": (64, 48)}
CASES.append((Spec((31, 24), True, 2, 5), OTHER))
NAMES = ("critic0", "critic1")


def seeds(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def make(spec: Spec, values: dict, dtype: torch.dtype | None = None) -> tuple[Net, Weights]:
    """A net and its weights for two runs of two copies; `dtype` for all layers and the masters if given."""
    net = nets.build(spec, config.make("test", **values))
    tensors = first_weights(net.layers, seeds(3, 8), NAMES, "he")
    if dtype is not None:
        net = Net(tuple(replace(layer, dtype=dtype) for layer in net.layers), net.image)
        tensors = {k: t.to(dtype) for k, t in tensors.items()}
    return net, Weights(net.layers, tensors)


def observations(spec: Spec, batch: int = 3) -> Tensor:
    """Observations (2, batch, *obs): bytes for images, normal numbers for vectors."""
    generator = torch.Generator().manual_seed(1)
    if spec.image:
        return torch.randint(1, 256, (2, batch, *spec.obs), generator=generator, dtype=torch.uint8)
    return torch.randn(2, batch, *spec.obs, generator=generator)


def slopes(shape: torch.Size) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def ordinary(net: Net, leaves: list[Tensor], obs: Tensor) -> Tensor:
    """One plain network in float64: torch's strided conv2d on pixels / 255, channels first, then linear layers."""
    x = obs.double()
    if net.image:
        x = (x.unsqueeze(-1) if x.ndim == 4 else x).permute(0, 1, 4, 2, 3).flatten(1, 2) / 255
    for layer, weight, bias in zip(net.layers, leaves[::2], leaves[1::2], strict=True):
        if isinstance(layer, Conv):
            x = F.conv2d(x, weight, bias, stride=layer.stride)
        else:
            x = x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x  # units are numbered with channels last
            x = F.linear(x, weight, bias)
        x = ACTIVATIONS[layer.activation](x)
    return x


def reference(net: Net, weights: Weights, obs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Outputs (R, K, B, A) and all gradients for `slopes`, by autograd, net after net."""
    outputs, gradients = [], []
    shape = torch.Size((weights.runs, weights.copies, obs.shape[1], net.layers[-1].outputs))
    for i, pairs in enumerate(weights.nets):
        r, k = divmod(i, weights.copies)
        leaves = [t.to(torch.float64, copy=True).requires_grad_() for pair in pairs for t in pair]
        y = ordinary(net, leaves, obs[r])
        gradients += torch.autograd.grad(y, leaves, slopes(shape)[r, k].double())
        outputs.append(y.detach())
    return torch.stack(outputs).view(shape), gradients


def relative(found: Tensor, wanted: Tensor) -> float:
    """The error's norm as a share of the wanted norm."""
    return float((found.double() - wanted).norm() / wanted.norm())


def check(net: Net, weights: Weights, obs: Tensor, outputs: float, most: float, half: float) -> None:
    """Norm-wise bounds on the errors of the outputs, of every net's every gradient, and of at least half of those."""
    wanted, wanted_gradients = reference(net, weights, obs)
    x = net.prepare(obs)
    y, pull = net.vjp(weights, x)
    found = pull(slopes(y.shape).to(y.dtype))
    assert torch.equal(y, net(weights, x))
    assert relative(y, wanted) < outputs
    assert len(found) == len(wanted_gradients) == 4 * 2 * len(net.layers)
    for mine, theirs in zip(found, wanted_gradients, strict=True):
        assert theirs.norm() > 0
        assert mine.shape == theirs.shape
        assert mine.dtype == torch.float32
    errors = sorted(relative(mine, theirs) for mine, theirs in zip(found, wanted_gradients, strict=True))
    assert errors[-1] < most
    assert errors[len(errors) // 2] < half


@pytest.mark.parametrize(("spec", "values"), CASES)
def test_float64_net_is_the_ordinary_network(spec, values):
    """In float64 all outputs and gradients are those of a plain network, to the float32 in which gradients leave."""
    net, weights = make(spec, values, torch.float64)
    check(net, weights, observations(spec), 1e-12, 3e-7, 1e-7)


@pytest.mark.parametrize(("spec", "values"), CASES)
def test_float32_net_is_the_ordinary_network(spec, values):
    """In float32 they agree to rounding, but that one unit on either side of its kink may change a few by more."""
    net, weights = make(spec, values)
    check(net, weights, observations(spec), 2e-6, 1e-2 if spec.image else 1e-5, 2e-6)


@pytest.mark.parametrize(("spec", "values"), CASES[:-1])
def test_bf16_net_is_near_the_ordinary_network(spec, values):
    """With bf16 inner layers outputs stay within 2 % in norm and each gradient within 25 %, for vectors 2 %.

    Rounding of 0.4 % puts about as many of a convolution's units on the other side of their kink: hence the root of it.
    """
    net, weights = make(spec, values | {"precision": "bf16"})
    first = torch.bfloat16 if spec.image else torch.float32
    inner = [torch.bfloat16] * (len(net.layers) - 2)
    assert [layer.dtype for layer in net.layers] == [first, *inner, torch.float32]
    most, half = (0.25, 0.1) if spec.image else (0.02, 0.01)
    check(net, weights, observations(spec, 8), 0.02, most, half)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("spec", [MLP, *IMAGES[1:]])
def test_optimiser_takes_the_gradients_as_they_lie(spec, precision):
    """Adam's first step moves each weight by rate x g / (|g| + eps) of its own g; its kernel ignores strides."""
    net, weights = make(spec, {"precision": precision})
    y, pull = net.vjp(weights, net.prepare(observations(spec)))
    gradients = pull(slopes(y.shape))
    wanted = [t - 0.1 * g / (g.abs() + 0.5) for t, g in zip(Weights.split(weights.tensors), gradients, strict=True)]
    Adam(weights.tensors, Weights.split, 0.5).step(gradients, 0.1)
    torch.testing.assert_close(Weights.split(weights.tensors), wanted, rtol=1e-5, atol=1e-6)


def test_gradients_come_in_the_order_of_split():
    """Weights.split goes by run, then copy, then layer, each weight before its bias."""
    _, weights = make(MLP, {})
    views = Weights.split(weights.tensors)
    wanted = [weights.tensors[n][r, k] for r in range(2) for k in range(2) for n in weights.tensors]
    assert [v.data_ptr() for v in views] == [w.data_ptr() for w in wanted]
    assert list(weights.tensors) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("spec", [MLP, IMAGES[1]])
def test_refresh_follows_the_masters(spec, precision):
    """After the masters change and refresh, outputs are those of a net built from the changed masters."""
    net, weights = make(spec, {"precision": precision})
    x = net.prepare(observations(spec))
    before = net(weights, x)
    for t in weights.tensors.values():
        t.mul_(1.5).add_(0.01)
    weights.refresh()
    after = net(weights, x)
    assert torch.equal(after, net(Weights(net.layers, {k: t.clone() for k, t in weights.tensors.items()}), x))
    assert ((after - before).flatten(2).norm(dim=-1) > 0.01).all()


def test_number_of_parameters():
    """The Nature CNN for four frames and six actions has the 1,687,206 numbers that its layers add up to."""
    sums = (4 * 64 + 1) * 32, (32 * 16 + 1) * 64, (64 * 9 + 1) * 64, (64 * 49 + 1) * 512, (512 + 1) * 6
    assert nets.parameters(nets.build(IMAGES[0], config.make("test"))) == sum(sums) == 1_687_206


@pytest.mark.parametrize("spec", [MLP, IMAGES[0]])
def test_he_weights(spec):
    """Every layer, heads included: mean 0, standard deviation sqrt(2 / fan in); biases within 1 / sqrt(fan in)."""
    net, weights = make(spec, {})
    for i, layer in enumerate(net.layers):
        fan_in = math.prod(layer.shape[1:])
        for w in weights.tensors[f"{i}.weight"].flatten(0, 1):
            n, wanted = w.numel(), math.sqrt(2 / fan_in)
            assert abs(float(w.std()) / wanted - 1) < 6 / math.sqrt(2 * n)
            assert abs(float(w.mean())) < 6 * wanted / math.sqrt(n)
            assert float(w.abs().max()) > 1.5 * wanted  # normal, not uniform: sqrt 3 would need luck at best
        for b in weights.tensors[f"{i}.bias"].flatten(0, 1):
            assert b.abs().max() <= fan_in**-0.5
            assert b.max() - b.min() > (1.8 if len(b) > 30 else 0.3) * fan_in**-0.5


def test_torch_weights():
    """Scheme `torch` is uniform within 1 / sqrt(fan in), weights and biases."""
    net = nets.build(MLP, config.make("test", init="torch"))
    for name, t in first_weights(net.layers, seeds(1), NAMES, "torch").items():
        bound = math.prod(net.layers[int(name[0])].shape[1:]) ** -0.5
        assert bound * 0.7 < t.abs().max() <= bound
        if t.numel() > 1000:
            assert float(t.std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("scheme", ["he", "torch"])
@pytest.mark.parametrize("spec", [MLP, IMAGES[1]])
def test_copies_and_seeds_differ_in_every_layer(spec, scheme):
    """Twins and runs share no layer, and no weight equals that of another; equal names and seeds give equal weights."""
    net = nets.build(spec, config.make("test"))
    found = first_weights(net.layers, seeds(3, 8), (*NAMES, "critic0"), scheme)
    for t in found.values():
        a, b, c = t[0, 0], t[0, 1], t[1, 0]
        assert float((a == b).double().mean()) < 0.01
        assert float((a == c).double().mean()) < 0.01
        assert torch.equal(a, t[0, 2])
        alone = first_weights(net.layers, seeds(8), NAMES, scheme)
    assert all(torch.equal(found[k][1:, :2], alone[k]) for k in found)


@pytest.mark.parametrize("side", [(19, 19), (35, 84), (84, 35), (1, 1)])
def test_small_images_are_refused(side):
    """An image that leaves no output pixel is an EnvError that names the least size; 36x36 is that size."""
    with pytest.raises(EnvError, match=r"too small.*36x36"):
        nets.build(Spec(side, True, 4, 3), config.make("test"))
    assert nets.build(Spec((36, 36), True, 4, 3), config.make("test")).layers[3].inputs == 64


@pytest.mark.parametrize(("spec", "torso"), [(MLP, "nature"), (IMAGES[0], "mlp")])
def test_wrong_torso_is_refused(spec, torso):
    """A torso that does not fit the observations is an EnvError."""
    with pytest.raises(EnvError, match="does not fit"):
        nets.build(spec, config.make("test", torso=torso))


def test_other_convolutions():
    """Channels, kernels, strides and dense layers are those of the configuration; what cannot be is refused."""
    net = nets.build(Spec((30, 24), True, 2, 5), config.make("test", **OTHER))
    shapes = [layer.shape for layer in net.layers]
    assert shapes == [(16, 2, 6, 6), (32, 16, 2, 2), (64, 32 * 8 * 6), (48, 64), (5, 48)]
    with pytest.raises(UsageError, match="equally many"):
        config.make("test", conv_channels=(16,))
    with pytest.raises(UsageError, match="multiples"):
        config.make("test", conv_strides=(3, 2, 1))
    with pytest.raises(EnvError, match="they need 9x9"):
        nets.build(Spec((8, 24), True, 2, 5), config.make("test", **OTHER))
