"""How what a model wrote is shown: samples, tables of prompts, corrections, and who answers a name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.cli.common import print_json, print_table, show, show_piece, show_text
from octavo.errors import CorpusError, InputError
from octavo.tokenizers.base import printable
from octavo.util.json_text import plain
from octavo.util.terminal import shown

if TYPE_CHECKING:
    from octavo.correction import Correction, Corrector
    from octavo.evaluation.speakers import NameAnswer, Share
    from octavo.generation import Sample
    from octavo.generation.light import LightRun
    from octavo.generation.sampling import SamplingOptions
    from octavo.run.prompts import PromptSamples
    from octavo.run.run import Run
    from octavo.util.terminal import Console


def show_speakers(
    run: Run,
    name: str,
    samples: int | None,
    text: list[str] | None,
    json: bool,
    console: Console,
    options: SamplingOptions,
) -> None:
    """Ask who answers a name, and print it."""
    from octavo.run.prompts import SAMPLES, ask_name

    answer = ask_name(run, name, count=samples or SAMPLES, text=text, console=console, **options.given())
    if json:
        print_json(plain(answer))
    else:
        print_answer(answer)


def show_prompts(
    run: Run,
    path: Path,
    samples: int,
    corrector: Corrector | None,
    json: bool,
    console: Console,
    options: SamplingOptions,
) -> None:
    """Write samples for each prompt of a file, keep them in the run folder, and print them."""
    from octavo.generation.batch_prompts import read_prompts
    from octavo.run.prompts import correct_all, save_prompts, write_all

    written = write_all(run, read_prompts(path), count=samples, console=console, **options.given())
    failed = correct_all(written, corrector, console) if corrector else None
    about = {"step": run.step, **options.given()}
    saved = save_prompts(run, path.stem, written, about)
    if json:
        rows = [{"prompt": one.prompt, "samples": one.as_dicts()} for one in written]
        print_json(
            {
                "name": saved.stem if saved else path.stem,
                "file": saved and str(saved),
                **about,
                "prompts": rows,
            }
        )
    else:
        print_prompts(written)
        if saved:
            show(f"\nkept in {saved}")
    if failed:
        raise failed


def show_samples(
    run: Run,
    path: Path,
    prompt: str,
    count: int,
    corrector: Corrector | None,
    json: bool,
    options: SamplingOptions,
) -> None:
    """Write samples of one prompt and print them; what is generated is printed even where its correction fails."""
    from octavo.run.prompts import PromptSamples, correct_all

    written = PromptSamples(prompt, run.samples(prompt, count=count, **options.given()))
    failed = correct_all([written], corrector) if corrector else None
    if json:
        pairs = zip(written.as_dicts(), written.samples, strict=True)
        rows = [row | {"tokens": _tokens(run, sample)} for row, sample in pairs]
        about = {"run": str(path), "step": run.step, "prompt": prompt, "seed": options.seed}
        print_json({**about, "samples": rows})
    else:
        print_samples(written)
    if failed:
        raise failed


def stream(run: Run | LightRun, prompt: str, options: SamplingOptions) -> None:
    """Print one sample as it is written."""
    pieces = run.stream(prompt, **options.given())
    first = next(pieces, "")  # before the prompt is echoed, so that an error stands alone
    show_piece(prompt + first)
    for piece in pieces:
        show_piece(piece)
    show()


def _tokens(run: Run, sample: Sample) -> list[dict[str, Any]]:
    pairs = zip(sample.ids, sample.log_probabilities, strict=True)
    return [
        {"id": id, "text": run.tokenizer.token_text(id), "log_probability": log_probability}
        for id, log_probability in pairs
    ]


def print_samples(written: PromptSamples) -> None:
    """The samples of one prompt under each other, with their corrections as diffs."""
    for number, sample in enumerate(written.samples):
        if len(written.samples) > 1:
            show(f"--- {number + 1} of {len(written.samples)}")
        if written.corrections:
            print_correction(written.corrections[number])
        else:
            show_text(written.prompt + sample.text)


def print_prompts(prompts: Sequence[PromptSamples]) -> None:
    """A table with one row for each sample; corrections follow it."""
    from rich.box import ASCII
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    eye = shown if console.is_terminal else str
    table = Table(show_lines=True, box=None if console.is_terminal else ASCII, padding=(0, 2, 0, 0))
    table.add_column("prompt", style="bold")
    table.add_column("sample", justify="right")
    table.add_column("text", overflow="fold")
    for written in prompts:
        for number, sample in enumerate(written.samples, 1):
            asked = printable(written.prompt) if number == 1 else ""
            table.add_row(Text(asked), str(number), Text(eye(sample.text.strip("\n"))))
    console.print(table)
    for written in prompts:
        for number, correction in enumerate(written.corrections or (), 1):
            show(f"--- {printable(written.prompt)}, sample {number}, corrected")
            print_correction(correction)


def print_correction(correction: Correction) -> None:
    """The diff, every change with its rule, and what it did: in colour on a terminal, in brackets elsewhere."""
    from octavo.correction.diff import coloured_diff, listed, plain_diff, summary

    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(coloured_diff(correction), soft_wrap=True)
    else:
        show_text(plain_diff(correction))
    show()
    for line in listed(correction):
        show(f"  {line}")
    show(summary(correction))


def print_answer(answer: NameAnswer) -> None:
    """The share of the name's company among those who answer, next to its controls."""
    show(f"{answer.name}'s company: {', '.join(answer.company) or 'nobody'}\n")
    rows = [_row(f"after {answer.name}", answer.asked)]
    rows += [_row(f"after {one.prompt}" if one.prompt else "after no prompt", one) for one in answer.controls]
    rows.append(("in the text itself", f"{answer.in_text:.1%}", "", "", ""))
    print_table(rows, head=("share of its company", "share", "95 % interval", "speeches", "p"))
    most = ", ".join(f"{name} {count}" for name, count in list(answer.answering.items())[:12])
    show(f"\nwho answers: {most or 'nobody whom the text knows'}")


