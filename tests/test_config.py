"""The configuration: what is taken, what is refused and in which words, and that files give back what was meant."""

import json
import math
from dataclasses import FrozenInstanceError

import pytest

from sacd import config
from sacd.config import FIELDS, PRESETS, Config, convert, flag, from_dict, make, to_dict
from sacd.errors import UsageError

PAPER = {  # the appendix table, and algorithm 1
    "batch_size": 64, "buffer_size": 1_000_000, "gamma": 0.99, "learning_rate": 3e-4, "steps": 100_000,
    "learning_starts": 20_000, "train_freq": 4, "gradient_steps": 1, "target_update_interval": 8000, "tau": 1.0,
    "target_entropy_ratio": "0.98", "n_step": 1, "clip_reward": True, "init": "he", "frame_skip": 4, "stack": 4,
    "update_order": "sequential", "target_value": "exact", "actor_reduce": "sum", "time_limit": 27_000,
    "eval_episodes": 30, "eval_epsilon": 0.01, "sticky": 0.0, "max_pool": False, "life_loss": "terminal",
}  # fmt: skip


def test_the_defaults_are_the_papers():
    """Without any option the numbers of the paper's table are used."""
    chosen = to_dict(make("ALE/Pong-v5"))
    assert {k: chosen[k] for k in PAPER} == PAPER
    assert make("ALE/Pong-v5") == make("ALE/Pong-v5", "paper")


def test_the_authors_preset_differs_where_his_code_does():
    """`author` changes the named options only: the differences of text and code, one field each."""
    paper, author = (to_dict(make("ALE/Pong-v5", p)) for p in ("paper", "author"))
    assert {k: author[k] for k in author if author[k] != paper[k]} == {
        "target_value": "sampled", "update_order": "simultaneous", "temperature_loss": "log_alpha",
        "actor_reduce": "mean", "tie_init": True, "life_loss": "reset", "noop_max": 0, "time_limit_terminal": True,
    }  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_valid(preset):
    """Each preset names known fields, passes every check, and its entropy can be reached with two actions or more."""
    assert PRESETS[preset].keys() <= FIELDS.keys()
    chosen = make("CartPole-v1", preset)
    for actions in (1, 2, 3, 18):
        config.check_entropy(chosen, actions)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_configuration_survives_a_file(preset):
    """What is written to JSON and read again is the same configuration, tuples included."""
    chosen = make("ALE/Pong-v5", preset, hidden=(64, 32), seed=5, learning_rate=1e-5, alpha="exp(1, 0.1)")
    assert from_dict(json.loads(json.dumps(to_dict(chosen)))) == chosen


def test_a_configuration_cannot_be_changed():
    """A configuration is frozen; `changed` gives a checked copy."""
    chosen = make("CartPole-v1")
    with pytest.raises(FrozenInstanceError):
        chosen.gamma = 0.5  # type: ignore[misc]
    assert config.changed(chosen, gamma=0.5).gamma == 0.5
    with pytest.raises(UsageError, match="--gamma"):
        config.changed(chosen, gamma=1.5)


def test_an_unknown_key_is_an_error():
    """A key that is no field is refused with the nearest one."""
    with pytest.raises(UsageError, match=r"unknown field 'gama'\. Did you mean gamma"):
        from_dict({"env": "CartPole-v1", "gama": 0.9})


def test_an_unknown_preset_is_an_error():
    """A preset that does not exist is refused with the nearest one and the list."""
    with pytest.raises(UsageError, match=r"unknown preset 'papr'\. Did you mean paper.*author"):
        make("CartPole-v1", "papr")


def test_every_field_is_described():
    """Each field has a sentence, and a range if it is a number."""
    for name, field in FIELDS.items():
        assert len(field.metadata["doc"]) > 5, name
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert field.metadata["low"] <= field.default <= field.metadata["high"], name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("steps", "100000", 100_000), ("steps", "100_000", 100_000), ("steps", "100k", 100_000),
        ("steps", "1e5", 100_000),
        ("steps", "2M", 2_000_000), ("steps", "1.5K", 1500),
        ("gamma", "0.9", 0.9), ("gamma", "1", 1.0), ("learning_rate", "3e-4", 3e-4),
        ("hidden", "64", (64,)), ("hidden", "64,32", (64, 32)), ("hidden", "1k, 512", (1000, 512)),
        ("clip_reward", "true", True), ("clip_reward", "No", False), ("clip_reward", "0", False),
        ("alpha", "linear(1, 0.1)", "linear(1, 0.1)"),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(name, text, value):
    """Values are understood as they are commonly typed, and have the field's own type."""
    found = convert(name, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("steps", ""), ("steps", "k"), ("steps", "1.5"), ("steps", "ten"), ("steps", "nan"), ("steps", "inf"),
        ("steps", "1e999"), ("steps", "100kk"), ("steps", "0x10"), ("gamma", "high"), ("gamma", ""),
        ("hidden", "a,b"), ("hidden", "64;64"), ("clip_reward", "maybe"),
    ],
)  # fmt: skip
def test_words_that_are_no_values(name, text):
    """What is not understood is named with its option."""
    with pytest.raises(UsageError, match=f"{flag(name)}: '{text}' is not"):
        convert(name, text)


