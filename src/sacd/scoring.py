"""From trained runs on disk to scores: what `sacd evaluate` prints, and the final games that finish a run."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sacd import checkpoint, engine, evaluate
from sacd.agents.sac import SAC, State
from sacd.config import Config
from sacd.console import Bar, complain, plural, say
from sacd.envs import names
from sacd.envs.pool import make_lanes
from sacd.errors import CheckpointError, blaming, in_groups
from sacd.files import replace_file, writing
from sacd.runs import RunFolder
from sacd.signals import Stop


def final_games(
    configs: Sequence[Config], folders: Sequence[RunFolder], tell: Callable[[int], None], stop: Stop
) -> None:
    """Play the final games of trained runs of one environment and write evaluation.json, which marks them as finished.

    `tell` hears how many episodes are done. An error's lanes are numbers of runs.
    """
    started, first = time.monotonic(), configs[0]
    agent, state, step = load(configs, folders, engine.device(first.device))
    assert step == first.steps, "a run is scored when it is trained"
    players = [evaluate.Player(config, run, p) for run, config in enumerate(configs) for p in evaluate.POLICIES]
    with in_groups(evaluate.lanes_each(first) * len(evaluate.POLICIES)):
        scores = iter(evaluate.play_runs(agent, state, players, tell, stop))
    for config, folder in zip(configs, folders, strict=True):
        facts: dict[str, Any] = {"env": config.env, "seed": config.seed, "step": config.steps}
        facts |= {p: evaluate.summary(mine := next(scores)) | {"scores": mine} for p in evaluate.POLICIES}
        facts["seconds"] = round(time.monotonic() - started, 1)
        with writing(folder.evaluation):
            replace_file(folder.evaluation, (json.dumps(facts, indent=1) + "\n").encode())


def trained(folder: RunFolder, config: Config) -> bool:
    """Whether only the final games are missing: a sound model of the last step is there."""
    if not folder.model.exists():
        return False
    try:
        _, facts = checkpoint.read(folder.model)
    except CheckpointError as error:
        complain(f"{error} {folder.path} goes on from its newest checkpoint.")
        return False
    return facts["step"] == config.steps


def evaluate_one(config: Config, folder: RunFolder, policies: list[str]) -> None:
    """Play a trained run (or the newest checkpoint of one under way) and print its scores."""
    agent, state, step = load([config], [folder], torch.device("cpu"))
    for policy in policies:
        with Bar(f"{names.short(config.env)} {policy}", config.eval_episodes, unit="episodes") as bar:
            scores = evaluate.play_runs(agent, state, [evaluate.Player(config, 0, policy)], bar.tick)[0]
        found = evaluate.summary(scores)
        spread = f" (sample SD {found['std']:.4g})" if found["std"] is not None else ""
        say(
            f"{names.short(config.env)} at step {step}, {policy}: mean {found['mean']:.6g}{spread}, "
            f"{found['min']:g} to {found['max']:g}, {plural(len(scores), 'episode')}"
        )


def load(configs: Sequence[Config], folders: Sequence[RunFolder], device: torch.device) -> tuple[SAC, State, int]:
    """The trained policies of runs of one environment, and the step that they have reached."""
    lanes = make_lanes(configs[0], 1)
    lanes.close()
    engine.pin(configs[0].threads, lanes.spec.image)
    agent = SAC(lanes.spec, configs[0], device)
    state = agent.init(torch.tensor([c.seed for c in configs], device=device))
    found = []
    for run, folder in enumerate(folders):
        with blaming([run]):
            found.append(newest(folder, state))
    stacked = {k: torch.stack([actor[f"actor.{k}"] for actor, _ in found]) for k in state.actor.tensors}
    state.actor = agent.net.weights({k: t.to(device) for k, t in stacked.items()})
    return agent, state, min(step for _, step in found)


def newest(folder: RunFolder, like: State) -> tuple[dict[str, Tensor], int]:
    """The actor of a run and its step, from its model or else its newest sound checkpoint."""
    places = [p for p in (folder.model, *folder.saved_steps()) if p.exists()]
    if not places:
        raise CheckpointError(f"{folder.path} has no checkpoint yet; let 'sacd train' reach its first one.")
    wrong: list[str] = []
    for place in places:
        try:
            tensors, manifest = checkpoint.read(place)
        except CheckpointError as error:
            wrong.append(str(error))
            continue
        actor = {k: t for k, t in tensors.items() if k.startswith("actor.")}
        checkpoint.check_tensors(actor, {k: t for k, t in like.share(0).items() if k.startswith("actor.")}, place)
        for text in wrong:
            complain(f"{text} {place} is taken instead.")
        return actor, manifest["step"]
    raise CheckpointError(" ".join(wrong))
