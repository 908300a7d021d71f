"""octavo study: experiments that end in a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from octavo.cli.common import Json, Text, Whole, print_json, print_table, show, show_text, split_overrides

if TYPE_CHECKING:
    from octavo.studies.ladder import LadderPrice
    from octavo.studies.plan import Price

study_command = App(
    name="study",
    help="Experiments: a baseline, named changes and seeds become runs, a report and a verdict for each change.\n\n"
    "octavo study list shows the shipped ones.",
    help_format="plaintext",
)

StudyName = Annotated[str, Parameter(help="A shipped study's name, or a YAML file.")]
Settings = Annotated[
    str, Parameter(help="Settings of the study's own file: seeds=5, budget.steps=200, set.training.batch=8.")
]
Folder = Annotated[Path, Parameter(help="A study's folder.")]


@study_command.command(name="run")
def run_command(
    study: StudyName,
    *settings: Settings,
    text: Text = None,
    out: Annotated[Path | None, Parameter(help="The study's folder; default: studies/NAME.")] = None,
    jobs: Annotated[
        Whole | None, Parameter(help="Runs side by side; default: as many as cores and memory allow.")
    ] = None,
    cluster: Annotated[
        str | None, Parameter(help="Send the runs to the Ray cluster at this address (extra: cluster).")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Say what it would cost, and stop.", negative="")] = False,
    quiet: Annotated[bool, Parameter(help="No progress.", negative="")] = False,
    json: Json = False,
) -> int:
    """Run a study, or resume one: finished runs are kept.

    For example:

    octavo study run heads-cpu --text shakespeare.txt --out studies/heads --dry-run

    octavo study run heads-cpu --text shakespeare.txt --out studies/heads

    octavo study run mine.yaml --text shakespeare.txt --out studies/mine seeds=5 budget.steps=200
    """
    from octavo.studies.run import price_study, run_study
    from octavo.util.records import plain
    from octavo.util.terminal import Console

    text, overrides = split_overrides(text, settings)
    if dry_run:
        facts = price_study(study, text, overrides=overrides, jobs=jobs, console=Console(quiet=True))
        print_json(plain(facts)) if json else _print_price(facts)
        return 0
    results = run_study(
        study, text, out, overrides=overrides, jobs=jobs, cluster=cluster, console=Console(quiet=quiet)
    )
    return _report(results.folder, json)


@study_command.command(name="ladder")
def ladder_command(
    study: Annotated[str, Parameter(help="A shipped ladder's name, or a YAML file with a ladder in it.")],
    *settings: Annotated[
        str, Parameter(help="Settings of the ladder's own file: seeds=5, ladder.steps=[100,200].")
    ],
    text: Text = None,
    out: Annotated[Path | None, Parameter(help="The ladder's folder; default: studies/NAME.")] = None,
    jobs: Annotated[
        Whole | None, Parameter(help="Runs side by side; default: as many as cores and memory allow.")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Say what it would cost, and stop.", negative="")] = False,
    quiet: Annotated[bool, Parameter(help="No progress.", negative="")] = False,
    json: Json = False,
) -> int:
    """Run a study at several sizes and lengths, or resume that: does a difference grow, fade or flip?

    Each variant first tries learning rates on one seed, at every size and length, and is compared at its best.

    For example:

    octavo study ladder heads-ladder --text shakespeare.txt --out studies/heads-ladder --dry-run

    octavo study ladder heads-ladder --text shakespeare.txt --out studies/heads-ladder
    """
    from octavo.studies.ladder import price_ladder, run_ladder
    from octavo.util.records import plain
    from octavo.util.terminal import Console

    text, overrides = split_overrides(text, settings)
    if dry_run:
        facts = price_ladder(study, text, overrides=overrides, jobs=jobs)
        print_json(plain(facts)) if json else _print_ladder_price(facts)
        return 0
    folder = run_ladder(study, text, out, overrides=overrides, jobs=jobs, console=Console(quiet=quiet))
    return _report(folder, json)


@study_command.command(name="report")
def report_command(folder: Folder, *, json: Json = False) -> int:
    """Analyse a study or a ladder again and write its report again. It need not be finished.

    For example:

    octavo study report studies/heads
    """
    return _report(folder, json)


@study_command.command(name="list")
def list_command(
    name: Annotated[str | None, Parameter(help="Print this one as YAML, to edit and run.")] = None,
    *,
    json: Json = False,
) -> int:
    """List the shipped studies, or print one.

    For example:

    octavo study list heads-cpu > mine.yaml
    """
    from octavo.config import parse_yaml
    from octavo.studies.spec import study_names, study_text

    if name is not None:
        text = study_text(name)
        print_json(parse_yaml(text, name)) if json else show_text(text, end="")
        return 0
    described = {name: parse_yaml(study_text(name), name).get("description", "") for name in study_names()}
    if json:
        print_json([{"name": name, "description": text} for name, text in described.items()])
    else:
        for name, text in described.items():
            show(f"{name}\n    {text.strip()}")
    return 0


def _report(folder: Path, json: bool) -> int:
    from dataclasses import asdict

    from octavo.studies.ladder import is_ladder
    from octavo.studies.report import write_study_report
    from octavo.studies.results import collect
    from octavo.studies.verdict import analyse_study

    if is_ladder(folder):
        return _report_ladder(folder, json)
    page = write_study_report(folder)
    analysis = analyse_study(collect(folder))
    if json:
        print_json({**asdict(analysis), "folder": str(folder), "report": str(page)})
        return 0
    if analysis.nothing_learned:
        show(analysis.nothing_learned)
    for verdict in analysis.verdicts:
        show(f"{verdict.change}: {verdict.sentence}")
    for note in analysis.notes:
        show(f"note: {note}")
    show_text(f"report: {page}")
    return 0


def _report_ladder(folder: Path, json: bool) -> int:
    from octavo.studies.ladder_report import as_data, write_ladder_report

    page, analysis = write_ladder_report(folder)
    if json:
        print_json({**as_data(analysis), "folder": str(folder), "report": str(page)})
        return 0
    for verdict in analysis.verdicts:
        show(f"{verdict.change}: {verdict.sentence}")
    for note in analysis.notes:
        show(f"note: {note}")
    show_text(f"report: {page}")
    return 0


def _print_ladder_price(facts: LadderPrice) -> None:
    from octavo.util.terminal import duration

    rows = [
        (
            row.size,
            f"{row.parameters:,}",
            f"{row.steps:,}",
            str(row.runs),
            duration(row.hours * 3600),
        )
        for row in facts.rungs
    ]
    print_table(rows, head=("", "parameters", "steps", "runs", "time"))
    show(
        f"\n{facts.runs} runs, {facts.side_by_side} side by side: about {duration(facts.hours * 3600)}, "
        f"{facts.disk_bytes / 1e6:,.0f} MB on disk"
    )


def _print_price(facts: Price) -> None:
    from octavo.util.terminal import duration

    rows = [
        (
            row.variant,
            str(row.runs),
            f"{row.parameters:,}",
            f"{row.steps:,}",
            f"{row.step_seconds * 1000:,.1f} ms",
            duration(row.seconds),
        )
        for row in facts.variants
    ]
    print_table(rows, head=("", "runs", "parameters", "steps", "one step", "one run"))
    show(
        f"\n{facts.runs} runs, {facts.side_by_side} side by side: about {duration(facts.hours * 3600)}, "
        f"{facts.disk_bytes / 1e6:,.0f} MB on disk"
    )