@pytest.mark.parametrize(
    "values",
    [
        {"seed": -1}, {"seed": 2**32}, {"seed": 2**70}, {"steps": 0}, {"batch_size": 0}, {"gamma": 1.01},
        {"gamma": -0.1}, {"gamma": math.nan}, {"learning_rate": 0.0}, {"learning_rate": math.inf}, {"tau": 0.0},
        {"tau": 1.5}, {"n_step": 0}, {"train_freq": 0}, {"learning_starts": -1}, {"hidden": ()}, {"hidden": (64, 0)},
        {"sticky": 1.1}, {"stack": 0}, {"frame_skip": 0}, {"eval_episodes": 0}, {"save_every": 0}, {"threads": -1},
        {"n_envs": 0}, {"alpha_init": 0.0}, {"target_value": "samples"}, {"life_loss": ""}, {"precision": "fp16"},
        {"steps": 1.5}, {"steps": "100"}, {"steps": True}, {"gamma": "0.9"}, {"clip_reward": 1}, {"hidden": (1.5,)},
        {"device": "gpu"}, {"device": "cuda:x"}, {"device": "cuda:-1"},
        {"batch_size": 65, "buffer_size": 64}, {"alpha_min": 2.0, "alpha_max": 1.0},
        {"alpha": "-1"}, {"alpha": "linear(1, -1)"}, {"alpha": "1", "target_entropy": "0.5"}, {"alpha": "one"},
        {"alpha": "nan"}, {"alpha": "inf"}, {"alpha": "linear(1, nan)"},
        {"alpha": "exp(0, 1)"}, {"alpha": "exp(1, inf)"},
        {"target_entropy_ratio": "nan"}, {"target_entropy_ratio": "linear(nan, 0.5)"}, {"target_entropy": "nan"},
        {"target_entropy_ratio": "linear(0.5)"}, {"target_entropy_ratio": "step(1, 2)"},
    ],
    ids=str,
)  # fmt: skip
def test_values_that_cannot_work(values):
    """Whatever is out of range, of another type, not finite or contradictory is refused when it is said."""
    with pytest.raises(UsageError) as caught:
        make("CartPole-v1", "classic", **values)
    assert any(flag(k) in str(caught.value) or str(v) in str(caught.value) for k, v in values.items())


@pytest.mark.parametrize(
    ("values", "actions", "said"),
    [
        ({"target_entropy_ratio": "1.0"}, 6, "alpha would rise for ever"),
        ({"target_entropy_ratio": "-0.98"}, 6, "alpha would fall for ever"),
        ({"target_entropy_ratio": "linear(0.5, 1.2)"}, 6, "alpha would rise for ever"),
        ({"target_entropy": "-6"}, 6, "alpha would fall for ever"),
        ({"target_entropy": "0.7"}, 2, "alpha would rise for ever"),
        ({"target_entropy": "0"}, 2, "alpha would fall for ever"),
    ],
)
def test_an_entropy_that_no_policy_has(values, actions, said):
    """A target entropy outside (0, log|A|) is refused with the reason, for alpha would run away."""
    with pytest.raises(UsageError, match=said):
        config.check_entropy(make("CartPole-v1", **values), actions)


def test_an_entropy_is_no_matter_without_a_learned_temperature():
    """With a fixed temperature, or a single action, any target entropy is allowed."""
    config.check_entropy(make("CartPole-v1", target_entropy_ratio="1.5"), 1)
    config.check_entropy(make("CartPole-v1", target_entropy_ratio="1.5", alpha="0.1"), 6)


def test_defaults_of_the_class_are_valid():
    """The bare class, named an environment, passes its own checks."""
    config.validate(Config(env="CartPole-v1"))
