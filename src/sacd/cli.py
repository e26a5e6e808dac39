"""The command line: train, sweep, evaluate, report, doctor. Flags are the configuration's fields.

argparse, because an error is then one sentence, the flags carry ranges and units from config.py's own table, and
`sacd --help` loads nothing. Each command imports what it needs when it runs; torch comes last.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from sacd import __version__, config, engine
from sacd.errors import CheckpointError, SacdError, UsageError, nearest

EXIT_CODES = (
    "exit codes: 0 done, 2 usage, 3 environment, 4 checkpoint, 5 resources, 6 diverged, 7 run in use, "
    "75 interrupted and saved, 130 Ctrl-C"
)


class Parser(argparse.ArgumentParser):
    """Errors as one sentence, with the nearest known word."""

    def __init__(self, **kwargs: Any):
        super().__init__(allow_abbrev=False, **kwargs)
        self.set_defaults(fields={})

    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message and "command" in message:
            word = message.split("'")[1]
            raise UsageError(f"unknown command '{word}'.{nearest(word, COMMANDS)} Commands: {', '.join(COMMANDS)}.")
        raise UsageError(f"{message}. See '{self.prog} --help'.")

    def refuse(self, word: str) -> NoReturn:
        """An option that this command does not have."""
        known = [o for a in self._actions for o in a.option_strings]
        hint = nearest(word.split("=", maxsplit=1)[0], known)
        if not word.startswith("-"):
            raise UsageError(f"'{word}' is one word too many; a name with spaces goes in quotes: \"Space Invaders\".")
        raise UsageError(f"unknown option {word}.{hint} See '{self.prog} --help'.")


class Field(argparse.Action):
    """A configuration field given on the command line."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        values = "false" if option and option.startswith("--no-") else "true" if values is None else values
        namespace.fields = {**namespace.fields, self.dest: config.convert(self.dest, values)}


def add_fields(parser: argparse.ArgumentParser) -> None:
    """A flag for each field of the configuration, with its meaning, default and range."""
    group = parser.add_argument_group("fields", "defaults are those of the preset 'paper'; both --a-b and --a_b work")
    for name, field in config.FIELDS.items():
        if name == "env":
            continue
        meta, default = field.metadata, field.default
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        limits = f"; {meta['low']:g} to {meta['high']:g}" if meta["low"] is not None and meta["high"] < 1e9 else ""
        choices = f"; one of {', '.join(meta['choices'])}" if meta["choices"] else ""
        text = f"{meta['doc']} (default {shown if shown != '' else 'none'}{limits}{choices})".replace("%", "%%")
        kind: dict[str, Any] = (
            {"nargs": "?", "metavar": "BOOL"} if isinstance(default, bool) else {"metavar": name.upper()}
        )
        group.add_argument(config.flag(name), dest=name, action=Field, default=argparse.SUPPRESS, help=text, **kind)
        if isinstance(default, bool):
            off = f"--no-{config.flag(name)[2:]}"
            group.add_argument(off, dest=name, action=Field, nargs=0, default=argparse.SUPPRESS, help="the opposite")


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="sacd", description="Soft Actor-Critic for discrete actions (Christodoulou 2019).", epilog=EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"sacd {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True, parser_class=Parser)

    train = commands.add_parser(
        "train", help="train one run, evaluate it, draw its curve; again: resume", epilog=EXIT_CODES,
        usage="sacd train ENV [--preset PRESET] [--run FOLDER] [--FIELD VALUE ...]",
        description="Train one run. The same command again resumes it; a finished run says so.",
    )  # fmt: skip
    train.add_argument("env", metavar="ENV", help="an Atari game (Pong) or a Gymnasium id (CartPole-v1)")
    train.add_argument("--preset", help=f"{', '.join(config.PRESETS)} (default: paper for Atari, classic for others)")
    train.add_argument("--run", type=Path, help="the run's folder (default runs/<env>_<preset>_s<seed>)")
    add_fields(train)

    sweep = commands.add_parser(
        "sweep", help="train games x seeds as one program; again: resume", epilog=EXIT_CODES,
        usage="sacd sweep --games GAME,... [--seeds N] [--preset PRESET] [--out FOLDER] [--FIELD VALUE ...]",
        description="Train every game with every seed, many runs at once, and leave an ordinary run's folder for each. "
        "The same command again goes on where it stopped, and tries again what failed.",
    )  # fmt: skip
    sweep.add_argument("--games", required=True, help="games or Gymnasium ids with commas between; 'paper': its 20")
    sweep.add_argument("--seeds", default="5", help="how many (5 is 0,1,2,3,4), or which, with commas between (7,8)")
    sweep.add_argument("--preset", help=f"{', '.join(config.PRESETS)} (default: paper for Atari, classic for others)")
    sweep.add_argument("--out", type=Path, default=Path("runs"), help="where the runs' folders go (default runs)")
    add_fields(sweep)

    evaluate = commands.add_parser("evaluate", help="play full episodes with a trained run")
    evaluate.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    evaluate.add_argument("--env-module", metavar="NAME", help="the module of the run's environment, if it has one: "
                          "its code will run")  # fmt: skip
    evaluate.add_argument("--episodes", help="full episodes (default: the run's)")
    which = evaluate.add_mutually_exclusive_group()
    which.add_argument("--greedy", action="store_true", help="the most probable action only")
    which.add_argument("--sampled", action="store_true", help="actions drawn from the policy only")

    report = commands.add_parser("report", help="table and learning curve of runs, from their files")
    report.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="runs' folders, or folders of such")
    report.add_argument("--out", type=Path, help="where curve.png and table.md go (default: the folder given, or .)")

    commands.add_parser("doctor", help="what hardware, versions and precision will be used, and why")
    for sub in commands.choices.values():
        sub.add_argument("--debug", action="store_true", help="show a traceback with an error")
    return parser


