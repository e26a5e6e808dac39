"""What a run is: one frozen dataclass whose fields are the command line's flags, the help text and config.json.

Each field carries its unit, range and meaning; presets are named sets of values. Nothing here imports torch, so that a
mistake is reported at once.
"""

import math
import re
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

from sacd import presets, schedules
from sacd.errors import UsageError, nearest
from sacd.presets import PRESETS

MOST_ALPHA = 1e12


def opt(
    default: Any, doc: str, low: float | None = None, high: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    """A field with its meaning, inclusive range or choices."""
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class Config:
    """Every choice of a run. Steps are agent steps (after frame skip) unless said otherwise."""

    # the run
    env: str = opt("", "environment: an Atari game or a Gymnasium id")
    seed: int = opt(0, "seed of the run: everything random is a function of it", 0, 2**32 - 1)
    steps: int = opt(100_000, "length of the run, in agent steps over all lanes", 1, 10**12)
    n_envs: int = opt(1, "lanes: environments stepped together by one run", 1, 4096)
    async_envs: bool = opt(False, "Gymnasium lanes in worker processes instead of one process")

    # the algorithm (the paper's appendix table)
    batch_size: int = opt(64, "transitions in a gradient step", 1, 65_536)
    buffer_size: int = opt(1_000_000, "observations the replay holds", 2, 10**9)
    gamma: float = opt(0.99, "discount a step", 0.0, 1.0)
    n_step: int = opt(1, "rewards summed before the bootstrap", 1, 100)
    learning_rate: float = opt(3e-4, "Adam's step size, for critics, actor and temperature", 1e-12, 1.0)
    adam_eps: float = opt(1e-8, "Adam's epsilon", 0.0, 1.0)
    train_freq: int = opt(4, "agent steps between learning rounds", 1, 10**9)
    gradient_steps: int = opt(1, "gradient steps in a learning round", 1, 10_000)
    learning_starts: int = opt(20_000, "uniformly random steps before learning", 0, 10**12)
    target_update_interval: int = opt(8000, "agent steps between target moves; 0: after every update", 0, 10**9)
    tau: float = opt(1.0, "share of the critic in a move of the targets; 1 is a hard copy", 1e-9, 1.0)
    update_order: str = opt(
        "sequential", "actor sees the critics after or before their step", choices=("sequential", "simultaneous")
    )
    target_value: str = opt("exact", "V(s') over all actions, or at one sampled", choices=("exact", "sampled"))
    twins: str = opt(
        "min", "of the twin critics, in target and actor: the smaller, or the mean", choices=("min", "mean")
    )
    actor_reduce: str = opt("sum", "actor loss over actions", choices=("sum", "mean"))
    clip_reward: bool = opt(True, "learn from rewards clipped to [-1, 1]; scores stay raw")

    # the temperature
    target_entropy_ratio: str = opt("0.98", "wanted entropy as a share of log|A|: a number or schedule")
    target_entropy: str = opt("", "wanted entropy in nats instead: a number or schedule")
    alpha: str = opt("", "fixed temperature, in reward units, instead of a learned one: a number or schedule")
    alpha_init: float = opt(1.0, "first value of a learned temperature", 1e-12, 1e12)
    alpha_min: float = opt(0.0, "lower clamp of a learned temperature; 0: none", 0.0, 1e12)
    alpha_max: float = opt(0.0, "upper clamp of a learned temperature; 0: none", 0.0, 1e12)
    temperature_loss: str = opt("alpha", "factor of the temperature loss (eq. 11)", choices=("alpha", "log_alpha"))

    # the networks
    torso: str = opt("auto", "auto: by the observation's shape", choices=("auto", "nature", "mlp"))
    conv_channels: tuple[int, ...] = opt((32, 64, 64), "channels of the convolutions (images)", 1, 4096)
    conv_kernels: tuple[int, ...] = opt((8, 4, 3), "their kernels' widths, multiples of the strides", 1, 64)
    conv_strides: tuple[int, ...] = opt((4, 2, 1), "their strides; there is no padding", 1, 64)
    dense: tuple[int, ...] = opt((512,), "units of the hidden layers after the convolutions (images)", 1, 65_536)
    hidden: tuple[int, ...] = opt((256, 256), "units of the MLP's hidden layers (vectors)", 1, 65_536)
    activation: str = opt("relu", "of the MLP's hidden layers", choices=("relu", "tanh", "elu"))
    init: str = opt("he", "He: normal, gain sqrt 2, all weights; torch: its default", choices=("he", "torch"))
    tie_init: bool = opt(False, "actor and first critic start from equal weights")

    # the environment
    frame_skip: int = opt(4, "emulator frames an agent step (Atari)", 1, 60)
    stack: int = opt(4, "frames in an observation (images)", 1, 16)
    max_pool: bool = opt(False, "pixel-wise maximum of the last two frames (Atari)")
    sticky: float = opt(0.0, "chance that the emulator repeats the last action", 0.0, 1.0)
    full_actions: bool = opt(False, "all 18 actions instead of the game's own (Atari)")
    noop_max: int = opt(30, "random no-op frames at a start: 0 to this many (Atari)", 0, 1000)
    fire_reset: bool = opt(True, "press FIRE at a start where the game has it (Atari)")
    life_loss: str = opt(
        "terminal",
        "a lost life: ends the return and play goes on, is ignored, or also resets the game (Atari)",
        choices=("terminal", "ignore", "reset"),
    )
    time_limit: int = opt(27_000, "agent steps in an episode (Atari; others: their own)", 1, 10**9)
    time_limit_terminal: bool = opt(False, "learn a time limit as a terminal state instead of bootstrapping")
    # evaluation
    eval_episodes: int = opt(30, "full episodes an evaluation", 1, 100_000)
    eval_lanes: int = opt(30, "evaluation episodes played side by side", 1, 4096)
    eval_noop_min: int = opt(1, "random no-op frames at the start of a final game, at least (Atari)", 0, 1000)
    eval_noop_max: int = opt(30, "random no-op frames at the start of a final game, at most (Atari)", 0, 1000)
    eval_epsilon: float = opt(0.01, "share of uniform actions in greedy evaluation", 0.0, 1.0)
    # execution
    device: str = opt("auto", "auto (a GPU where there is one), cpu, cuda or cuda:N")
    precision: str = opt("fp32", "of the networks' inner layers; weights stay fp32", choices=("fp32", "bf16"))
    threads: int = opt(0, "CPU threads for learning; 0: all cores for images, one for vectors", 0, 1024)
    log_every: int = opt(1000, "agent steps between rows of metrics.jsonl", 1, 10**9)
    save_every: int = opt(10_000, "agent steps between checkpoints", 1, 10**9)


FIELDS: dict[str, Field] = {f.name: f for f in fields(Config)}
_TYPES: dict[str, Any] = get_type_hints(Config)


def steps_number(text: str) -> int:
    """An integer as people write it: 100000, 100_000, 100k, 1e5, 2M."""
    unit = {"k": 10**3, "m": 10**6}.get(text[-1:].lower())
    number = float(text[:-1] if unit else text) * (unit or 1)
    if number != int(number):
        raise ValueError
    return int(number)


def _switch(text: str) -> bool:
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]


