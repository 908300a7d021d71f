"""octavo generate: a trained model writes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from octavo.cli.common import Json, RunPath, Which, print_json
from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.generation import Sample
    from octavo.runs.run import Run

Positive = validators.Number(gte=1)
NotNegative = validators.Number(gte=0)
Share = validators.Number(gt=0, lte=1)

Prompt = Annotated[
    str, Parameter(help="Text to go on from; - reads it from standard input.", allow_leading_hyphen=True)
]
Tokens = Annotated[int | None, Parameter(help="At most so many tokens.", validator=Positive)]
Temperature = Annotated[
    float | None, Parameter(help="Below 1 safer, above 1 wilder, 0 greedy.", validator=NotNegative)
]
TopK = Annotated[int | None, Parameter(help="Only the k most probable tokens.", validator=Positive)]
TopP = Annotated[
    float | None, Parameter(help="Only the most probable tokens that hold this probability.", validator=Share)
]
MinP = Annotated[
    float | None,
    Parameter(help="Only tokens with this share of the best one's probability.", validator=Share),
]
Penalty = Annotated[
    float | None, Parameter(help="Above 1, what was said becomes rarer.", validator=validators.Number(gt=0))
]
Stop = Annotated[
    list[str] | None, Parameter(help="End before this text; several times for several.", negative="")
]
Seed = Annotated[
    int, Parameter(help="The same seed writes the same text.", validator=validators.Number(gte=0, lt=2**64))
]
Samples = Annotated[int, Parameter(help="So many continuations, side by side.", validator=Positive)]


def generate_command(
    run: RunPath,
    *,
    prompt: Prompt = "",
    tokens: Tokens = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Penalty = None,
    stop: Stop = None,
    seed: Seed = 0,
    samples: Samples = 1,
    checkpoint: Which = "best",
    json: Json = False,
) -> int:
    """Let a trained model write.

    For example:

    octavo generate runs/bard --prompt "ROMEO:" --tokens 300

    octavo generate runs/bard --prompt "ROMEO:" --temperature 0.8 --top-p 0.95 --samples 3

    echo "O Romeo" | octavo generate runs/bard --prompt - --json
    """
    from octavo.runs.run import Run

    if prompt == "-":
        prompt = prompt_from_input()
    loaded = Run.open(run, checkpoint=checkpoint)
    how: dict[str, Any] = {
        "tokens": tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "stop": stop or (),
    }
    if samples == 1 and not json:
        _stream(loaded, prompt, how)
        return 0
    written = loaded.samples(prompt, count=samples, **how)
    if json:
        texts = [_as_dict(loaded, sample) for sample in written]
        print_json({"run": str(run), "step": loaded.step, "prompt": prompt, "seed": seed, "samples": texts})
    else:
        _print_all(prompt, written)
    return 0


def _stream(run: Run, prompt: str, how: dict[str, Any]) -> None:
    pieces = run.stream(prompt, **how)
    first = next(pieces, "")  # before the prompt is echoed, so that an error stands alone
    print(prompt + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _print_all(prompt: str, samples: Sequence[Sample]) -> None:
    for sample in samples:
        print(f"--- {sample.index + 1} of {len(samples)}")
        print(prompt + sample.text)


def _as_dict(run: Run, sample: Sample) -> dict[str, Any]:
    pairs = zip(sample.ids, sample.log_probabilities, strict=True)
    return {
        "text": sample.text,
        "finish": sample.finish,
        "tokens": [
            {"id": id, "text": run.tokenizer.token_text(id), "log_probability": log_probability}
            for id, log_probability in pairs
        ],
    }


def prompt_from_input() -> str:
    """Standard input as text, whatever the locale."""
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError("The prompt on standard input is not UTF-8 text.") from error
