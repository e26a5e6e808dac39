"""What goes wrong around a run and must not hurt it: readers that leave, stray files, repeated process numbers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from sacd import checkpoint, config
from sacd.agents.sac import SAC
from sacd.cli import build_parser, main
from sacd.console import Bar
from sacd.envs.gym import GymLanes, spec_of
from sacd.envs.pool import make_lanes
from sacd.errors import EnvError, Interrupted
from sacd.evaluate import Player, play_runs
from sacd.log import RunLog
from sacd.replay import Replay
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import Training
from sacd.types import Spec, Step
from tiny import CARTPOLE, PATH, broken_off, newest, results, same_results, words


def test_a_reader_that_leaves_does_not_end_the_run(tmp_path):
    """`sacd train … 2>&1 | head -1`: the run goes on to its end."""
    run = tmp_path / "r"
    command = [sys.executable, "-m", "sacd", *words("CartPole-v1", run, **CARTPOLE)]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": {**os.environ, "PYTHONPATH": PATH}}
    with subprocess.Popen(command, **piped) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(120) == 0
    assert RunFolder(run).finished()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_signal_to_all_processes_of_an_async_run(number, code, tmp_path):
    """Ctrl-C in a terminal reaches the workers too: the run is saved, says so, and a queue sees the exit code."""
    run = tmp_path / "r"
    arguments = words("CartPole-v1", run, steps=10**6, n_envs=2, async_envs="true")
    command = [sys.executable, "-m", "sacd", *arguments]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **piped, env={**os.environ, "PYTHONPATH": PATH}) as process:
        while not newest(run):
            time.sleep(0.05)
        os.killpg(process.pid, number)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == code, said
        assert "saved" in said


def test_long_stacks_in_evaluation(monkeypatch):
    """Ten stacked frames are the newest ten of the episode; before its start, its first."""
    seen = []
    chosen = config.make(
        "sacd/Catch-v0", "classic", stack=10, device="cpu", eval_episodes=1, eval_lanes=1, time_limit=50
    )
    lanes = make_lanes(chosen, 1)
    lanes.close()
    agent = SAC(lanes.spec, chosen)
    logits = agent.logits
    monkeypatch.setattr(agent, "logits", lambda s, obs: (seen.append(obs.clone()), logits(s, obs))[1])
    play_runs(agent, agent.init(torch.tensor([0])), [Player(chosen, 0, "greedy")])
    frames = [obs[0, 0, -1] for obs in seen]
    assert len(frames) == 8
    for t, obs in enumerate(seen):
        wanted = [frames[max(0, t - back)] for back in range(9, -1, -1)]
        assert torch.equal(obs[0, 0], torch.stack(wanted))


def test_evaluation_has_its_own_noops(monkeypatch):
    """Games of an evaluation begin with random no-ops, though training has none."""
    made = []
    monkeypatch.setattr("sacd.envs.pool.make_lanes", lambda c, *more: (made.append(c), make_lanes(c, *more))[1])
    chosen = config.make("ALE/Pong-v5", "author", device="cpu", eval_episodes=1, eval_lanes=1, time_limit=3)
    agent = SAC(Spec((84, 84), True, 4, 6), chosen)
    play_runs(agent, agent.init(torch.tensor([0])), [Player(chosen, 0, "greedy")])
    assert chosen.noop_max == 0
    assert [(c.noop_max, c.life_loss) for c in made] == [(30, "ignore")]


def test_a_module_in_a_runs_config_is_not_imported(tmp_path, capsys, monkeypatch):
    """A downloaded run cannot have code imported, unless its module is named on the command line."""
    (tmp_path / "evilmod.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'canary')!r}).touch()")
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "r"
    assert main([*words("CartPole-v1", run), "--steps", "120"]) == 0
    record = json.loads((run / "config.json").read_text())
    record["config"]["env"] = "evilmod:E-v0"
    (run / "config.json").write_text(json.dumps(record))
    for more in ([], ["--env-module", "other"]):
        assert main(["evaluate", str(run), *more]) == 2
        assert "--env-module evilmod" in capsys.readouterr().err
    assert not (tmp_path / "canary").exists()
    assert main(["evaluate", str(run), "--env-module", "evilmod"]) == 3, "trusted, imported, and no such environment"
    assert (tmp_path / "canary").exists()


def test_leftovers_and_strays_among_checkpoints(tmp_path):
    """What a dead process of the same number left, and folders of other names, are no hindrance to a resume."""
    run, whole = tmp_path / "r", tmp_path / "whole"
    command = broken_off(run)
    (run / "checkpoints" / f".tmp-step_{600:012d}-{os.getpid()}").mkdir()
    newest_one = RunFolder(run).saved_steps()[0]
    shutil.copytree(newest_one, newest_one.with_name(newest_one.name + ".bak"))
    assert main(command) == 0
    assert main(words("CartPole-v1", whole, **CARTPOLE)) == 0
    same_results(results(run), results(whole))


def test_writing_over_a_leftover_of_the_same_process(tmp_path):
    """A temporary folder of the same name is replaced."""
    (tmp_path / f".tmp-a-{os.getpid()}").mkdir()
    checkpoint.write(tmp_path / "a", {"x": torch.ones(1)}, {"step": 1})
    assert checkpoint.read(tmp_path / "a")[1]["step"] == 1


def test_a_log_that_cannot_be_closed(tmp_path):
    """The disk's complaint comes when a row is due; closing afterwards does not bury it."""
    log = RunLog(tmp_path / "m", tmp_path / "e", 1.0, 1.0)
    log.open(None)
    os.close(log.files["metrics"].fileno())
    log.files["metrics"].write("x")
    log.close()


