"""What only a GPU can show: recorded steps, parts on streams of their own, exact resume. Skipped without one."""

from pathlib import Path

import pytest
import torch

from sacd import config, sweep
from sacd.agents.sac import SAC
from sacd.graph import Recorded
from sacd.kernels.frames import Stacks
from sacd.replay import Replay
from sacd.types import Batch, Spec, Step
from test_sweep import runs, swept
from tiny import Crash, crash_at, results, same_results

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
CUDA, CPU = torch.device("cuda"), torch.device("cpu")
GAME, SIZE = Spec((84, 84), True, 4, 6), 16
SHORT = {"learning_starts": 100, "steps": 220, "batch_size": 8, "eval_episodes": 1, "time_limit": 60, "stack": 4}


def batch(count: int, seed: int, device: torch.device) -> Batch:
    """Random transitions, the same on every device."""
    g = torch.Generator().manual_seed(seed)
    images = [torch.randint(1, 256, (count, SIZE, *GAME.obs), generator=g, dtype=torch.uint8) for _ in range(2)]
    action = torch.randint(GAME.actions, (count, SIZE), generator=g)
    reward = torch.randn(count, SIZE, generator=g)
    return Batch(images[0], action, reward, torch.full_like(reward, 0.99), images[1]).to(device)


def learned(count: int, device: torch.device, precision: str, updates: int, recorded: bool = False) -> dict:
    """All tensors after some updates of runs 0 … count - 1."""
    sac = SAC(GAME, config.make("test", precision=precision), device)
    if recorded:
        sac.step = Recorded(sac.gradient_step)
    state = sac.init(torch.arange(count, device=device))
    for i in range(updates):
        sac.update(state, batch(3, i, device) if count == 3 else first(batch(3, i, device)), None, 0.0)
    return {k: t.cpu() for k, t in state.tensors().items()}


def whole(x: torch.Tensor | Stacks) -> torch.Tensor:
    return x.gather() if isinstance(x, Stacks) else x


def first(b: Batch) -> Batch:
    return Batch(*(t[:1].clone() for t in vars(b).values()))


def test_a_recorded_step_is_the_step():
    """Replayed from the graph, eight updates leave the bits that eight calls leave."""
    plain, replayed = (learned(3, CUDA, "bf16", 8, recorded) for recorded in (False, True))
    assert all(torch.equal(plain[k], replayed[k]) for k in plain)


def test_float32_is_the_cpus():
    """After five updates in float32 the parameters are the CPU's, to what five of Adam's first steps can amplify."""
    gpu, cpu = learned(3, CUDA, "fp32", 5), learned(3, CPU, "fp32", 5)
    for name in cpu:
        if not name.startswith("adam"):
            assert (gpu[name] - cpu[name]).abs().mean() < 2e-5, name
    assert (gpu["log_alpha"] - cpu["log_alpha"]).abs().max() < 1e-5


@pytest.mark.parametrize(("precision", "bound"), [("fp32", 1e-5), ("bf16", 3e-4)])
def test_a_run_of_a_fleet_is_as_alone(precision, bound):
    """Run 0 of three and run 0 by itself differ by rounding only."""
    fleet, alone = learned(3, CUDA, precision, 5), learned(1, CUDA, precision, 5)
    for name in alone:
        if not name.startswith("adam"):
            assert (fleet[name][:1] - alone[name]).abs().mean() < bound, name


def test_the_tape_is_the_cpus():
    """Stacks, batches and saved chunks from a tape in GPU memory are those of one in the host's."""
    tapes = [Replay(GAME, 2, 1, 60, 2, 0.9, device) for device in (CPU, CUDA)]
    g = torch.Generator().manual_seed(0)
    frame = torch.randint(0, 256, (90, 2, 84, 84), generator=g, dtype=torch.uint8).numpy()
    for tape in tapes:
        tape.start(frame[0])
    for t in range(1, 80):
        ended = torch.rand(2, generator=g).numpy() < 0.1
        action, closes = (torch.randint(6, (2,), generator=g).numpy(), ended.astype("uint8"))
        step = Step(frame[t + 1], frame[t], torch.randn(2, generator=g).double().numpy(), closes, ended)
        for tape in tapes:
            tape.add(action, step)
    u = torch.rand(2, 40, generator=g, dtype=torch.float64)
    cpu, gpu = (vars(tape.sample(u.to(tape.sampled_on), True)) for tape in tapes)
    assert all(torch.equal(cpu[k], whole(gpu[k]).cpu()) for k in cpu)
    assert torch.equal(tapes[0].observe(), whole(tapes[1].observe()).cpu())
    chunks = [tape.save(1, [70]) for tape in tapes]
    assert chunks[0][1] == chunks[1][1]
    assert all(torch.equal(chunks[0][0][k], chunks[1][0][k]) for k in chunks[0][0])
    again = Replay(GAME, 2, 1, 60, 2, 0.9, CUDA)
    again.load(1, [tapes[1].save(1, [0])[0]], chunks[1][1])
    assert torch.equal(again.frame[1, :20], tapes[1].frame[1, :20])


def test_a_killed_fleet_goes_on(tmp_path):
    """Games of different actions, killed and resumed in bf16 on the GPU: the bits of a fleet that was never killed."""
    words = {"device": "cuda", "precision": "bf16"} | SHORT
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, 210)
        with pytest.raises(Crash):
            swept(tmp_path / "killed", "Freeway,Breakout", "2", **words)
    swept(tmp_path / "killed", "Freeway,Breakout", "2", **words)
    swept(tmp_path / "whole", "Freeway,Breakout", "2", **words)
    for name, folder in runs(tmp_path / "whole").items():
        same_results(results(folder), results(tmp_path / "killed" / name))


def test_parts_taking_turns_are_as_one_after_the_other(tmp_path, monkeypatch):
    """Two parts on streams of their own leave the bits that each leaves alone."""
    words = {"device": "cuda", "precision": "bf16"} | SHORT
    split = {"both": lambda jobs, device: [[jobs[:2], jobs[2:]]], "each": lambda jobs, device: [[jobs[:2]], [jobs[2:]]]}
    found: dict[str, dict[str, Path]] = {}
    for name, fleets in split.items():
        monkeypatch.setattr(sweep, "fleets", fleets)
        swept(tmp_path / name, "Pong,Seaquest", "2", **words)
        found[name] = runs(tmp_path / name)
    for name, folder in found["both"].items():
        same_results(results(folder), results(found["each"][name]))
