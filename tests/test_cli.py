"""The command line: every mistake is one sentence and an exit code, at once and without a trace on the disk."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sacd import config, memory
from sacd.cli import COMMANDS, main
from tiny import broken_off, finish, start, words
from worlds import world

WRONG = [
    # what was typed, the exit code, and words of the answer
    ("", 2, "command"),
    ("trian Pong", 2, "unknown command 'trian'. Did you mean train?"),
    ("train", 2, "ENV"),
    ("train Pnog", 2, "unknown environment 'Pnog'. Did you mean Pong"),
    ("train CartPol-v1", 2, "Did you mean CartPole-v1"),
    ("train Pong --step 5", 2, "unknown option --step. Did you mean --steps"),
    ("train Pong --learning_rat=1e-3", 2, "Did you mean --learning-rate"),
    ("train Pong Breakout", 2, "Breakout"),
    ("train Pong --preset papr", 2, "unknown preset 'papr'. Did you mean paper?"),
    ("train Pong --steps", 2, "--steps"),
    ("train Pong --steps 0", 2, "--steps: 0 is out of range"),
    ("train Pong --steps 1.5", 2, "--steps: '1.5' is not a whole number"),
    ("train Pong --steps nan", 2, "--steps: 'nan' is not"),
    ("train Pong --gamma nan", 2, "--gamma: nan is not"),
    ("train Pong --gamma 2", 2, "--gamma: 2 is out of range; take 0 to 1"),
    ("train Pong --seed -1", 2, "--seed: -1 is out of range"),
    ("train Pong --seed 4294967296", 2, "--seed"),
    ("train Pong --learning-rate inf", 2, "--learning-rate"),
    ("train Pong --clip-reward maybe", 2, "--clip-reward: 'maybe' is not true or false"),
    ("train Pong --target-value samples", 2, "one of exact, sampled"),
    ("train Pong --batch-size 100 --buffer-size 50", 2, "--batch-size 100 is larger than --buffer-size 50"),
    ("train Pong --device tpu", 2, "--device: 'tpu'"),
    ("train Pong --target-entropy-ratio -0.98 --run r", 2, "alpha would fall for ever"),
    ("train CartPole-v1 --target-entropy-ratio nan --steps 9", 2, "nan"),
    ("train CartPole-v1 --target-entropy 0.7", 2, "alpha would rise for ever"),
    ("train CartPole-v1 --torso nature", 3, "--torso nature does not fit"),
    ("train Pong --torso mlp", 3, "--torso mlp does not fit"),
    (f"train {world('Continuous')}", 3, "Continuous actions need another agent"),
    ("train Pendulum-v1", 3, "Continuous actions need another agent"),
    (f"train {world('DictSeen')}", 3, "FlattenObservation"),
    (f"train {world('TupleSeen')}", 3, "FlattenObservation"),
    (f"train {world('SmallImage')}", 3, "too small"),
    ("train nowhere:Env-v0", 3, "nowhere"),
    ("evaluate runs/none", 4, "there is no run at runs/none"),
    ("evaluate .", 4, "config.json"),
    ("report runs/none", 4, "there is no run at runs/none"),
    ("report .", 4, "no run"),
    ("train CartPole-v1 --buffer-size 1e9 --steps 1e9", 5, "--buffer-size"),
    ("train Pong --buffer-size 1e9 --steps 1e9", 5, "--buffer-size"),
]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sentence(said: str) -> str:
    """The one sentence that an error is."""
    lines = said.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("sacd: "), said
    assert "Traceback" not in said
    return lines[0]


@pytest.mark.parametrize(("typed", "code", "answer"), WRONG, ids=[w[0] for w in WRONG])
def test_a_mistake_is_a_sentence(here, capsys, typed, code, answer):
    """One line on standard error, the right exit code, and nothing on the disk."""
    assert main(typed.split()) == code
    assert answer in sentence(capsys.readouterr().err)
    assert list(here.iterdir()) == []


def test_too_much_memory_is_said_before_it_is_taken(here, capsys, monkeypatch):
    """The sentence gives the need, what is free, and a buffer that would fit; that buffer is then accepted."""
    monkeypatch.setattr(memory, "free_memory", lambda: 5 * 10**9)
    typed = ["train", "Pong", "--steps", "2M", "--run", "r"]
    assert main(typed) == 5
    said = sentence(capsys.readouterr().err)
    assert "8.1 GB" in said and "5.0 GB are free" in said
    fits = int(said.partition("--buffer-size 1000000 to ")[2].split()[0])
    chosen = config.make("ALE/Pong-v5", steps=2_000_000, buffer_size=fits)
    spec, parameters = pong()
    assert memory.check(spec, chosen, 1, parameters, torch.device("cpu")) <= 5 * 10**9
    assert not (here / "r").exists()


def pong() -> tuple:
    """Pong's spec and network size."""
    from sacd import nets
    from sacd.types import Spec

    spec = Spec((84, 84), True, 4, 6)
    return spec, nets.parameters(nets.build(spec, config.make("ALE/Pong-v5")))