def _row(what: str, share: Share) -> tuple[str, str, str, str, str]:
    between = "" if share.interval is None else f"{share.interval[0]:.1%} to {share.interval[1]:.1%}"
    share_text = "–" if share.share is None else f"{share.share:.1%}"
    return (
        what,
        share_text,
        between,
        f"{share.company} of {share.company + share.others}",
        "" if share.p is None else f"{share.p:.4f}",
    )


# The corrector that a name asks for, with the words of a run's text.


def corrector_for(
    run: Run,
    name: str,
    *,
    language: str | None = None,
    text: str | Path | Sequence[str | Path] | None = None,
    console: Console | None = None,
) -> Corrector:
    """A corrector for what a run writes.

    Args:
        name: "vocabulary", or the address of a LanguageTool server.
        language: of the text, for that server; None lets it guess.
        text: files to take the words from, instead of the run's own training text.

    Raises InputError for another name, CorpusError where the words are needed and their text is gone.
    """
    from octavo.correction import LanguageTool, NearestWord, count_words
    from octavo.run.training_text import text_pieces, training_words
    from octavo.util.terminal import Console

    console = console or Console(quiet=True)
    if "://" not in name and name != "vocabulary":
        raise InputError(
            f"There is no correction '{name}'.",
            remedy="--correct vocabulary, or the address of a server: --correct http://localhost:8081",
        )
    if name == "vocabulary":
        return NearestWord(
            count_words(text_pieces(text, console, run.config)) if text else training_words(run, console)
        )
    try:
        words = count_words(text_pieces(text, console, run.config)) if text else training_words(run, console)
    except CorpusError as error:
        if text:
            raise
        console.say(f"{error.what} So it is not counted how many words the corpus has.")
        words = None
    tool = LanguageTool(name, language=language or "auto", vocabulary=words)
    console.say(f"the text is sent to {tool.address} for correction")
    return tool
