"""octavo generate: a trained model writes."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from octavo.cli.common import Json, RunPath, Text, Which, Whole, complain, show, the_run
from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.generation.sampling import SamplingOptions
    from octavo.run.run import Run

Positive = validators.Number(gte=1)
NotNegative = validators.Number(gte=0)
Share = validators.Number(gt=0, lte=1)

Prompt = Annotated[
    str, Parameter(help="Text to continue; - reads it from standard input.", allow_leading_hyphen=True)
]
Tokens = Annotated[Whole | None, Parameter(help="Maximum number of tokens.", validator=Positive)]
Temperature = Annotated[
    float | None, Parameter(help="Below 1 safer, above 1 wilder, 0 greedy.", validator=NotNegative)
]
TopK = Annotated[Whole | None, Parameter(help="Only the k most probable tokens.", validator=Positive)]
TopP = Annotated[
    float | None,
    Parameter(help="Only the most probable tokens that together hold this probability.", validator=Share),
]
MinP = Annotated[
    float | None,
    Parameter(help="Only tokens with at least this share of the best one's probability.", validator=Share),
]
Penalty = Annotated[
    float | None, Parameter(help="Above 1, what was said becomes rarer.", validator=validators.Number(gt=0))
]
Window = Annotated[
    Literal["slide", "crop"] | None,
    Parameter(
        help="crop: each token after exactly the last ones that fit, slower; slide: after most of them."
    ),
]
Stop = Annotated[
    list[str] | None,
    Parameter(help="Stop before this text; give it several times for several texts.", negative=""),
]
Seed = Annotated[
    str,
    Parameter(help="A number: the same one writes the same text; or random, which draws one. It is printed."),
]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"],
    Parameter(
        help="bfloat16 writes faster and rounds what it multiplies: other texts, about as good. int8 rounds it to "
        "eight bits: the fastest on a CPU."
    ),
]
OnlyValid = Annotated[
    bool,
    Parameter(
        help="Write only what the recipe's validator allows: at each step it masks the symbols that it does not.",
        negative="",
    ),
]
Samples = Annotated[
    Whole | None,
    Parameter(help="Continuations of each prompt; default: 1, or 64 for --speakers.", validator=Positive),
]
Pictures = Annotated[
    Path | None,
    Parameter(
        name="--out",
        help="Write the samples into this new folder: images as PNG files, other records as text.",
    ),
]
Prompts = Annotated[
    Path | None,
    Parameter(help="A file of prompts: one a line, or a YAML or JSON list. Writes a table into the run."),
]
Speakers = Annotated[
    str | None, Parameter(help="For plays: count which speakers of the same play answer this name.")
]
Correct = Annotated[
    str | None,
    Parameter(
        help="Show corrections: 'vocabulary' (the closest word that the training text has), or the address of a "
        "LanguageTool server, such as http://localhost:8081, to which the text is then sent."
    ),
]
Language = Annotated[
    str | None, Parameter(help="Of the text, for a LanguageTool server, such as en-US; it guesses without.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class Drawing:
    """How tokens are sampled; what is not given comes from the recipe."""

    tokens: Tokens = None
    temperature: Temperature = None
    top_k: TopK = None
    top_p: TopP = None
    min_p: MinP = None
    repetition_penalty: Penalty = None
    window: Window = None
    stop: Stop = None
    seed: Seed = "0"
    precision: Precision = "float32"
    only_valid: OnlyValid = False

    def as_options(self) -> SamplingOptions:
        """The options as `Run.samples` takes them."""
        from octavo.generation.sampling import SamplingOptions, seed_of

        given: dict[str, Any] = asdict(self)
        return SamplingOptions(**given | {"stop": self.stop or (), "seed": seed_of(self.seed)})


PLAIN = Drawing()


def generate_command(
    run: RunPath = None,
    *,
    prompt: Prompt = "",
    drawing: Drawing = PLAIN,
    samples: Samples = None,
    prompts: Prompts = None,
    speakers: Speakers = None,
    correct: Correct = None,
    language: Language = None,
    text: Text = None,
    out: Pictures = None,
    checkpoint: Which = "best",
    json: Json = False,
) -> int:
    """Let a trained model write.

    --text takes the place of the run's own training text, as the source of words (--correct) or speakers.

    For example:

    octavo generate runs/bard --prompt "ROMEO:" --tokens 300

    octavo generate runs/bard --prompts prompts.txt --samples 3 --temperature 0.8 --top-p 0.95

    octavo generate runs/bard --prompt "ROMEO:" --correct vocabulary

    octavo generate runs/bouncing-ball --samples 8 --only-valid --out films

    echo "O Romeo" | octavo generate runs/bard --prompt - --json
    """
    from octavo.cli.generate_output import corrector_for, show_prompts, show_samples, show_speakers, stream
    from octavo.generation.light import opened

    check_choices(prompt, prompts, speakers, correct, language, text)
    check_out(out, prompts, speakers, correct, json)
    if prompt == "-":
        prompt = prompt_from_input()
    options = drawing.as_options()
    run = the_run(run, writes=None if prompts is None else "--prompts", prompt=True)
    as_it_is_written = samples in (None, 1) and not (json or out or prompts or speakers or correct)
    if as_it_is_written and (light := opened(run, checkpoint, options)) is not None:
        complain(f"seed {options.seed}")
        stream(light, prompt, options)
        return 0
    from octavo.run.run import Run
    from octavo.util.terminal import Console

    loaded = Run.open(run, checkpoint=checkpoint)
    console = Console()
    complain(f"seed {options.seed}")
    if speakers is not None:
        show_speakers(loaded, speakers, samples, text, json, console, options)
        return 0
    corrector = None
    if correct is not None:
        corrector = corrector_for(loaded, correct, language=language, text=text, console=console)
    if out is not None:
        keep(loaded, prompt, samples or 1, out, options)
    elif prompts is not None:
        show_prompts(loaded, prompts, samples or 1, corrector, json, console, options)
    elif as_it_is_written:
        stream(loaded, prompt, options)
    else:
        show_samples(loaded, run, prompt, samples or 1, corrector, json, options)
    return 0


def keep(run: Run, prompt: str, count: int, folder: Path, options: SamplingOptions) -> None:
    """Samples as files, and how many of them were cut off."""
    from octavo.tasks.records.files import save_records

    cut = save_records(run, prompt, count, folder, options)
    show(f"kept in {folder}")
    if cut:
        complain(f"{cut} of {count} had not ended when they were as long as --tokens allows")


def check_choices(
    prompt: str,
    prompts: Path | None,
    speakers: str | None,
    correct: str | None,
    language: str | None,
    text: Any,
) -> None:
    """Raise InputError for options that do nothing next to the others."""
    asked = {"--prompt": prompt, "--prompts": prompts, "--speakers": speakers}
    given = [name for name, value in asked.items() if value]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} exclude each other.", remedy=f"leave {given[0]} out")
    if speakers is not None and correct is not None:
        raise InputError("--speakers counts the text as generated; --correct has nothing to do there.")
    if language is not None and "://" not in (correct or ""):
        raise InputError("--language is for a LanguageTool server.", remedy="--correct http://localhost:8081")
    if text is not None and correct is None and speakers is None:
        raise InputError("--text has nothing to do here.", remedy="it goes with --correct or --speakers")


def check_out(out: Path | None, *others: object) -> None:
    """Raise InputError for options that do nothing next to a folder to write into."""
    if out is not None and any(others):
        raise InputError("--out goes with --prompt alone.", remedy="leave --out or the other options out")


def prompt_from_input() -> str:
    """Standard input as text, whatever the locale."""
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError("The prompt on standard input is not UTF-8 text.") from error
