"""octavo corpus write: have a corpus written, by an API, the built-in storyteller or a model of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from octavo.cli.common import Json, Whole, print_json, print_table, show, show_text
from octavo.errors import Interrupted

if TYPE_CHECKING:
    from octavo.llm_corpus.session import WritingJob

Spec = Annotated[
    str,
    Parameter(help="A shipped spec (pidgin, pidgin-local, pidgin-free, pidgin-storyteller) or a YAML file."),
]
Overrides = Annotated[
    str, Parameter(help="Settings on top of the spec: key=value, such as writers.model.in_flight=32.")
]
Stories = Annotated[
    Whole,
    Parameter(help="Stories in all, including those that are there.", validator=validators.Number(gte=1)),
]
MaxUsd = Annotated[
    float | None,
    Parameter(
        help="Cap in dollars on all calls of this corpus; never exceeded.", validator=validators.Number(gte=0)
    ),
]
MaxHours = Annotated[
    float | None,
    Parameter(help="Stop calling after this many hours.", validator=validators.Number(gt=0)),
]
OffPeak = Annotated[
    str | None, Parameter(help="Call at these hours only, such as 10:00-18:30@America/Denver.")
]
Compare = Annotated[
    bool,
    Parameter(
        help="Write this many stories with each prompt under the spec's `compare`, and compare.",
        negative="",
    ),
]
DryRun = Annotated[bool, Parameter(help="Print the price and one prompt; send nothing.", negative="")]
Out = Annotated[
    Path | None, Parameter(help="The folder; corpora/NAME if left out. One that exists is continued.")
]


def write_command(
    spec: Spec,
    *overrides: Overrides,
    stories: Stories,
    max_usd: MaxUsd = None,
    max_hours: MaxHours = None,
    off_peak: OffPeak = None,
    compare: Compare = False,
    dry_run: DryRun = False,
    out: Out = None,
    json: Json = False,
) -> int:
    """Have stories written and checked, with a price before, a cap during and a report after.

    After a stop, the same command continues. The key of an API is read from the environment variable that the spec
    names. The folder then holds corpus.txt, corpus.jsonl, report/index.html and stories.sqlite.

    For example:

    octavo corpus write pidgin-storyteller --stories 1000

    octavo corpus write pidgin --stories 5000 --max-usd 2 --dry-run

    octavo corpus write pidgin --stories 5000 --max-usd 2 --off-peak 10:00-18:30@America/Denver

    octavo corpus write pidgin-local --stories 200 writers.model.model=qwen3
    """
    from octavo.llm_corpus.session import WritingJob
    from octavo.llm_corpus.spec import load_spec

    checked = load_spec(spec, overrides)
    folder = out or Path("corpora") / checked.name
    job = WritingJob(
        checked, folder, stories=stories, max_usd=max_usd, max_hours=max_hours, off_peak=off_peak
    )
    if dry_run:
        return _dry_run(job, json)
    return _write(job, compare, json)


def _dry_run(job: WritingJob, json: bool) -> int:
    estimate = job.estimate()
    prompt = job.prompt.first(0)
    if json:
        print_json({"estimate": estimate, "prompt": prompt})
        return 0
    for message in prompt:
        show_text(f"[{message['role']}]\n{message['content']}\n")
    show(estimate.sentence(job.cap))
    return 0


def _write(job: WritingJob, compare: bool, json: bool) -> int:
    from octavo.llm_corpus.progress import Progress
    from octavo.llm_corpus.session import compare_prompts
    from octavo.util.processes import stop_requests
    from octavo.util.terminal import Console

    console = Console()
    console.say(job.estimate().sentence(job.cap))
    with stop_requests() as asked, console.working("writing", job.stories):

        def tell(progress: Progress) -> None:
            console.advance(progress.stories, progress.line())

        how: dict[str, Any] = {"say": console.say, "tell": tell, "stop": lambda: bool(asked)}
        result = compare_prompts(job, **how) if compare else job.run(**how)
    if json:
        print_json(result)
    elif compare:
        _print_comparison(result)
    else:
        _print_end(job, result)
    if asked:
        raise Interrupted("Stopped; what was written is kept. The same command continues.")
    return 0


def _print_end(job: WritingJob, result: dict[str, Any]) -> None:
    why = {
        "budget": "the cap does not allow one more call",
        "hours": "the hours are over",
        "stopped": "you asked for an end",
    }
    if result["ended"] in why:
        show(
            f"{result['stories']:,} of {result['wanted']:,} stories: {why[result['ended']]}; the same command continues"
        )
    from octavo.llm_corpus.report import money, number, percent

    report = result["report"]
    show(
        f"{report['stories']:,} stories in {report['calls']:,} calls, yield {percent(report['yield'])},"
        f" {money(report['cost_usd'])}, {number(report['stories_per_hour'])} an hour"
    )
    show_text(f"corpus: {job.out / 'corpus.txt'}")
    show_text(f"report: {job.out / 'report' / 'index.html'}")


def _print_comparison(result: dict[str, Any]) -> None:
    from octavo.llm_corpus.report import money, number, percent

    head = (
        "prompt",
        "stories",
        "replies",
        "yield",
        "$/story",
        "distinct-2",
        "near dup.",
        "words",
        "vocabulary",
    )
    rows = [
        (
            row["prompt"],
            number(row["stories"]),
            number(row["replies"]),
            percent(row["yield"]),
            money(row["cost_per_story_usd"]),
            percent(row["distinct"]["2"]),
            percent(row["near_duplicates"]),
            number(row["words"]["mean"] if row["words"] else None),
            percent(row["coverage"]),
        )
        for row in result["prompts"]
    ]
    print_table(rows, head=head)
