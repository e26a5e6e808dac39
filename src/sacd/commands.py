"""What `sacd train` does, once its words are understood: from a configuration to a finished run."""

import contextlib
import shutil
import sys
import traceback
from pathlib import Path

import torch

from sacd import memory, nets, report
from sacd.config import Config
from sacd.console import Bar, complain, plural, say
from sacd.envs import names
from sacd.errors import Interrupted
from sacd.runs import RunFolder
from sacd.scoring import final_games, trained
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
    try:
        with Stop() as stop:
            if trained(folder, config):
                folder.claim(config)
                say(f"{path} is trained; its final games are played.")
            else:
                _train(config, preset, folder, stop)
            with Bar(f"{names.short(config.env)}, final games", 2 * config.eval_episodes, unit="episodes") as bar:
                final_games([config], [folder], bar.tick, stop)
        report.curve([folder], folder.curve)
    except Interrupted:
        raise
    except Exception:
        if folder.held:
            keep_traceback(folder)
        raise
    finally:
        folder.release()
    say(report.table([folder]))
    say("One seed says little: do not compare algorithms on it.\n")
    say(f"model   {folder.model.resolve()}\ncurve   {folder.curve.resolve()}\nagain   {again(config, path)}")


def _train(config: Config, preset: str, folder: RunFolder, stop: Stop) -> None:
    bar = Bar(names.short(config.env), config.steps, typical=config.learning_starts)
    training = Training([config], [folder], bar)  # may refuse, so nothing is on the disk before
    try:
        _announce(training, preset, bar)
        folder.claim(config)
        with bar:
            training.run(stop)
    finally:
        training.close()


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