def convert(name: str, text: str) -> Any:
    """A field's value from the command line's text."""
    kind = _TYPES[name]
    try:
        if get_args(kind):
            return tuple(steps_number(part) for part in text.replace(",", " ").split())
        parse: Any = {int: steps_number, float: float, bool: _switch, str: str}[kind]
        return parse(text)
    except (ValueError, KeyError, OverflowError):
        wanted = {int: "a whole number (100k and 1e5 are understood)", float: "a number", bool: "true or false"}
        raise UsageError(
            f"{flag(name)}: '{text}' is not {wanted.get(kind, 'whole numbers such as 256,256')}."
        ) from None


def flag(name: str) -> str:
    """The command line's name of a field."""
    return "--" + name.replace("_", "-")


def make(env: str, preset: str | None = None, **values: Any) -> Config:
    """A checked configuration: defaults, then the preset, then the values given."""
    if values.get("target_entropy") and "target_entropy_ratio" in values:
        raise UsageError("--target-entropy and --target-entropy-ratio are two ways to say one thing; give one of them.")
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"unknown preset '{preset}'.{nearest(preset, PRESETS)} Presets: {', '.join(PRESETS)}.")
    return from_dict({**presets.values(preset or "paper", env), **values, "env": env})


def from_dict(values: dict[str, Any]) -> Config:
    """A checked configuration from plain data; an unknown key is an error."""
    for key in values:
        if key not in FIELDS:
            raise UsageError(f"unknown field '{key}'.{nearest(key, FIELDS)} 'sacd train --help' lists all fields.")
    known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    config = Config(**known)
    validate(config)
    return config


