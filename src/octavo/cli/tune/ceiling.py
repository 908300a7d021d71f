"""octavo tune ceiling: the best that any tuning could reach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from octavo.cli.common import (
    Force,
    Json,
    Which,
    Whole,
    WholeSeed,
    complain,
    print_json,
    print_table,
    show,
    the_run,
)

if TYPE_CHECKING:
    from octavo.tuning.ceiling import Ceiling
    from octavo.util.output import Output

Base = Annotated[
    str,
    Parameter(help="A run folder or checkpoint folder, or storyteller: the built-in one, counted exactly."),
]
RewardName = Annotated[
    str,
    Parameter(
        help="pidgin, ends-happily, question, length, words, arithmetic, wishes, model, sum or product; with options "
        "'{kind: words, must: [snail]}'; or a Python file with a function reward(prompt, text), which is run."
    ),
]
Prompts = Annotated[
    Path | None,
    Parameter(
        help="A file of prompts: one a line, a YAML or JSON list, or .jsonl. Without it: the document start."
    ),
]
Count = Annotated[
    Whole, Parameter(help="Texts to write for each prompt.", validator=validators.Number(gte=2))
]
Tokens = Annotated[
    Whole | None,
    Parameter(help="Tokens of a text at most; default: the run's.", validator=validators.Number(gte=1)),
]
SAMPLES = 512
SHOWN = 9
"""Points in the table."""


def ceiling_command(
    base: Base,
    *,
    reward: RewardName,
    prompts: Prompts = None,
    samples: Count = SAMPLES,
    tokens: Tokens = None,
    seed: WholeSeed = 0,
    plot: Annotated[Path | None, Parameter(help="Draw it, as SVG, into this file.")] = None,
    checkpoint: Which = "best",
    force: Force = False,
    json: Json = False,
) -> int:
    """Say how much reward a model could get at each distance from what it is, whatever tunes it.

    The best policy at each KL is the base's own probability times exp(reward/β). Its reward follows from how the
    reward is distributed over the base's texts: no tuning is needed to know it. Best-of-n stands beside it.

    For example:

    octavo tune ceiling storyteller --reward ends-happily

    octavo tune ceiling runs/pidgin-demo --reward '{kind: words, must: [snail, forest]}' --plot ceiling.svg
    """
    from octavo.tuning.ceiling import STORYTELLER, sampled_ceiling, storyteller_ceiling
    from octavo.tuning.plots import frontier_plot
    from octavo.tuning.rewards.named import named_reward
    from octavo.util.terminal import Console

    config, sentences = named_reward(reward)
    for sentence in sentences:
        complain(sentence)
    output = None if plot is None else _picture(plot, base, force=force)
    if base == STORYTELLER:
        _refuse_sampling(prompts=prompts, samples=samples, tokens=tokens, seed=seed, checkpoint=checkpoint)
        ceiling = storyteller_ceiling(config)
    else:
        from octavo.run.run import Run
        from octavo.tokenizers.chat import has_chat
        from octavo.tuning.prompts import START, fitting, questions_in_file

        run = Run.open(the_run(Path(base)), checkpoint=checkpoint)
        run.refuse_no_text()
        answers = has_chat(run.tokenizer)
        asked = (START,) if prompts is None else questions_in_file(prompts, run.tokenizer, answers=answers)
        ceiling = sampled_ceiling(
            run.model,
            run.tokenizer,
            config,
            questions=fitting(asked, run.model.context, tokens),
            samples=samples,
            tokens=tokens or run.config.sampling.tokens,
            seed=seed,
            console=Console(quiet=json),
        )
    if output is not None:
        with output.writing() as file:
            file.write(frontier_plot(ceiling.curve, ceiling.best_of_n, name=config.kind).svg())
    print_json(ceiling.as_dict()) if json else _show(ceiling, plot)
    return 0


def _refuse_sampling(**given: object) -> None:
    """Raise InputError for options of a ceiling that is sampled."""
    from octavo.errors import InputError

    usual = {"samples": SAMPLES, "seed": 0, "checkpoint": "best"}
    named = ", ".join(f"--{name}" for name, value in given.items() if value != usual.get(name))
    if named:
        raise InputError(
            f"The built-in storyteller is counted exactly, over all that it can say: {named} would change nothing.",
            remedy="leave it out, or name a run to draw texts from",
        )


def _picture(plot: Path, base: str, *, force: bool) -> Output:
    from octavo.errors import InputError
    from octavo.util.output import Output

    if plot.suffix.lower() != ".svg":
        raise InputError(f"--plot {plot}: it is drawn as SVG.", remedy=f"--plot {plot.with_suffix('.svg')}")
    return Output(plot, inputs=(base,), force=force)


def _show(ceiling: Ceiling, plot: Path | None) -> None:
    from octavo.util.stats import SAID

    between = () if ceiling.exact else (f"{SAID} interval",)
    how = "exactly" if ceiling.exact else f"from {ceiling.samples:,} texts after {ceiling.prompts:,} prompts"
    show(f"The ceiling for {ceiling.reward.kind}, {how}. KL in nats for a text.")
    for why, count in ceiling.failed.items():
        complain(f"warning: the reward {why}: {count} of {ceiling.samples:,} texts have none")
    curve, best = ceiling.curve, ceiling.best_of_n
    step = max(1, (len(curve.kl) - 1) // (SHOWN - 1))
    chosen = sorted({*range(0, len(curve.kl), step), len(curve.kl) - 1})
    show()
    print_table(
        [(_beta(curve.labels[i]), f"{curve.kl[i]:.3f}", *_reward(curve, i, ceiling.exact)) for i in chosen],
        head=("β", "KL", "reward", *between),
    )
    show(curve.ends)
    show()
    print_table(
        [
            (
                f"best of {int(best.labels[i])}",
                f"{best.kl[i]:.3f}",
                *_reward(best, i, ceiling.exact),
                _spare(ceiling, i),
            )
            for i in range(len(best.kl))
        ],
        head=("", "KL", "reward", *between, "nats above the ceiling's"),
    )
    show(best.ends)
    if plot is not None:
        show(f"plot: {plot}")


def _beta(beta: float) -> str:
    return {float("inf"): "∞", 0.0: "0"}.get(float(beta), f"{beta:.3g}")


def _reward(curve: object, i: int, exact: bool) -> tuple[str, ...]:
    from octavo.tuning.ceiling import Curve

    assert isinstance(curve, Curve)
    value = f"{curve.reward[i]:.4f}"
    return (value,) if exact else (value, f"{curve.low[i]:.4f} to {curve.high[i]:.4f}")


def _spare(ceiling: Ceiling, i: int) -> str:
    needed = ceiling.curve.kl_at(float(ceiling.best_of_n.reward[i]))
    return "–" if needed is None else f"{max(0.0, ceiling.best_of_n.kl[i] - needed):.3f}"
