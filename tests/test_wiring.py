"""What the parts hand each other: fields of the configuration that must arrive where they are used."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from sacd import checkpoint, config, engine, memory, nets, rng, scoring
from sacd.agents.sac import SAC
from sacd.cli import main
from sacd.clock import Clock
from sacd.errors import ResourceError
from sacd.replay import Replay
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import Training
from sacd.types import Batch, Out, Spec
from test_learns import Silent
from tiny import newest, results, same_results, words
from worlds import world

LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def trained(tmp_path, **values) -> tuple[Training, RunFolder, list[tuple[int, Batch, float, Out]]]:
    """A short run whose rewards are 1 to 5; each update's step, batch, fraction and outcome."""
    fields = {"steps": 80, "learning_starts": 20, "hidden": (8,), "batch_size": 16, "n_step": 1, "threads": 1}
    chosen = config.make(world("World"), "classic", device="cpu", **(fields | values))
    folder = RunFolder(tmp_path / str(len(list(tmp_path.iterdir()))))
    folder.claim(chosen)
    training = Training([chosen], [folder], Silent())
    update, found = training.agent.update, []

    def watched(state, batch, u, fraction):
        out = update(state, batch, u, fraction)
        found.append((training.clock.step, batch, fraction, out))
        return out

    training.agent.update = watched
    training.run(Stop())
    training.close()
    folder.release()
    return training, folder, found


def test_the_loop_learns_from_clipped_rewards_if_told_to(tmp_path):
    """With clip_reward every reward that is learned from is at most 1, without they are those of the environment."""
    (clipped, _, a), (raw, _, b) = (trained(tmp_path, clip_reward=flag) for flag in (True, False))
    assert {r for _, batch, _, _ in a for r in batch.reward.ravel().tolist()} == {1.0}
    assert {r for _, batch, _, _ in b for r in batch.reward.ravel().tolist()} == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert torch.equal(a[0][1].obs, b[0][1].obs), "the first batches differ by their rewards only"
    ends = zip(clipped.state.critics.tensors.values(), raw.state.critics.tensors.values(), strict=True)
    assert all(not torch.equal(x, y) for x, y in ends)


def test_schedules_move_with_the_run(tmp_path):
    """Each update is told the share of the run that is done, and a scheduled temperature follows it."""
    _, _, found = trained(tmp_path, alpha="linear(2, 1)")
    assert [step for step, _, _, _ in found] == list(range(21, 80))
    for step, _, fraction, out in found:
        assert fraction == step / 80
        assert out.alpha.tolist() == pytest.approx([2 - step / 80])


def test_the_model_is_the_trained_part_of_the_state(tmp_path):
    """A finished run's model holds actor, critics and temperature as they are at the end, and nothing else."""
    training, folder, _ = trained(tmp_path)
    model, facts = checkpoint.read(folder.model)
    state, net = training.state, training.state.actor.tensors
    wanted = {"log_alpha", *(f"{part}.{k}" for part in ("actor", "critics") for k in net)}
    assert model.keys() == wanted and facts["step"] == 80
    assert torch.equal(model["log_alpha"], state.log_alpha[0]) and state.log_alpha[0] != torch.tensor(0.2).log()
    for part in ("actor", "critics"):
        for k, t in getattr(state, part).tensors.items():
            assert torch.equal(model[f"{part}.{k}"], t[0])


def test_a_loaded_run_is_played_with_its_threads(tmp_path, monkeypatch):
    """To load a run for evaluation sets the threads it asks for; for small vectors that is one."""
    _, folder, _ = trained(tmp_path)
    chosen, before = folder.config(), torch.get_num_threads()
    monkeypatch.setattr(engine, "cores", lambda: 5)
    try:
        for asked, threads in ((3, 3), (1, 1), (2, 2), (0, 1)):
            scoring.load([config.changed(chosen, threads=asked)], [folder], torch.device("cpu"))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def first_import(call: str) -> list[str | None]:
    """What bounds the libraries' threads in a new process, as it is when the first of them is loaded."""
    code = f"""
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "torch"):
            print("seen", *(os.environ.get(k) for k in {LIBRARIES}), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watch())
{call}
"""
    bare = {k: v for k, v in os.environ.items() if k not in LIBRARIES}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=bare)
    assert done.returncode == 0 and "seen" in done.stdout, done.stderr
    return done.stdout.partition("seen")[2].split()


@pytest.mark.parametrize("words", ["train CartPole-v1 --threads 3", "sweep --games CartPole-v1 --threads 3"])
def test_threads_are_bounded_before_torch_is_imported(words, tmp_path, monkeypatch):
    """A command sets the variables of all three libraries, which read them once, before torch loads them."""
    monkeypatch.chdir(tmp_path)
    assert first_import(f"from sacd.cli import main\nmain({words.split()})") == ["3", "3", "3"]