def test_a_run_that_is_a_file(here, capsys):
    """A file in the run's place is exit code 5, and stays as it was."""
    (here / "file").write_text("mine")
    for place in ("file", "file/run"):
        assert main(["train", "CartPole-v1", "--run", place]) == 5
        assert "file" in capsys.readouterr().err.strip().splitlines()[-1]
    assert (here / "file").read_text() == "mine"
    assert [p.name for p in here.iterdir()] == ["file"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_cuda(here, capsys):
    """Asked for a device that is not there, the command says so with exit code 5."""
    for name in ("cuda", "cuda:1"):
        assert main(["train", "CartPole-v1", "--device", name]) == 5
        assert f"--device {name}" in sentence(capsys.readouterr().err)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(("name", "code"), [("NanReward", 6), ("NanObs", 6), ("Raiser", 3)])
def test_a_faulty_environment_ends_the_run(here, capsys, name, code):
    """A number that is none exits with 6, an exception with 3; the traceback is in the run's error.log only."""
    assert main(words(world(name), here / "run")) == code
    said = capsys.readouterr().err
    assert said.strip().splitlines()[-1].startswith(f"sacd: {world(name)} r") and "Traceback" not in said
    assert "Traceback" in (here / "run" / "error.log").read_text()


def test_debug_shows_the_traceback(capsys):
    """--debug shows where an error comes from, before the sentence."""
    assert main(["train", "Pnog", "--debug"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and said.strip().splitlines()[-1].startswith("sacd: unknown environment")


def test_mistakes_and_help_do_not_load_torch(here):
    """What needs no arithmetic is answered without torch, and so at once."""
    typed = [w[0].split() for w in WRONG if w[1] == 2 and "entropy" not in w[0]]
    typed += [["--help"], ["--version"], *([c, "--help"] for c in COMMANDS)]
    code = f"""
import sys
from sacd.cli import main
for words in {typed!r}:
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    assert code == (0 if "--help" in words or "--version" in words else 2), words
    assert "torch" not in sys.modules, words
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(here.iterdir()) == []


def test_help_names_every_field(capsys, monkeypatch):
    """`sacd train --help` shows each field's flag, meaning, default and range."""
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for name, field in config.FIELDS.items():
        if name != "env":
            assert config.flag(name) in said
            assert field.metadata["doc"] in said, name
    assert "(default 64; 1 to 65536)" in said
    assert "exit codes: 0 done, 1 some runs failed, 2 usage" in said


def test_both_spellings_of_a_flag(here, capsys):
    """--save-every and --save_every are the same; a switch may be turned off in three ways."""
    parts = ["train", "CartPole-v1", "--run", "r", "--steps", "20", "--threads", "1", "--eval_episodes", "1"]
    assert main([*parts, "--save_every", "10", "--no-clip-reward"]) == 0
    for off in (["--clip-reward", "false"], ["--clip_reward", "no"], ["--no-clip_reward"]):
        capsys.readouterr()
        assert main([*parts, "--save-every", "10", *off]) == 0
        assert "is finished" in capsys.readouterr().out


def test_warnings_are_given_before_the_work(here, capsys):
    """What is allowed but hardly meant is said: learning that never starts, an environment with nothing to choose."""
    assert main(words(world("OneAction"), here / "r", steps=50, learning_starts=50)) == 0
    said = capsys.readouterr().err
    assert "no update will happen" in said and "there is nothing to learn" in said


def test_evaluate_gives_the_same_scores_twice(here, capsys):
    """Scores are a function of the run: the command prints those of evaluation.json, every time."""
    assert main(words("sacd/Catch-v0", here / "run", steps=200, eval_episodes=7)) == 0
    found = json.loads((here / "run" / "evaluation.json").read_text())
    capsys.readouterr()
    said = []
    for _ in range(2):
        assert main(["evaluate", "run"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    for policy in ("greedy", "sampled"):
        scores = found[policy]["scores"]
        assert len(scores) == 7 and found[policy]["mean"] == pytest.approx(statistics.fmean(scores))
        assert f"at step 200, {policy}: mean {found[policy]['mean']:.6g} (sample SD" in said[0]
    assert main(["evaluate", "run", "--greedy", "--episodes", "2"]) == 0
    one = capsys.readouterr().out
    assert one.count("\n") == 1 and "2 episodes" in one


@pytest.mark.slow
def test_evaluate_in_a_process_of_its_own(here):
    """The toy worlds are known to every command, not to `train` only."""
    finish(start(words("sacd/Catch-v0", here / "run", steps=200)))
    assert "sacd-Catch-v0 at step 200, greedy" in finish(start(["evaluate", str(here / "run")]))


def test_evaluate_takes_the_newest_sound_checkpoint(here, capsys):
    """A run under way is played from its newest checkpoint, and from the one before where that is damaged."""
    broken_off(here / "run")
    assert main(["evaluate", "run", "--sampled"]) == 0
    assert "at step 400, sampled" in capsys.readouterr().out
    (here / "run/checkpoints/step_000000000400/tensors.safetensors").unlink()
    assert main(["evaluate", "run", "--sampled"]) == 0
    said = capsys.readouterr()
    assert "at step 300, sampled" in said.out and "is taken instead" in said.err


def test_doctor_prints(capsys):
    """`sacd doctor` says what there is and what a run would use."""
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for word in (
        "processor",
        "memory",
        "20 of the paper's 20 games",
        "device",
        "precision",
        f"torch {torch.__version__}",
    ):
        assert word in said
