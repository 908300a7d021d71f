"""Samples for many prompts as a table in the run folder, which the run's report shows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from octavo.correction import Correction, Corrector
from octavo.correction.words import WORD
from octavo.errors import InputError, OctavoError, TokenizerError
from octavo.evaluation.speakers import NameAnswer, Play, who_answers
from octavo.evaluation.stored import Prompts
from octavo.generation import Engine, Sample, TextRequest
from octavo.generation.sampling import SamplingFields, SamplingOptions
from octavo.run.run import Run
from octavo.run.training_text import text_pieces, training_text
from octavo.util.files import replace_text, storage_errors
from octavo.util.records import json_text, plain
from octavo.util.terminal import Console, in_markdown

FOLDER = "prompts"
SAID_EVERY = 256
"""Tokens between two lines of progress; a line for each would take longer than the token."""


@dataclass
class PromptSamples:
    """What a model wrote after one prompt, as generated; and, where asked for, each sample's correction."""

    prompt: str
    samples: list[Sample]
    corrections: list[Correction] | None = None

    def as_dicts(self) -> list[dict[str, Any]]:
        """The samples for JSON. `text` is always as generated; `correction` stands next to it, its places counted
        from the prompt's end."""
        rows: list[dict[str, Any]] = [{"text": one.text, "finish": one.finish} for one in self.samples]
        for row, correction in zip(rows, self.corrections or (), strict=False):
            document = correction.as_dict()
            for change in document["changes"] + document["left"]:
                change["start"] -= len(self.prompt)
                change["end"] -= len(self.prompt)
            row["correction"] = document | {"corrected": document["corrected"].removeprefix(self.prompt)}
        return rows


def write_all(
    run: Run,
    prompts: Sequence[str],
    *,
    count: int,
    console: Console | None = None,
    **options: Unpack[SamplingFields],
) -> list[PromptSamples]:
    """`count` samples for each prompt, all at once, each as `run.samples` would write them.

    Raises TokenizerError, before anything is written, that lists every prompt that the vocabulary does not cover.
    """
    console, given = console or Console(quiet=True), SamplingOptions(**options)
    engine, problems = Engine(run.model, run.tokenizer), []
    for prompt in prompts:
        try:
            engine.prompt_ids(prompt)
        except InputError as error:
            problems.append(f"{prompt!r}: {error.what}")
    if problems:
        raise TokenizerError(
            "\n  · ".join([f"{len(problems)} of {len(prompts)} prompts cannot be read:", *problems]),
            remedy="take them out of the file, or write them in what the vocabulary has",
        )
    requests = [TextRequest(prompt, given.seed, index) for prompt in prompts for index in range(count)]
    limit, done, written = run.config.sampling.tokens if given.tokens is None else given.tokens, 0, {}
    with console.working("writing", len(requests) * limit):
        for sample, _ in run.write_each(requests, **options):
            done += 1
            if sample.finish:
                written[sample.number] = sample
                done += limit - len(sample.ids)
                console.advance(done, f"{len(written)} of {len(requests)} texts")
            elif done % SAID_EVERY == 0:
                console.advance(done, f"{len(written)} of {len(requests)} texts")
    return [
        PromptSamples(prompt, [written[place * count + index] for index in range(count)])
        for place, prompt in enumerate(prompts)
    ]


def correct_all(
    written: Sequence[PromptSamples], corrector: Corrector, console: Console | None = None
) -> OctavoError | None:
    """Add each sample's correction. The prompt is left as it is, and so is a last word that the limit of tokens cut.

    Where the corrector fails, what it has not seen stays without a correction, and its error is returned: the text
    as generated is not lost with it.
    """
    console = console or Console(quiet=True)
    with console.working("correcting", len(written)):
        for number, one in enumerate(written, 1):
            corrections = []
            for sample in one.samples:
                text = one.prompt + sample.text
                stop = last_whole_word(text) if sample.finish == "length" else len(text)
                try:
                    corrections.append(
                        corrector.correct(text, start=len(one.prompt), stop=max(stop, len(one.prompt)))
                    )
                except OctavoError as error:
                    return error
            one.corrections = corrections
            console.advance(number, f"corrected {number} of {len(written)}")
    return None


def last_whole_word(text: str) -> int:
    """Where the word begins that a text breaks off in; its end where it ends between words."""
    *_, last = (None, *WORD.finditer(text))
    return len(text) if last is None or last.end() < len(text.rstrip("'’")) else last.start()


