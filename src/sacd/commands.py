"""What `sacd train` and `sacd evaluate` do, once their words are understood: from a configuration to a score."""

import contextlib
import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from sacd import checkpoint, engine, evaluate, memory, nets, report
from sacd.agents.sac import SAC, State
from sacd.config import Config
from sacd.console import Bar, complain, plural, say
from sacd.envs import names
from sacd.envs.pool import make_lanes
from sacd.errors import CheckpointError, Interrupted
from sacd.files import replace_file, writing
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import Training


def train_one(config: Config, preset: str, path: Path) -> None:
    """Train a run to its end, evaluate it, draw its curve. Resumes what is there."""
    folder = RunFolder(path)
    folder.check(config)
    if folder.finished():
        if not folder.curve.exists():
            report.curve([folder], folder.curve)
        say(f"{path} is finished; nothing to do. Its results:\n")
        say(report.table([folder]))
        return
    bar = Bar(names.short(config.env), config.steps, typical=config.learning_starts)
    training = Training([config], [folder], bar)  # may refuse, so nothing is on the disk before
    try:
        _announce(training, preset, bar)
        folder.claim(config)
        with Stop() as stop:
            with bar:
                training.run(stop)
            with Bar(f"{names.short(config.env)}, final games", 2 * config.eval_episodes, unit="episodes") as bar:
                score([config], [folder], training, [0], bar.tick, stop)
        report.curve([folder], folder.curve)
    except Interrupted:
        raise
    except Exception:
        keep_traceback(folder)
        raise
    finally:
        training.close()
        folder.release()
    say(report.table([folder]))
    say("One seed says little: do not compare algorithms on it.\n")
    say(f"model   {folder.model.resolve()}\ncurve   {folder.curve.resolve()}\nagain   {again(config, path)}")


def again(config: Config, path: Path) -> str:
    """The command that plays the trained run, as it can be typed here."""
    program = "sacd" if shutil.which("sacd") else sys.argv[0] if Path(sys.argv[0]).name == "sacd" else "python -m sacd"
    module = config.env.partition(":")[0] if ":" in config.env else ""
    return f"{program} evaluate {path}" + (f" --env-module {module}" if module else "")


def _announce(training: Training, preset: str, bar: Bar) -> None:
    """What is going to happen, in a line or two."""
    config, agent = training.config, training.agent
    need = memory.needed(training.pool.spec, config, 1, nets.parameters(agent.net))
    bar.note(
        f"{config.env}, preset {preset}, seed {config.seed}: {config.steps} steps, "
        f"{plural(agent.spec.actions, 'action')}, "
        f"{config.precision} on {training.device} with {plural(torch.get_num_threads(), 'thread')}, "
        f"about {need / 1e9:.1f} GB of memory -> {training.folders[0].path}"
    )
    for text in warnings(config, agent.spec.actions):
        complain(text)


def keep_traceback(folder: RunFolder) -> None:
    """The traceback in the run's folder: the screen shows a sentence."""
    with contextlib.suppress(OSError):
        (folder.path / "error.log").write_text(traceback.format_exc())


def warnings(config: Config, actions: int) -> list[str]:
    """What is allowed, but probably not meant."""
    found = []
    if config.learning_starts >= config.steps:
        found.append(
            f"learning starts at step {config.learning_starts}, after the run's end: no update will happen. "
            f"Take more --steps, or a --learning-starts below {config.steps}."
        )
    if actions == 1:
        found.append("the environment has one action: there is nothing to learn.")
    return found


def score(
    configs: list[Config],
    folders: list[RunFolder],
    training: Training,
    runs: list[int],
    tell: Callable[[int], None],
    stop: Stop,
) -> None:
    """Play the final games of some runs of one environment and write evaluation.json, which marks them as finished.

    `tell` hears how many episodes are done.
    """
    started = time.monotonic()
    players = [
        evaluate.Player(config, run, policy)
        for config, run in zip(configs, runs, strict=True)
        for policy in evaluate.POLICIES
    ]
    scores = iter(evaluate.play_runs(training.agent, training.state, players, tell, stop))
    for config, folder in zip(configs, folders, strict=True):
        facts: dict[str, Any] = {"env": config.env, "seed": config.seed, "step": config.steps}
        facts |= {p: evaluate.summary(mine := next(scores)) | {"scores": mine} for p in evaluate.POLICIES}
        facts["seconds"] = round(time.monotonic() - started, 1)
        with writing(folder.evaluation):
            replace_file(folder.evaluation, (json.dumps(facts, indent=1) + "\n").encode())


def evaluate_one(config: Config, folder: RunFolder, policies: list[str]) -> None:
    """Play a trained run (or the newest checkpoint of one under way) and print its scores."""
    agent, state, step = load(config, folder)
    for policy in policies:
        with Bar(f"{names.short(config.env)} {policy}", config.eval_episodes, unit="episodes") as bar:
            scores = evaluate.play_runs(agent, state, [evaluate.Player(config, 0, policy)], bar.tick)[0]
        found = evaluate.summary(scores)
        spread = f" (sample SD {found['std']:.4g})" if found["std"] is not None else ""
        say(
            f"{names.short(config.env)} at step {step}, {policy}: mean {found['mean']:.6g}{spread}, "
            f"{found['min']:g} to {found['max']:g}, {plural(len(scores), 'episode')}"
        )


def load(config: Config, folder: RunFolder) -> tuple[SAC, State, int]:
    """The trained networks of a run, from its model or else its newest sound checkpoint."""
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
        lanes = make_lanes(config, 1)
        engine.pin(config.threads, lanes.spec.image)
        agent = SAC(lanes.spec, config)
        lanes.close()
        state = agent.init(torch.tensor([config.seed]))
        wanted = {k: t for k, t in state.share(0).items() if k.startswith("actor.")}
        checkpoint.check_tensors({k: t for k, t in tensors.items() if k.startswith("actor.")}, wanted, place)
        state.actor = agent.net.weights({k: tensors[f"actor.{k}"][None] for k in state.actor.tensors})
        for text in wrong:
            complain(f"{text} {place} is taken instead.")
        return agent, state, manifest["step"]
    raise CheckpointError(" ".join(wrong))
