"""Killed, stopped or cut off in the middle of a save, a run started again ends with the bits of one left alone.

Real processes and real signals; what a checkpoint promises without them is in test_saved.py.
"""

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sacd.cli import main
from sacd.runs import RunFolder
from tiny import finish, newest, results, same_results, start, words

CARTPOLE = {"steps": 1500}
RUNS: dict[str, dict[str, Any]] = {
    "sacd/Catch-v0": {"steps": 900, "n_envs": 2, "n_step": 3},
    "CartPole-v1": CARTPOLE,
    "ALE/Breakout-v5": {  # emulator, sticky actions, lives, time limits and a ring that wraps
        "steps": 320, "save_every": 40, "learning_starts": 60, "time_limit": 120, "sticky": 0.25, "buffer_size": 300,
    },
}  # fmt: skip

# Starts the command again and again in children that die at their first, second, … call of the functions named: before
# the call, but a file is opened first, so that it lies there empty.
CRASHES = """
import os, shutil, sys
from pathlib import Path
import sacd.commands
from sacd.cli import main

def die_at(number, names):
    left = [number]
    def wrap(name, function):
        def call(*args, **kwargs):
            if name == "open":
                file = function(*args, **kwargs)
                if "w" not in kwargs.get("mode", "".join(args[1:2])):
                    return file
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return file if name == "open" else function(*args, **kwargs)
        return call
    owners = {"open": Path, "fsync": os, "mkdir": Path, "rename": Path, "unlink": Path, "rmtree": shutil}
    for name in names.split():
        setattr(owners[name], name, wrap(name, getattr(owners[name], name)))

codes = []
for number in [*range(1, int(sys.argv[1]) + 1), 0]:
    child = os.fork()
    if not child:
        die_at(number, sys.argv[2])
        os._exit(main(sys.argv[3:]))
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("codes", *codes)
"""


@pytest.fixture
def place(tmp_path) -> Iterator[Path]:
    """A folder for runs that is emptied at once: an Atari run is large."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory) -> dict[str, Any]:
    """The results of the CartPole run that nothing disturbed."""
    run = tmp_path_factory.mktemp("reference") / "run"
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    return results(run)


def saved_since(process: subprocess.Popen, run: Path, step: int) -> int:
    """Wait for a checkpoint beyond this step; the newest."""
    while newest(run) <= step:
        assert process.poll() is None, f"over before its next checkpoint: {process.communicate()[0]}"
        time.sleep(0.002)
    return newest(run)


def temporary(run: Path) -> list[str]:
    """What an interrupted write has left."""
    return [p.name for p in run.rglob(".tmp*")]


@pytest.mark.slow
@pytest.mark.parametrize("env", RUNS)
def test_killed_at_random_moments(place, env):
    """kill -9 at random moments, and each time the same command again: the end is that of an undisturbed run."""
    whole, killed = place / "whole", place / "killed"
    finish(start(words(env, whole, **RUNS[env])))
    rng, step = random.Random(), 0
    for _ in range(2 if env.startswith("ALE/") else 3):
        process = start(words(env, killed, **RUNS[env]))
        step = saved_since(process, killed, step)
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "the run was over before it was killed"
    said = finish(start(words(env, killed, **RUNS[env])))
    assert int(re.search(r"resumed at step (\d+)", said)[1]) >= step
    same_results(results(killed), results(whole))
    assert not temporary(killed)


def cut_off(points: int, names: str, arguments: list[str]) -> None:
    """The command, cut off at that many points in turn and then left alone; it must not stop for any other reason."""
    command = [sys.executable, "-c", CRASHES, str(points), names, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert f"codes {'9 ' * points}0" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("env", "points"), [("CartPole-v1", 24), ("sacd/Catch-v0", 14), ("ALE/Breakout-v5", 14)])
def test_cut_off_at_every_point_of_a_save(place, env, points):
    """Processes that end at each sync, rename and removal in turn lose no checkpoint, and leave nothing behind."""
    values = {"steps": 1500, "save_every": 50} if env == "CartPole-v1" else RUNS[env]  # 12 points are a save
    cut_off(points, "fsync mkdir rename unlink rmtree", words(env, place / "cut", **values))
    assert main(words(env, place / "whole", **values)) == 0
    same_results(results(place / "cut"), results(place / "whole"))
    assert not temporary(place / "cut")


@pytest.mark.slow
def test_cut_off_before_the_first_checkpoint(place, cartpole):
    """A process that dies while it makes the run's folder leaves one in which the same command begins."""
    cut_off(6, "mkdir open rename", words("CartPole-v1", place / "run", **CARTPOLE))
    same_results(results(place / "run"), cartpole)
    assert not temporary(place / "run")


@pytest.mark.slow
def test_signals_save_and_stop(place, cartpole):
    """SIGTERM and SIGUSR1 exit with 75, Ctrl-C with 130, saved at the very step they came; the run ends as if alone."""
    arguments, step = words("CartPole-v1", place, **CARTPOLE), 0
    for number, code in ((signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)):
        process = start(arguments)
        saved_since(process, place, step)
        process.send_signal(number)
        said = finish(process, code)
        step = newest(place)
        assert f"stopped at step {step}, saved" in said
        assert "Traceback" not in said
    assert f"resumed at step {step}." in finish(start(arguments))
    same_results(results(place), cartpole)


@pytest.mark.slow
def test_a_signal_during_the_evaluation(place):
    """The training is over and saved when the scores are played: SIGTERM exits with 75 there too."""
    process = start(words("CartPole-v1", place, steps=200, eval_episodes=5000))
    while not (place / "model" / "manifest.json").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    finish(process, 75)
    assert not RunFolder(place).finished()


@pytest.mark.slow
def test_a_second_process_is_refused(place):
    """While one process holds a run another exits with 7 at once and names it; the run is not disturbed."""
    command = words("CartPole-v1", place, steps=10**6)  # longer than the second process takes to start
    first = start(command)
    saved_since(first, place, 0)
    said = finish(start(command), 7)
    assert f"in use by process {first.pid} on " in said
    assert "Traceback" not in said
    step = newest(place)
    first.terminate()
    finish(first, 75)
    assert newest(place) > step