def test_by_default_the_bound_is_the_cores(monkeypatch):
    """Without a number asked for, every library may use the cores of the process."""
    for name in LIBRARIES:
        monkeypatch.delenv(name, raising=False)
    assert first_import("from sacd import engine\nengine.prepare(0)") == [str(engine.cores())] * 3


@pytest.mark.parametrize("runs", [1, 3])
def test_the_memory_limit_is_the_need_itself(runs, monkeypatch):
    """Exactly as much free memory as needed is enough; one byte less is refused."""
    spec, chosen, cpu = Spec((84, 84), True, 4, 6), config.make("ALE/Pong-v5"), torch.device("cpu")
    parameters = nets.parameters(nets.build(spec, chosen))
    need = memory.needed(spec, chosen, runs, parameters)
    monkeypatch.setattr(memory, "free_memory", lambda: need)
    assert memory.check(spec, chosen, runs, parameters, cpu) == need
    monkeypatch.setattr(memory, "free_memory", lambda: need - 1)
    with pytest.raises(ResourceError, match="--buffer-size"):
        memory.check(spec, chosen, runs, parameters, cpu)


def test_every_step_and_update_has_noise_of_its_own(tmp_path, monkeypatch):
    """Acting, picking a batch and guessing an action draw the numbers of their own stream, step after step."""
    seen: dict[str, list] = {"act": [], "batch": [], "target": []}
    act, explore, update = SAC.act, SAC.explore, SAC.update
    sample = Replay.sample
    monkeypatch.setattr(SAC, "act", lambda self, s, o, u: (seen["act"].append(u.clone()), act(self, s, o, u))[1])
    monkeypatch.setattr(SAC, "explore", lambda self, u: (seen["act"].append(u.clone()), explore(self, u))[1])
    monkeypatch.setattr(Replay, "sample", lambda self, u, c: (seen["batch"].append(u.clone()), sample(self, u, c))[1])
    monkeypatch.setattr(
        SAC, "update", lambda self, s, b, u, f: (seen["target"].append(u.clone()), update(self, s, b, u, f))[1]
    )
    training, _, _ = trained(tmp_path, target_value="sampled", seed=7, steps=60)
    seeds = torch.tensor([7])
    assert len(seen["act"]) == 60 and len(seen["batch"]) == len(seen["target"]) == training.clock.updates == 39
    for name, drawn in seen.items():
        steps, width = torch.arange(len(drawn)), drawn[0].shape[1]
        assert torch.equal(torch.cat(drawn), rng.uniform(seeds, name, steps, width)[0]), name


def test_a_stop_in_the_middle_changes_nothing(tmp_path, monkeypatch):
    """SIGTERM between a row and a regular save: saved there, and the end is that of a run left alone."""
    values = {"steps": 420, "log_every": 70, "save_every": 110}
    assert main(words("CartPole-v1", tmp_path / "whole", **values)) == 0
    tick = Clock.tick

    def stopping(clock: Clock) -> None:
        tick(clock)
        if clock.step == 235:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Clock, "tick", stopping)
    assert main(words("CartPole-v1", tmp_path / "stopped", **values)) == 75
    assert newest(tmp_path / "stopped") == 235
    assert main(words("CartPole-v1", tmp_path / "stopped", **values)) == 0
    same_results(results(tmp_path / "stopped"), results(tmp_path / "whole"))


def test_a_second_ctrl_c_ends_it_at_once():
    """The first asks; the second does not wait for an answer."""
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested and stop.code == 130
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("line", "inside", "files", "left"),
    [
        ("0::/job/1", "job/1", {"memory.max": "1000", "memory.current": "300", "memory.stat": "inactive_file 50"}, 750),
        ("0::/job/1", "job", {"memory.max": "900", "memory.current": "300", "memory.stat": "inactive_file 0"}, 600),
        ("0::/job/1", "job/1", {"memory.max": "max", "memory.current": "3", "memory.stat": "inactive_file 0"}, None),
        (
            "9:memory:/job", "memory/job",
            {"memory.limit_in_bytes": "500", "memory.usage_in_bytes": "100", "memory.stat": "total_inactive_file 20"},
            420,
        ),
    ],
)  # fmt: skip
def test_memory_of_a_control_group(line, inside, files, left, tmp_path, monkeypatch):
    """Limits of either version count, at this process's group and above it."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"3:cpu:/other\n{line}\n")
    (tmp_path / "groups" / inside).mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "groups" / inside / name).write_text(text + "\n")
    free = memory.psutil.virtual_memory().available
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "groups")
    assert memory.free_memory() == left if left else memory.free_memory() > free / 2
