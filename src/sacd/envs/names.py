"""What people type, resolved to one environment: Atari games by any of their spellings, Gymnasium ids verbatim.

Nothing is built here, so that a wrong name is reported at once. An id that names a module (`module:Env-v0`) makes
Gymnasium import that module: it is accepted from the person at the keyboard only.
"""

import importlib.util
import re
from pathlib import Path

from sacd.errors import EnvError, UsageError, nearest

ATARI = "ALE/"

# The paper's games, in the order of its table.
PAPER_GAMES = (
    "Freeway", "MsPacman", "Enduro", "BattleZone", "Qbert", "SpaceInvaders", "BeamRider", "Assault", "Jamesbond",
    "Seaquest", "Asterix", "Kangaroo", "Alien", "RoadRunner", "Frostbite", "Amidar", "CrazyClimber", "Breakout",
    "UpNDown", "Pong",
)  # fmt: skip


def roms() -> dict[str, str]:
    """Atari games that are installed: CamelCase name to ROM name."""
    package = importlib.util.find_spec("ale_py")
    if package is None or package.origin is None:
        return {}
    stems = (p.stem for p in (Path(package.origin).parent / "roms").glob("*.bin"))
    return {"".join(part.capitalize() for part in re.split(r"_", stem)): stem for stem in sorted(stems)}


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_atari(env: str) -> bool:
    """Whether a resolved id is an Atari game."""
    return env.startswith(ATARI)


def rom(env: str) -> str:
    """The ROM of a resolved Atari id."""
    return roms()[env.removeprefix(ATARI).removesuffix("-v5")]


def short(env: str) -> str:
    """A resolved id as a folder's name."""
    return re.sub(r"[^\w.-]+", "-", env.removeprefix(ATARI).removesuffix("-v5"))


def resolve(name: str) -> str:
    """The environment's full id: `ALE/<Game>-v5` for Atari, else the Gymnasium id."""
    import gymnasium as gym  # noqa: PLC0415  a third of a second, not needed for --help

    import sacd.envs.toy  # noqa: PLC0415, F401  registers this package's own worlds

    if name in gym.registry and "ale_py" not in str(gym.registry[name].entry_point):
        return name
    if ":" in name:
        return name
    games = roms()
    bare = re.sub(r"(NoFrameskip|Deterministic)?-v\d+$", "", name.removeprefix(ATARI))
    by_key = {_key(game): game for game in games}
    if _key(bare) in by_key:
        return f"{ATARI}{by_key[_key(bare)]}-v5"
    if not games and (is_atari(name) or "NoFrameskip" in name):
        raise EnvError("Atari games need the package ale-py: pip install 'ale-py>=0.12'.")
    if not name:
        raise UsageError("name an environment: sacd train Pong, or any Gymnasium id such as CartPole-v1.")
    known = [*games, *(i for i in gym.registry if not i.startswith(("ALE/", "phys2d/", "tabular/", "GymV")))]
    hint = nearest(name, known) or " Games go by name (Pong), others by Gymnasium id (CartPole-v1)."
    raise UsageError(f"unknown environment '{name}'.{hint}")