def to_dict(config: Config) -> dict[str, Any]:
    """Plain data that `from_dict` takes back."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}


def changed(config: Config, **values: Any) -> Config:
    """A checked copy with some fields changed."""
    new = replace(config, **values)
    validate(new)
    return new


def _check_range(name: str, value: Any) -> None:
    meta, kind = FIELDS[name].metadata, _TYPES[name]
    if value == ():
        raise UsageError(f"{flag(name)}: name at least one layer, such as 256,256.")
    for part in value if isinstance(value, tuple) else (value,):
        number = isinstance(part, int | float) and not isinstance(part, bool)
        wanted = int if get_args(kind) else kind
        if wanted in (int, float) and not (number and math.isfinite(part) and (wanted is float or part == int(part))):
            raise UsageError(f"{flag(name)}: {part!r} is not a {'whole' if wanted is int else 'finite'} number.")
        if wanted in (bool, str) and not isinstance(part, wanted):
            raise UsageError(f"{flag(name)}: {part!r} is not a {wanted.__name__}.")
        if number and not (meta["low"] is None or meta["low"] <= part <= meta["high"]):
            ends = " to ".join(f"{end:.12g}" for end in (meta["low"], meta["high"]))
            raise UsageError(f"{flag(name)}: {part:.12g} is out of range; take {ends}.")
    if meta["choices"] and value not in meta["choices"]:
        raise UsageError(f"{flag(name)}: '{value}' is not one of {', '.join(meta['choices'])}.")


def validate(config: Config) -> None:
    """Refuse what cannot work, in one sentence each."""
    for name in FIELDS:
        _check_range(name, getattr(config, name))
    if config.n_step + config.stack >= config.buffer_size // config.n_envs:
        raise UsageError(f"--buffer-size {config.buffer_size} is too small for --n-step {config.n_step} in each lane.")
    if config.batch_size > config.buffer_size:
        raise UsageError(f"--batch-size {config.batch_size} is larger than --buffer-size {config.buffer_size}.")
    if config.eval_noop_min > config.eval_noop_max:
        raise UsageError(f"--eval-noop-min {config.eval_noop_min} is more than --eval-noop-max {config.eval_noop_max}.")
    if config.n_envs > config.steps:
        raise UsageError(f"--n-envs {config.n_envs} is more than --steps {config.steps}: not one step in each lane.")
    if not len(config.conv_channels) == len(config.conv_kernels) == len(config.conv_strides):
        raise UsageError("--conv-channels, --conv-kernels and --conv-strides must name equally many layers.")
    if any(kernel % stride for kernel, stride in zip(config.conv_kernels, config.conv_strides, strict=True)):
        raise UsageError("--conv-kernels must be multiples of their --conv-strides, as 8,4,3 are of 4,2,1.")
    _check_temperature(config)
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", config.device):
        raise UsageError(f"--device: '{config.device}' is not auto, cpu, cuda or cuda:N.")


def _check_temperature(config: Config) -> None:
    if config.alpha_max and config.alpha_max < max(config.alpha_min, 1e-12):
        raise UsageError(f"--alpha-max {config.alpha_max:g} is below --alpha-min {config.alpha_min:g}.")
    low, high = config.alpha_min, config.alpha_max or math.inf
    if not config.alpha and not low <= config.alpha_init <= high:
        raise UsageError(f"--alpha-init {config.alpha_init:g} is not between --alpha-min and --alpha-max.")
    if config.alpha and max(schedules.ends(config.alpha)) > MOST_ALPHA:
        raise UsageError(f"--alpha {config.alpha} is out of range; take 0 to {MOST_ALPHA:g}.")
    if config.alpha and (config.target_entropy or min(schedules.ends(config.alpha)) < 0):
        raise UsageError("--alpha fixes the temperature: it must not be negative, and no target entropy goes with it.")
    for text in (config.target_entropy_ratio, config.target_entropy):
        if text:
            schedules.parse(text)


def check_entropy(config: Config, actions: int) -> None:
    """Refuse a target entropy that no policy over so many actions can have: alpha would run away for ever."""
    if config.alpha or actions == 1:
        return
    most = math.log(actions)
    scale, text = (1.0, config.target_entropy) if config.target_entropy else (most, config.target_entropy_ratio)
    for end in schedules.ends(text):
        target = end * scale
        if target <= 0:
            why = "no policy has a negative entropy, so alpha would fall for ever"
        elif target >= most:
            why = "only the uniform policy comes that close, so alpha would rise for ever"
        else:
            continue
        raise UsageError(
            f"target entropy {target:.4g} nats is unreachable with {actions} actions, where entropy lies between 0 "
            f"and log {actions} = {most:.4g}: {why}. Take a --target-entropy-ratio between 0 and 1, such as 0.5."
        )
