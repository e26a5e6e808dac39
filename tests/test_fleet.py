"""Training several runs in lockstep is training each alone: the loop, the replay, the lanes and the logs."""

from pathlib import Path

import pytest
import torch

from sacd import config
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import Training
from test_learns import Silent
from worlds import world

FIELDS = {
    "CartPole-v1": {"steps": 260, "n_envs": 2, "hidden": (16,)},
    "sacd/Catch-v0": {"steps": 160, "stack": 2},
    "ALE/Breakout-v5": {"steps": 140, "stack": 4, "learning_starts": 100, "train_freq": 8},
}


def train(env: str, seeds: list[int], folder: Path) -> tuple[Training, list[RunFolder]]:
    """A short run of a fleet."""
    fields = {"learning_starts": 60, "batch_size": 8, "n_step": 2, "threads": 1, "device": "cpu", "save_every": 100}
    chosen = config.make(env, "classic", **(fields | FIELDS[env]))
    folders = [RunFolder(folder / str(seed)) for seed in seeds]
    for each in folders:
        each.claim(chosen)
    training = Training([config.changed(chosen, seed=s) for s in seeds], folders, Silent())
    training.run(Stop())
    training.close()
    return training, folders


@pytest.mark.parametrize("env", FIELDS)
def test_run_r_of_a_fleet_is_run_r_alone(env: str, tmp_path: Path) -> None:
    """Weights, moments, replay and episode log of each of three runs have the bits of the same run trained alone."""
    seeds = [3, 1, 4]
    fleet, folders = train(env, seeds, tmp_path / "fleet")
    for r, seed in enumerate(seeds):
        single, (alone,) = train(env, [seed], tmp_path / "alone")
        for name, tensor in single.state.tensors().items():
            assert torch.equal(fleet.state.tensors()[name][r], tensor[0]), (seed, name)
        ours, theirs = (t.replay.save(i, [0] * t.config.n_envs)[0] for t, i in ((fleet, r), (single, 0)))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[k], theirs[k]) for k in ours)
        assert folders[r].episodes.read_text() == alone.episodes.read_text()


def test_games_side_by_side_are_each_as_alone(tmp_path: Path) -> None:
    """Runs of three games in one fleet, one of them with other action numbers, have the bits that each has alone."""
    fields = {"steps": 160, "learning_starts": 60, "batch_size": 8, "n_envs": 2, "hidden": (8,), "threads": 1}
    configs = [
        config.make(world(name), "classic", seed=seed, device="cpu", **fields)
        for name, seed in (("Short", 3), ("Short", 1), ("Shifted", 3), ("Both", 4))
    ]

    def trained(chosen: list[config.Config]) -> list[tuple[dict[str, torch.Tensor], str]]:
        folders = [RunFolder(tmp_path / str(len(chosen)) / str(configs.index(c))) for c in chosen]
        for c, folder in zip(chosen, folders, strict=True):
            folder.claim(c)
        training = Training(chosen, folders, Silent())
        training.run(Stop())
        training.close()
        return [(training.state.share(r), f.episodes.read_text()) for r, f in enumerate(folders)]

    for c, (ours, episodes) in zip(configs, trained(configs), strict=True):
        [(theirs, alone)] = trained([c])
        assert all(torch.equal(ours[k], theirs[k]) for k in theirs), c.env
        assert episodes == alone


def test_two_runs_of_a_fleet_differ(tmp_path: Path) -> None:
    """Two seeds share no noise: they act differently and end with different weights in every tensor that learns."""
    fleet, _ = train("CartPole-v1", [0, 1], tmp_path)
    assert (fleet.replay.action[:2] != fleet.replay.action[2:]).any()
    for name, tensor in fleet.state.tensors().items():
        assert not torch.equal(tensor[0], tensor[1]), name
