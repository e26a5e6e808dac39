"""The words of the command line: every command and option, with its help. cli.py does what they say."""

import argparse
from pathlib import Path
from typing import Any, NoReturn

from sacd import __version__, config
from sacd.errors import UsageError, nearest
from sacd.presets import IN_GAME

COMMANDS = ("train", "sweep", "reproduce", "evaluate", "report", "doctor")
EXIT_CODES = (
    "exit codes: 0 done, 1 some runs failed, 2 usage, 3 environment, 4 checkpoint, 5 resources, 6 diverged, "
    "7 run in use, 75 interrupted and saved, 130 Ctrl-C"
)


OTHER_NAMES = {  # what other libraries call it
    "--lr": "--learning-rate", "--total-timesteps": "--steps", "--total-steps": "--steps", "--timesteps": "--steps",
    "--num-envs": "--n-envs", "--replay-size": "--buffer-size", "--batch": "--batch-size", "--ent-coef": "--alpha",
    "--discount": "--gamma", "--policy-frequency": "--train-freq", "--net-arch": "--hidden",
    "--target-frequency": "--target-update-interval",
}  # fmt: skip


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
        name = word.split("=", maxsplit=1)[0]
        hint = f" Did you mean {OTHER_NAMES[name]}?" if OTHER_NAMES.get(name) in known else nearest(name, known)
        if not word.startswith("-"):
            raise UsageError(f"'{word}' is one word too many; a name with spaces goes in quotes: \"Space Invaders\".")
        raise UsageError(f"unknown option {word}.{hint} See '{self.prog} --help'.")


class Field(argparse.Action):
    """A configuration field given on the command line."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        values = "false" if option and option.startswith("--no-") else "true" if values is None else values
        namespace.fields = {**namespace.fields, self.dest: config.convert(self.dest, values)}


def presets_told() -> str:
    """What each preset changes."""
    told = []
    for name, values in config.PRESETS.items():
        listed = ", ".join(f"{k.replace('_', '-')} {str(v).lower()}" for k, v in values.items())
        told += [f"The preset '{name}' takes {listed}."] if values else []
        for env, mine in IN_GAME.get(name, {}).items():
            listed = ", ".join(f"{k.replace('_', '-')} {v}" for k, v in mine.items())
            told.append(f"In {env} also {listed}.")
    return " ".join(told)


def add_fields(parser: argparse.ArgumentParser) -> None:
    """A flag for each field of the configuration, with its meaning, default and range."""
    group = parser.add_argument_group(
        "fields",
        "Defaults are those of the preset 'paper'. Whole numbers may be written 100k or 1e5; a schedule is a number, "
        "linear(a, b) or exp(a, b) over the run; both --a-b and --a_b work. " + presets_told().replace("%", "%%"),
    )
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

    reproduce = commands.add_parser(
        "reproduce", help="the paper's experiment: random play, 20 games x 5 seeds, report; again: resume",
        epilog=EXIT_CODES, usage="sacd reproduce [--preset PRESET] [--games GAME,...] [--seeds N] [--out FOLDER] "
        "[--FIELD VALUE ...]",
        description="Score random play, train and evaluate every game with every seed, and report it all beside the "
        "paper's figures. The same command again goes on where it stopped. To try it: --games Pong --steps 5000.",
    )  # fmt: skip
    reproduce.add_argument("--preset", default="paper", help=f"{', '.join(config.PRESETS)} (default paper)")
    reproduce.add_argument("--games", default="paper", help="games with commas between (default: the paper's 20)")
    reproduce.add_argument("--seeds", default="5", help="how many (5 is 0,1,2,3,4), or which, with commas between")
    reproduce.add_argument("--out", type=Path, help="the experiment's folder (default runs/<preset>)")
    add_fields(reproduce)

    evaluate = commands.add_parser("evaluate", help="play full episodes with a trained run")
    evaluate.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    evaluate.add_argument("--env-module", metavar="NAME", help="the module of the run's environment, if it has one: "
                          "its code will run")  # fmt: skip
    evaluate.add_argument("--episodes", help="full episodes (default: the run's)")
    which = evaluate.add_mutually_exclusive_group()
    which.add_argument("--greedy", action="store_true", help="the most probable action only")
    which.add_argument("--sampled", action="store_true", help="actions drawn from the policy only")

    report = commands.add_parser(
        "report", help="table and learning curve of runs, from their files",
        description="Tables and pictures of runs, from their files alone. Of runs of the paper's games also its table, "
        "its figures and a page, report.html, with our scores beside the paper's and the author's.",
    )  # fmt: skip
    report.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="runs' folders, or folders of such")
    report.add_argument("--out", type=Path, help="where tables and pictures go (default: the folder given, or .)")
    report.add_argument("--archive", type=Path, metavar="DIR", help="also copy what a report needs of each run there: "
                        "scores, configurations, logs; no models")  # fmt: skip

    doctor = commands.add_parser("doctor", help="what hardware, versions and precision will be used, and why")
    doctor.add_argument(
        "--bench", action="store_true", help="measure emulators alone, learner alone, and both together"
    )
    doctor.add_argument("--games", default="Pong", help="for --bench, with commas between; 'paper': its 20")
    doctor.add_argument("--seeds", default="1", help="for --bench: runs of each game")
    doctor.add_argument("--seconds", type=float, default=5.0, help="for --bench: of each measurement")
    for name in ("device", "precision"):
        meta = config.FIELDS[name].metadata
        doctor.add_argument(config.flag(name), dest=name, action=Field, default=argparse.SUPPRESS, help=meta["doc"])
    for sub in commands.choices.values():
        sub.add_argument("--debug", action="store_true", help="show a traceback with an error")
    return parser


def hyphens(word: str) -> str:
    """`--a_b=c` as `--a-b=c`: both are understood."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word
