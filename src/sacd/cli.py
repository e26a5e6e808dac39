"""The command line: train, sweep, reproduce, evaluate, report, doctor. Flags are the configuration's fields.

argparse, because an error is then one sentence, the flags carry ranges and units from config.py's own table, and
`sacd --help` loads nothing. Each command imports what it needs when it runs; torch comes last.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from sacd import config, engine
from sacd.errors import CheckpointError, SacdError, UsageError
from sacd.words import build_parser, hyphens

MOST_SEEDS = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    words = [hyphens(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    debug = "--debug" in words
    try:
        parser = build_parser()
        namespace, unknown = parser.parse_known_args(words)
        if unknown:
            commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
            commands.choices[namespace.command].refuse(unknown[0])
        engine.bound(namespace.fields.get("threads", 0))
        COMMANDS[namespace.command](namespace)
    except SacdError as error:
        if debug:
            traceback.print_exc()
        print(f"sacd: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `sacd report | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


def look_here_for(env: str) -> None:
    """A module that is named with an environment may lie in the current folder; what is installed goes before it."""
    if ":" in env and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def train(namespace: argparse.Namespace) -> None:
    from sacd.envs import names

    look_here_for(namespace.env)
    env = names.resolve(namespace.env)
    preset = namespace.preset or ("paper" if names.is_atari(env) else "classic")
    chosen = config.make(env, preset, **namespace.fields)
    folder = namespace.run or Path("runs") / f"{names.short(env)}_{preset}_s{chosen.seed}"
    if env != namespace.env:
        print(f"{namespace.env} is {env}.")

    engine.prepare(chosen.threads)
    from sacd.commands import train_one

    train_one(chosen, preset, folder)


def sweep(namespace: argparse.Namespace) -> None:
    if "seed" in namespace.fields:
        raise UsageError("a sweep takes --seeds, how many or which: --seeds 5, or --seeds 7,8.")
    configs, preset = many(namespace, namespace.preset)
    engine.prepare(configs[0].threads)
    from sacd.sweep import sweep as run

    failed = run(configs, preset, namespace.out)
    if failed:
        raise failures(failed)


def failures(count: int) -> SacdError:
    """What a sweep ends with where not all went well."""
    runs = "1 run" if count == 1 else f"{count} runs"
    return SacdError(f"{runs} failed; error.log in each one's folder says why. The same command tries again.")


def reproduce(namespace: argparse.Namespace) -> None:
    if "seed" in namespace.fields:
        raise UsageError("an experiment takes --seeds, how many or which: --seeds 5, or --seeds 7,8.")
    from sacd.envs import names

    configs, preset = many(namespace, namespace.preset)
    if not names.is_atari(configs[0].env):
        raise UsageError("the paper's experiment is played on Atari games; for others there is 'sacd sweep'.")
    engine.prepare(configs[0].threads)
    from sacd.reproduce import reproduce as run

    failed = run(configs, preset, namespace.out or Path("runs") / preset)
    if failed:
        raise failures(failed)


def many(namespace: argparse.Namespace, preset: str | None) -> tuple[list[config.Config], str]:
    """The runs of --games and --seeds, and their preset."""
    from sacd.envs import names

    look_here_for(namespace.games)
    games = names.PAPER_GAMES if namespace.games == "paper" else [g for g in namespace.games.split(",") if g.strip()]
    envs = list(dict.fromkeys(names.resolve(game.strip()) for game in games))
    if not envs or len({names.is_atari(env) for env in envs}) > 1:
        raise UsageError("name the --games: Atari games, or other environments, but not both in one program.")
    preset = preset or ("paper" if names.is_atari(envs[0]) else "classic")
    seeds = seed_numbers(namespace.seeds)
    return [config.make(env, preset, **(namespace.fields | {"seed": s})) for env in envs for s in seeds], preset


def seed_numbers(text: str) -> list[int]:
    """--seeds: how many, or which."""
    try:
        numbers = [config.steps_number(part) for part in text.split(",") if part.strip()]
    except (ValueError, OverflowError):
        raise UsageError(f"--seeds '{text}': say how many (5), or which, with commas between (7,8).") from None
    seeds = numbers if "," in text else list(range(numbers[0])) if numbers and numbers[0] <= MOST_SEEDS else []
    if not 0 < len(seeds) <= MOST_SEEDS:
        raise UsageError(f"--seeds {text}: take 1 to {MOST_SEEDS} seeds.")
    return list(dict.fromkeys(seeds))


def evaluate(namespace: argparse.Namespace) -> None:
    from sacd.runs import RunFolder

    if not namespace.run.is_dir():
        raise CheckpointError(f"there is no run at {namespace.run}. 'sacd train ENV' makes one under runs/.")
    folder = RunFolder(namespace.run)
    chosen = folder.config()
    module = chosen.env.partition(":")[0] if ":" in chosen.env else None
    if module != namespace.env_module:
        raise UsageError(
            f"{namespace.run}/config.json names the environment {chosen.env}: its code would run. "
            f"If you trust it, add --env-module {module}."
            if module
            else f"--env-module: {chosen.env} is in no module of its own."
        )
    look_here_for(chosen.env)
    if namespace.episodes is not None:
        try:
            chosen = config.changed(chosen, eval_episodes=config.convert("eval_episodes", namespace.episodes))
        except UsageError as error:
            raise UsageError(str(error).replace(config.flag("eval_episodes"), "--episodes")) from None

    engine.prepare(chosen.threads)
    from sacd.scoring import evaluate_one

    wanted = [p for p in ("greedy", "sampled") if getattr(namespace, p)]
    evaluate_one(chosen, folder, wanted or ["greedy", "sampled"])


def report(namespace: argparse.Namespace) -> None:
    from sacd.report import write

    write(namespace.runs, namespace.out, namespace.archive)


def doctor(namespace: argparse.Namespace) -> None:
    configs, _ = many(namespace, None)
    engine.prepare(0)
    from sacd.doctor import examine

    examine()
    if namespace.bench:
        from sacd.rates import bench

        bench(configs, namespace.seconds)


COMMANDS = {
    "train": train, "sweep": sweep, "reproduce": reproduce, "evaluate": evaluate, "report": report, "doctor": doctor,
}  # fmt: skip