def save_prompts(run: Run, name: str, written: Sequence[PromptSamples], about: dict[str, Any]) -> Path | None:
    """Write prompts/NAME.json and prompts/NAME.md into the run folder, and write its report again if it has one. A
    table of other prompts, or made in another way, keeps that name; this one is then NAME-2.

    Returns the Markdown's path; None for a checkpoint that stands alone. Raises StorageError.
    """
    if run.folder is None:
        return None
    folder = run.folder.path / FOLDER
    rows = [{"prompt": one.prompt, "samples": one.as_dicts()} for one in written]
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        name = _free_name(folder, name, {"name": name, **about, "prompts": rows})
        document = json_text({"name": name, **about, "prompts": rows}, indent=1, ensure_ascii=False)
        replace_text(folder / f"{name}.json", document + "\n")
        replace_text(folder / f"{name}.md", markdown(name, written, about))
        refresh_report(run)
    return folder / f"{name}.md"


def _free_name(folder: Path, name: str, table: Mapping[str, Any]) -> str:
    """The name, or the first one with a number behind it, that no table has but an earlier one of these prompts made in
    the same way."""
    asked = Prompts.parse(json_text(table)).asked()
    for number in itertools.count(1):
        free = name if number == 1 else f"{name}-{number}"
        try:
            if Prompts.parse((folder / f"{free}.json").read_bytes()).asked() == asked:
                return free
        except FileNotFoundError:
            return free
        except ValueError:
            continue  # not what this function wrote
    raise AssertionError


def refresh_report(run: Run) -> None:
    """Write the run's report again from the run folder, if it has one."""
    from octavo.report import ReportData, write_report

    if run.folder is not None and run.report is not None:
        write_report(run.folder.path, ReportData.from_run(run.folder.path))


def markdown(name: str, written: Sequence[PromptSamples], about: dict[str, Any]) -> str:
    """The table of samples as Markdown."""
    facts = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about.items() if value is not None)
    lines = [f"# Prompts: {cell(name)}", "", facts, "", "| prompt | sample | text |", "| --- | --- | --- |"]
    for one in written:
        for number, sample in enumerate(one.samples, 1):
            shown = cell(one.prompt) if number == 1 else ""
            lines.append(f"| {shown} | {number} | {cell(sample.text)} |")
            if one.corrections:
                changed = one.corrections[number - 1].corrected.removeprefix(one.prompt)
                lines.append(f"| | {number}, corrected | {cell(changed)} |")
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """A text as a cell of a Markdown table, whatever stands in it; its lines stay."""
    return "<br>".join(in_markdown(line, table=True) for line in text.split("\n"))


# Who answers a name, asked of a trained model: samples of its name, of another one, and of no prompt at all.

SPEAKERS = "speakers"
SAMPLES = 64
"""Default number of samples of each prompt: enough for an interval of a few percent."""


def ask_name(
    run: Run,
    name: str,
    *,
    count: int = SAMPLES,
    text: list[str] | None = None,
    console: Console | None = None,
    **options: Unpack[SamplingFields],
) -> NameAnswer:
    """Prompt the model `count` times with a speaker's name, with another speaker's, and with nothing, and count who
    answers. `text`: read speakers from these files instead of the run's own training text.

    The result also goes to speakers/NAME.json in the run folder, and its report is written again.

    Raises InputError for a name that does not speak, CorpusError where the text is gone or no play.
    """
    console, seed = console or Console(quiet=True), options.get("seed", 0)
    name = name.strip().removesuffix(":").rstrip()
    if not name:
        raise InputError("No name was given.", remedy="for example --speakers ROMEO")
    whole = "".join(text_pieces(text, console, run.config)) if text else _read(training_text(run, console))
    play = Play.read(whole)
    name = _spelled(play, name)
    others = [other for other in (play.other_name(name), "") if other is not None]
    mine, *controls = write_all(run, [name, *others], count=count, console=console, **options)
    answer = who_answers(
        play,
        name,
        [name + sample.text for sample in mine.samples],
        {one.prompt: [one.prompt + sample.text for sample in one.samples] for one in controls},
        seed=seed,
    )
    if run.folder is not None:
        folder = run.folder.path / SPEAKERS
        document = {**plain(answer), "samples": count, "step": run.step, "seed": seed}
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
            safe = "".join(c if c.isalnum() else "-" for c in name.lower())
            replace_text(folder / f"{safe}.json", json_text(document, indent=1, ensure_ascii=False) + "\n")
            refresh_report(run)
    return answer


def _spelled(play: Play, name: str) -> str:
    """The name as the play writes it, asked for in any case."""
    alike = sorted({speaker for speaker in play.speeches if speaker.lower() == name.lower()})
    return name if name in alike or not alike else alike[0]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
