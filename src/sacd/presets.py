"""Named sets of values: what departs from the defaults, which are the paper's."""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    # The paper's text: Algorithm 1, equations 10-12 and the appendix table are the defaults of config.py.
    "paper": {},
    # The author's code to the letter, where it differs from the paper's text (docs/protocol.md).
    "author": {
        "target_value": "sampled",
        "update_order": "simultaneous",
        "temperature_loss": "log_alpha",
        "actor_reduce": "mean",
        "tie_init": True,
        "life_loss": "reset",
        "noop_max": 0,
        "time_limit_terminal": True,
    },
    # Small problems: a reachable target entropy, soft targets, early learning. Not from the paper.
    "classic": {
        "steps": 15_000,
        "buffer_size": 100_000,
        "learning_rate": 5e-4,
        "train_freq": 1,
        "n_step": 5,
        "learning_starts": 1000,
        "target_update_interval": 0,
        "tau": 0.01,
        "target_entropy_ratio": "linear(0.9, 0.1)",
        "alpha_init": 0.2,
        "clip_reward": False,
        "stack": 1,
        "eval_epsilon": 0.0,
        "log_every": 500,
    },
}

# And in one game: gym 0.10.9's SpaceInvadersDeterministic-v4 skips three frames, all others four.
IN_GAME: dict[str, dict[str, dict[str, Any]]] = {"author": {"ALE/SpaceInvaders-v5": {"frame_skip": 3}}}


def values(preset: str, env: str) -> dict[str, Any]:
    """What a preset sets in an environment."""
    return PRESETS[preset] | IN_GAME.get(preset, {}).get(env, {})