def test_a_lost_curve_is_drawn_again(tmp_path):
    """A run that died between its scores and its picture gets the picture from the same command."""
    command = [*words("CartPole-v1", tmp_path / "r"), "--steps", "120"]
    assert main(command) == 0
    (tmp_path / "r" / "curve.png").unlink()
    assert main(command) == 0
    assert (tmp_path / "r" / "curve.png").exists()


def test_a_damaged_configuration_is_named(tmp_path, capsys):
    """A field in config.json that cannot be is exit code 4 with the file's name."""
    assert main([*words("CartPole-v1", tmp_path / "r"), "--steps", "120"]) == 0
    path = tmp_path / "r" / "config.json"
    path.write_text(path.read_text().replace('"steps": 120', '"steps": "many"'))
    assert main(["evaluate", str(tmp_path / "r")]) == 4
    assert "config.json" in capsys.readouterr().err


def test_too_many_actions_are_refused():
    """The replay's action numbers have 15 bits."""
    box = gym.spaces.Box(-1, 1, (3,))
    assert spec_of(config.make("test"), box, gym.spaces.Discrete(32_767)).actions == 32_767
    with pytest.raises(EnvError, match="50000 actions"):
        spec_of(config.make("test"), box, gym.spaces.Discrete(50_000))


def test_runs_do_not_wait_for_each_other(tmp_path):
    """Learning from the first step with n-step returns: each run of a fleet has the updates that it has alone."""
    fields = {"learning_starts": 0, "n_step": 5, "steps": 40, "batch_size": 4, "hidden": (8,), "device": "cpu"}

    def trained(seeds: list[int], place: Path) -> Training:
        configs = [config.make("CartPole-v1", "classic", seed=s, **fields) for s in seeds]
        folders = [RunFolder(place / str(s)) for s in seeds]
        for folder, each in zip(folders, configs, strict=True):
            folder.claim(each)
        training = Training(configs, folders, Bar("test", 40))
        training.run(Stop())
        training.close()
        return training

    fleet = trained([0, 1, 2], tmp_path / "fleet")
    for r in range(3):
        alone = trained([r], tmp_path / "alone")
        assert alone.clock.updates == fleet.clock.updates == 35
        assert torch.equal(fleet.state.critics.tensors["0.weight"][r], alone.state.critics.tensors["0.weight"][0])


def test_a_stop_between_save_and_check_is_not_lost(tmp_path, monkeypatch):
    """A signal that comes while a turn is being finished stops the run a turn later, after a save."""
    chosen = config.make("CartPole-v1", "classic", steps=50, learning_starts=40, device="cpu")
    folder = RunFolder(tmp_path / "r")
    folder.claim(chosen)
    training, stop = Training([chosen], [folder], Bar("test", 50)), Stop()
    monkeypatch.setattr(training.watcher, "tick", lambda step: stop._ask(signal.SIGTERM, None) if step == 20 else None)
    with pytest.raises(Interrupted, match="step 21"):
        training.run(stop)
    training.close()
    assert newest(folder.path) == 21


def test_workers_that_are_gone_do_not_disturb_the_close(monkeypatch):
    """Closing lanes whose worker has died is silent."""
    lanes = GymLanes(config.make("CartPole-v1", "classic"), 1)
    monkeypatch.setattr(lanes.env, "close", lambda: (_ for _ in ()).throw(BrokenPipeError))
    lanes.close()


def test_a_switch_takes_no_word_with_it():
    """`--no-x` before the environment's name leaves the name alone."""
    found = build_parser().parse_args(["train", "--no-clip-reward", "Pong"])
    assert (found.env, found.fields) == ("Pong", {"clip_reward": False})


def test_the_tapes_bytes_move_in_words_or_not():
    """Frames whose size no word divides are stacked like others."""
    tape = Replay(Spec((3, 3), True, 2, 2), 1, 1, 12)
    frames = np.arange(27, dtype=np.uint8).reshape(3, 1, 3, 3)
    tape.start(frames[0])
    zeros = np.zeros(1, np.uint8)
    for new in frames[1:]:
        tape.add(np.zeros(1, np.int64), Step(new, new, np.zeros(1), zeros, zeros.astype(bool)))
    assert torch.equal(tape.observe()[0, 0], torch.from_numpy(frames[1:, 0]))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_somebody_elses_folder(tmp_path, mode):
    """A folder that may not be read or written: one sentence and exit code 5."""
    run = tmp_path / "run"
    assert main(words("CartPole-v1", run, steps=120)) == 0
    (run / "evaluation.json").unlink()
    code = """
import os, sys
import sacd.commands, sacd.report, sacd.envs.pool, gymnasium.envs.classic_control.cartpole
from sacd.cli import main
os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""
    for folder in (run, tmp_path, tmp_path.parent):
        folder.chmod(mode)
    command = [sys.executable, "-c", code, *words("CartPole-v1", run, steps=120)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 5 and "no permission" in done.stderr and "Traceback" not in done.stderr, done.stderr
