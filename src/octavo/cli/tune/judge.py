"""octavo tune judge: what tuned runs reached, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from octavo.cli.common import Json, Whole, complain, print_json, show, show_text, the_run
from octavo.cli.tune.ceiling import RewardName
from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.tuning.judge import Verdict

Texts = Annotated[
    Whole,
    Parameter(
        help="Texts of each model that are judged in the end, over all prompts.",
        validator=validators.Number(gte=16),
    ),
]


def judge_command(
    *runs: Annotated[Path, Parameter(help="Run folders, or one of a run's checkpoint folders.")],
    reward: RewardName | None = None,
    texts: Texts = 1024,
    json: Json = False,
) -> int:
    """Measure again what a tuned run reached and cost, also by another reward than the one that taught it.

    A run that learned from conversations or preferences is judged too: it is asked what these ask. Several runs are
    asked the same: those from the same start stand beneath one ceiling, and seeds of one tuning have a mean.

    For example:

    octavo tune judge runs/happy

    octavo tune judge runs/happy --reward pidgin --json

    octavo tune judge runs/rl runs/dpo runs/best-of-8 --reward wishes

    octavo tune judge runs/happy-0 runs/happy-1 runs/happy-2
    """
    from octavo.util.terminal import Console

    if not runs:
        raise InputError("Which run is to be judged?", remedy="octavo tune judge RUN")
    return judged(runs, reward, texts, Console(quiet=json), json=json)


def judged(paths: Sequence[Path], reward: str | None, texts: int, console: object, *, json: bool) -> int:
    """Judge runs, write a page for each, and say what was found."""
    from octavo.run.run import Run
    from octavo.tuning.compare_runs import beneath_one_ceiling, measure_together, over_seeds, seeds_said
    from octavo.tuning.report import write_page
    from octavo.tuning.rewards.named import named_reward
    from octavo.util.terminal import Console

    assert isinstance(console, Console)
    config, sentences = named_reward(reward) if reward is not None else (None, [])
    for sentence in sentences:
        complain(sentence)
    runs = [Run.open(the_run(path)) for path in paths]
    verdicts = measure_together(runs, gold=config, texts=texts, console=console)
    pages = [
        write_page(run, verdict, [verdicts[other].reached for other in beneath_one_ceiling(runs, at)])
        for at, (run, verdict) in enumerate(zip(runs, verdicts, strict=True))
    ]
    seeds = over_seeds(runs, verdicts)
    if json:
        each = {str(run.path): verdict.figures for run, verdict in zip(runs, verdicts, strict=True)}
        print_json({"runs": each, "seeds": seeds} if len(runs) > 1 else verdicts[0].figures)
        return 0
    for verdict, page in zip(verdicts, pages, strict=True):
        _show(verdict, page, named=len(runs) > 1)
    for sentence in seeds_said(seeds) if seeds else ():
        show(sentence)
    return 0


def _show(verdict: Verdict, page: Path, *, named: bool) -> None:
    if named:
        show(f"{verdict.reached.name}:")
    for why, count in verdict.figures["failed_rewards"].items():
        complain(f"warning: the reward {why}: {count} texts have none")
    for sentence in verdict.sentences:
        show(sentence)
    show_text(f"tuning: {page}")