def hyphens(word: str) -> str:
    """`--a_b=c` as `--a-b=c`: both are understood."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


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


def train(namespace: argparse.Namespace) -> None:
    from sacd.envs import names

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
    from sacd.envs import names

    if "seed" in namespace.fields:
        raise UsageError("a sweep takes --seeds, how many or which: --seeds 5, or --seeds 7,8.")
    games = names.PAPER_GAMES if namespace.games == "paper" else [g for g in namespace.games.split(",") if g.strip()]
    envs = list(dict.fromkeys(names.resolve(game.strip()) for game in games))
    if not envs or len({names.is_atari(env) for env in envs}) > 1:
        raise UsageError("name the --games: Atari games, or other environments, but not both in one sweep.")
    preset = namespace.preset or ("paper" if names.is_atari(envs[0]) else "classic")
    numbers = config.convert("hidden", namespace.seeds)  # whole numbers with commas between
    seeds = numbers if "," in namespace.seeds else range(*numbers)
    configs = [config.make(env, preset, **(namespace.fields | {"seed": s})) for env in envs for s in seeds]
    if not configs:
        raise UsageError(f"--seeds {namespace.seeds}: that is no seed at all.")

    engine.prepare(configs[0].threads)
    from sacd.sweep import sweep as run

    failed = run(configs, preset, namespace.out)
    if failed:
        raise SacdError(f"{failed} runs failed; error.log in their folders says why. The same command tries again.")


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
    if namespace.episodes is not None:
        chosen = config.changed(chosen, eval_episodes=config.convert("eval_episodes", namespace.episodes))

    engine.prepare(chosen.threads)
    from sacd.commands import evaluate_one

    wanted = [p for p in ("greedy", "sampled") if getattr(namespace, p)]
    evaluate_one(chosen, folder, wanted or ["greedy", "sampled"])


def report(namespace: argparse.Namespace) -> None:
    from sacd.report import write

    write(namespace.runs, namespace.out)


def doctor(namespace: argparse.Namespace) -> None:
    engine.prepare(0)
    from sacd.doctor import examine

    examine()


COMMANDS = {"train": train, "sweep": sweep, "evaluate": evaluate, "report": report, "doctor": doctor}
