"""What is right and wrong with a run, in words, from its own numbers: a verdict with what to do, and its evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from octavo.config import Recipe
from octavo.evaluation.learning_curve import Curve, Trend
from octavo.evaluation.sizing import TOO_MANY_PARAMETERS_PER_TOKEN, larger, smaller
from octavo.training.objective import Unit
from octavo.util.terminal import finite, listed

# What a diagnosis is made of: facts about a run go in, diagnostics come out.

CLOSE = 0.05
"""Evaluations this far apart, as a share of the run, are close enough to see its curve."""

Severity = Literal["good", "note", "bad"]
Evidence = Mapping[str, float | str | None]


@dataclass(frozen=True)
class Diagnostic:
    """One thing that the figures say.

    Attributes:
        kind: its name for programs: diverged, unsteady, over-fit, learning, plateau, unclear (one of these at most),
            impossible, too large, under-fit, short context, end token, memorization, repetition, likeness, drift,
            baselines.
        sentence: for people; it holds the figures that matter most.
        evidence: all figures that it rests on, by name.
        severity: whether this is as it should be (good), worth knowing (note), or in the way (bad).
        remedy: what to do, in words; empty if nothing needs to be done.
        settings: the same as `key=value`, to put after `octavo train`; may be empty.
    """

    kind: str
    sentence: str
    evidence: Evidence
    severity: Severity = "note"
    remedy: str = ""
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rivals:
    """What decides among simple predictors, where that is not the loss.

    Attributes:
        own, others: what the model reached, and the others by name; less is better.
        it: how a sentence about it begins.
    """

    own: float
    others: Mapping[str, float]
    it: str


@dataclass(frozen=True)
class Facts:
    """What is known about a run when it ends. Nothing is said about what is missing."""

    recipe: Recipe
    steps: int
    """Steps that were asked for."""
    vocab_size: int
    train_tokens: int
    rows: Sequence[Mapping[str, Any]] = ()
    """Of metrics.jsonl."""
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    """What evaluation.json holds (losses, baselines, positions, ends, memorization, diversity)."""
    diverged: str | None = None
    """Why the run diverged, as a sentence."""
    elsewhere: bool = False
    """Whether it was evaluated on another text than its own, which may be of another kind."""
    rivals: Rivals | None = None

    @cached_property
    def unit(self) -> Unit:
        """Unit of the losses."""
        return self.recipe.objective.unit

    @cached_property
    def training(self) -> Curve:
        """Training loss by step."""
        return Curve.of(self.rows, "train")

    @cached_property
    def validation(self) -> Curve:
        """Loss on the validation split."""
        return Curve.of(self.rows, "validation")

    @property
    def passes(self) -> float:
        """How often the training text was seen."""
        seen = max((row.get("tokens") or 0 for row in self.rows if row.get("event") == "train"), default=0)
        return seen / max(1, self.train_tokens)

    @property
    def train_end(self) -> float | None:
        """Training loss at the end: the median of the last twentieth."""
        curve = self.training
        return curve.level(curve.steps[-1], 0.05 * curve.steps[-1]) if len(curve) else None

    def setting(self, key: str, factor: float) -> str:
        """`key=value` with the recipe's own number times a factor."""
        value: Any = self.recipe
        for name in key.split("."):
            value = getattr(value, name)
        return f"{key}={value * factor:.3g}" if isinstance(value, float) else f"{key}={round(value * factor)}"

    def size(self, loss: float) -> float:
        """What a share of a loss is a share of: the loss itself, or, of a density, whose zero is a matter of the
        numbers' units, a nat for each number of a row."""
        return float(self.vocab_size) if self.unit.density else abs(loss)

    @property
    def rate_left(self) -> float:
        """Share of its peak that the learning rate had at the end."""
        rates = [row["learning_rate"] for row in self.rows if row.get("learning_rate") is not None]
        return rates[-1] / max(rates) if rates and max(rates) > 0 else 1.0

    @property
    def longer(self) -> tuple[str, ...]:
        """The settings for twice the training."""
        if self.recipe.training.epochs is not None:
            return (self.setting("training.epochs", 2),)
        most = self.recipe.training.passes
        limit = (self.setting("training.passes", 2),) if most is not None and 2 * self.passes > most else ()
        if self.recipe.training.minutes is not None:
            return (self.setting("training.minutes", 2), *limit)
        return (f"training.steps={2 * self.steps}", *limit)

    @property
    def closer(self) -> tuple[str, ...]:
        """The setting for evaluations close enough to see a curve, if they were not."""
        every = self.recipe.evaluation.every
        return () if isinstance(every, float) and every <= CLOSE else (f"evaluation.every={CLOSE}",)

    @property
    def firmer(self) -> tuple[str, ...]:
        """Settings that make a model memorize less."""
        dropout = getattr(self.recipe.model, "dropout", None)
        dry = dropout is not None and not (dropout.attention or dropout.projection or dropout.feed_forward)
        return ("model.dropout=0.2",) if dry else ("training.patience=3",)


# How a run learned, decided once from its curves. All else that depends on it (too large, under-fit) follows.

SURE = 4.0
"""Standard deviations of a curve's own noise, or standard errors, that a difference must exceed."""

RISE = 0.01
"""The least share by which a validation loss must have risen to be called over-fit."""

FALL = 0.005
"""The least share by which a loss must still fall over the last third of a run to be called learning."""

APART = 0.2
"""The share by which a training loss must end above its lowest to be called diverged."""

NOTHING = 0.01
"""Nats of a token, or of a row of numbers, that are no matter: of what is all but known a loss may double."""

RUN_DOWN = 0.2
"""The share of its peak below which a learning rate flattens a curve by itself."""

LONGER_AND_CLOSER = "train longer, and evaluate often enough to tell"


def course(facts: Facts) -> Diagnostic | None:
    """The one diagnostic on how it learned: diverged, unsteady, over-fit, learning, plateau or unclear; None without
    figures."""
    return diverged(facts) or turned(facts) or pace(facts)


def diverged(facts: Facts) -> Diagnostic | None:
    """The loss stopped being a number, or came apart and stayed there."""
    settings = (facts.setting("training.optimizer.learning_rate", 1 / 3),)
    remedy = "a third of the learning rate; a longer training.schedule.warmup helps as well"
    rate = facts.recipe.training.optimizer
    evidence: dict[str, float | str | None] = {"learning_rate": getattr(rate, "learning_rate", None)}
    if len(facts.validation):
        best = facts.validation.best
        evidence["best_step"] = int(facts.validation.steps[best])
        evidence["best_loss"] = float(facts.validation.losses[best])
    if facts.diverged is not None:
        return Diagnostic("diverged", f"Diverged. {facts.diverged}", evidence, "bad", remedy, settings)
    curve = facts.training.thinned()
    if len(curve) < 5 or facts.train_end is None:
        return None
    lowest, end = float(curve.losses.min()), facts.train_end
    if end - lowest <= max(APART * facts.size(lowest), 2 * SURE * facts.training.noise, NOTHING):
        return None
    at = int(curve.steps[curve.best])
    sentence = (
        f"Diverged: the training loss was down to {lowest:.3f} near step {at:,} and ended at {end:.3f}; "
        "it came apart, although it stayed a number."
    )
    evidence |= {"lowest_training_loss": lowest, "at_step": at, "last_training_loss": end}
    return Diagnostic("diverged", sentence, evidence, "bad", remedy, settings)


def turned(facts: Facts) -> Diagnostic | None:
    """The validation loss had its lowest point before the end, and rose by more than its noise: over-fit, or unsteady
    where the training loss rose too."""
    curve, training = facts.validation, facts.training
    after = len(curve) - 1 - curve.best if len(curve) else 0
    if after < 1:
        return None
    step, loss = float(curve.steps[curve.best]), float(curve.losses[curve.best])
    end = float(sorted(curve.losses[-min(3, after) :])[min(3, after) // 2])
    # Few evaluations tell little about their own noise.
    noise = curve.noise if len(curve) >= 8 else max(curve.noise, 0.0075 * facts.size(loss))
    if end - loss <= max(SURE * noise, RISE * facts.size(loss), NOTHING):
        return None
    reach = 0.05 * curve.steps[-1]
    at_best, at_end = (training.level(at, reach) if len(training) else None for at in (step, curve.steps[-1]))
    if at_best is not None and at_end is not None and at_end > at_best + SURE * training.noise:
        sentence = (
            f"Unsteady: after step {step:,.0f} the validation loss rose by {end - loss:.4f}, and the training loss "
            f"too, from {at_best:.3f} to {at_end:.3f}; this is not memorization: the training came apart."
        )
        evidence = {"best_step": int(step), "best_loss": loss, "last_loss": end, "noise": noise}
        slower = (facts.setting("training.optimizer.learning_rate", 1 / 3),)
        return Diagnostic("unsteady", sentence, evidence, "bad", "a third of the learning rate", slower)
    sentence = (
        f"Over-fit from step {step:,.0f}: there the validation loss was at its best, {loss:.4f}, "
        f"and it ended {end - loss:.4f} higher"
    )
    if at_best is not None and at_end is not None:
        went = "fell" if at_end < at_best else "rose"
        sentence += f" while the training loss {went} from {at_best:.3f} to {at_end:.3f}"
    evidence = {
        "best_step": int(step),
        "best_loss": loss,
        "last_loss": end,
        "rise": end - loss,
        "noise": noise,
        "training_loss_at_best": at_best,
        "training_loss_at_end": at_end,
        "passes": facts.passes,
    }
    remedy = (
        "that step's weights are kept as best and evaluated here; more text, dropout or an earlier stop help"
    )
    return Diagnostic("over-fit", sentence + ".", evidence, "bad", remedy, facts.firmer)


def too_large(facts: Facts, how: Diagnostic | None) -> Diagnostic | None:
    """Over-fit, with too many parameters for each token of text."""
    count, tokens = facts.evaluation.get("parameters"), facts.train_tokens
    limit = TOO_MANY_PARAMETERS_PER_TOKEN * tokens
    if count is None or not tokens or count <= limit or how is None or how.kind != "over-fit":
        return None
    shape = smaller(facts.recipe.model, vocab_size=facts.vocab_size, limit=limit)
    sentence = f"Too large for this text: {count:,} parameters learn {tokens:,} tokens, {count / tokens:.0f} for each"
    evidence = {"parameters": count, "training_tokens": tokens, "parameters_per_token": count / tokens}
    if shape is None:
        remedy = f"more text, or a smaller vocabulary: the embedding of {facts.vocab_size:,} tokens alone is too large"
        return Diagnostic("too large", sentence + ".", evidence, "bad", remedy)
    evidence |= {"suitable_parameters": shape.parameters}
    sentence += f"; {shape.parameters:,} suit it better."
    firmer = tuple(option for option in facts.firmer if option.startswith("model.dropout"))
    text = count // TOO_MANY_PARAMETERS_PER_TOKEN
    remedy = f"a model of {shape.parameters:,} parameters, or some {text:,} tokens of text"
    return Diagnostic("too large", sentence, evidence, "bad", remedy, shape.settings + firmer)


def under_fit(facts: Facts) -> Diagnostic | None:
    """Neither the validation text nor the training text is predicted as well as counting predicts it. What to do about
    it is the course's to say. Of a model that is taught the training loss tells nothing of the text."""
    if facts.recipe.training.teachers.somebody:
        return None
    loss, ngram = facts.evaluation.get("val_loss"), (facts.evaluation.get("baselines") or {}).get("ngram")
    end = facts.train_end
    if loss is None or end is None or not ngram or loss < ngram["loss"] or end < 0.98 * ngram["loss"]:
        return None
    evidence = {
        "validation_loss": loss,
        "training_loss": end,
        "ngram_loss": ngram["loss"],
        "ngram_order": ngram["order"],
    }
    sentence = (
        f"Under-fit: both the validation loss ({loss:.3f}) and the training loss ({end:.3f}) are above what counting "
        f"{ngram['order']}-grams reaches ({ngram['loss']:.3f})."
    )
    return Diagnostic("under-fit", sentence, evidence, "bad")


def last_trend(facts: Facts) -> tuple[Curve, Trend, str] | None:
    """The end of the curve that tells most: validation where it has points enough and is clear, else training where
    that is clear, else the first that has points enough."""
    trends = []
    for curve, name, share, least in (
        (facts.validation, "validation", 1 / 3, 5),
        (facts.validation, "validation", 1 / 2, 4),
        (facts.training, "training", 1 / 3, 10),
    ):
        if len(curve):
            part = curve.tail(share)
            trend = part.trend() if len(part) >= least else None
            if trend is not None:
                trends.append((part, trend, name))
    clear = (one for one in trends if falls(facts, one[1], one[0]) or not noisy(facts, one[1], one[0]))
    return next(clear, trends[0] if trends else None)


def falls(facts: Facts, trend: Trend, part: Curve) -> bool:
    """Whether a loss falls by more than its noise, and by enough to matter."""
    return trend.fall > max(SURE * trend.doubt, FALL * facts.size(float(part.losses.mean())))


def noisy(facts: Facts, trend: Trend, part: Curve) -> bool:
    """Whether its noise could hide a fall that matters."""
    return SURE * trend.doubt > 0.02 * facts.size(float(part.losses[-1]))


def pace(facts: Facts) -> Diagnostic | None:
    """Still improving when it ended, on a plateau, or too few figures to say."""
    if not facts.rows:
        return None
    last = last_trend(facts)
    if last is None:
        count = len(facts.validation)
        sentence = (
            f"Too few figures ({count} evaluation{'s' * (count != 1)}) to say whether it was still improving "
            "when it ended."
        )
        evidence = {"evaluations": count, "training_rows": len(facts.training)}
        return Diagnostic(
            "unclear", sentence, evidence, "note", LONGER_AND_CLOSER, facts.longer + facts.closer
        )
    part, trend, name = last
    per = 1000 if facts.steps >= 1000 else 100
    evidence = {
        "curve": name,
        "from_step": int(part.steps[0]),
        "to_step": int(part.steps[-1]),
        "fall": trend.fall,
        "standard_error": trend.doubt,
        f"fall_per_{per}_steps": -trend.slope * per,
    }
    where = f"over the last {trend.span:,.0f} steps"
    if falls(facts, trend, part):
        sentence = (
            f"Still learning when it ended: {where} the {name} loss fell by {trend.fall:.4f} ± {trend.doubt:.4f} "
            f"{facts.unit}, {-trend.slope * per:.4f} each {per:,} steps."
        )
        return Diagnostic(
            "learning", sentence, evidence, "good", "train longer for a lower loss", facts.longer
        )
    if noisy(facts, trend, part):
        sentence = (
            f"The {name} loss is too noisy to say whether it was still improving: {where} it changed by "
            f"{-trend.fall:+.4f} ± {trend.doubt:.4f}."
        )
        return Diagnostic(
            "unclear", sentence, evidence, "note", LONGER_AND_CLOSER, facts.longer + facts.closer
        )
    return plateau(
        facts, f"{where} the {name} loss changed by {-trend.fall:+.4f} ± {trend.doubt:.4f}", evidence
    )


def plateau(facts: Facts, what: str, evidence: Evidence) -> Diagnostic:
    """It has stopped improving, and why, if the metrics show it."""
    share = facts.rate_left
    evidence = {**evidence, "learning_rate_at_end": share}

    def diagnostic(sentence: str, remedy: str, settings: tuple[str, ...]) -> Diagnostic:
        return Diagnostic("plateau", f"Plateau: {what}.{sentence}", evidence, "note", remedy, settings)

    if share < RUN_DOWN:
        sentence = (
            f" The learning rate had gone down to {share:.0%} of its peak by then, which flattens every curve; a "
            "longer run comes down later, and lower."
        )
        return diagnostic(sentence, "train longer, if this is not enough", facts.longer)
    shape = larger(facts.recipe.model, vocab_size=facts.vocab_size)
    wider = () if shape is None else shape.settings
    if under_fit(facts) is not None:
        faster = facts.setting("training.optimizer.learning_rate", 2)
        return diagnostic("", "twice the learning rate and a larger model", (faster, *wider))
    cosine = ("training.schedule=cosine",) if facts.recipe.training.schedule.kind != "cosine" else ()
    return diagnostic("", "a larger model, and a learning rate that goes down at the end", (*cosine, *wider))


# Diagnostics on what a model writes and where: copies, repetition, drift, the context's end, the end token.

COPIED = 50
"""Characters of a run that is no longer a turn of phrase."""

DRIFT_APART = 0.05
"""The least difference to held-out text, in shares of 1, that is worth a word."""

LEAST, LEAST_HELD_OUT = 500, 200
"""Characters that must have been written to be judged, and held out to compare them with."""

GAIN = 0.01
"""The least share of the loss that a context twice as long must promise."""


def memorization(facts: Facts) -> Diagnostic | None:
    """Whether it recites, against how much held-out text repeats the training text."""
    meter = facts.evaluation.get("memorization")
    if not meter or meter["generated"]["characters"] < LEAST:
        return None
    if meter["held_out"]["characters"] < LEAST_HELD_OUT:
        return None
    own, control = (meter[group]["shares"][str(COPIED)] for group in ("generated", "held_out"))
    error = meter["difference_error"]
    runs = {group: meter[group]["longest"] for group in ("generated", "held_out")}
    longest = {group: run["length"] if run else 0 for group, run in runs.items()}
    evidence = {
        "copied": own,
        "copied_held_out": control,
        "standard_error": error,
        "longest": longest["generated"],
        "longest_held_out": longest["held_out"],
    }
    figures = (
        f"{own:.0%} of what it writes stands in the training text in runs of {COPIED} characters or more "
        f"(held-out text: {control:.0%}); the longest run has {longest['generated'] or 'fewer than 10'} characters "
        f"(held-out text: {longest['held_out'] or 'fewer than 10'})."
    )
    if own - control <= max(DRIFT_APART, 3 * (error or 0.0)):
        sentence = f"It does not recite its training text more than new text does: {figures}"
        return Diagnostic("memorization", sentence, evidence, "good")
    remedy = "fewer passes over the text, dropout, a smaller model, or more text"
    return Diagnostic("memorization", f"It recites: {figures}", evidence, "bad", remedy, facts.firmer)


def _beside(facts: Facts, name: str) -> tuple[float, float, float] | None:
    """A figure of the generated and of the held-out texts, and the standard error of their difference."""
    diversity = facts.evaluation.get("diversity")
    if not diversity:
        return None
    own, control = diversity["generated"][name], diversity["held_out"][name]
    if None in (own["mean"], control["mean"], control["error"]):
        return None
    scatter = control["error"] * math.sqrt(diversity["held_out"]["texts"])
    # A single sample (greedy) has no scatter of its own.
    error = scatter if own["error"] is None else own["error"]
    return own["mean"], control["mean"], math.hypot(error, control["error"])


def _evidence(values: tuple[float, float, float]) -> dict[str, float | str | None]:
    return {"generated": values[0], "held_out": values[1], "standard_error": values[2]}


def repetition(facts: Facts) -> Diagnostic | None:
    """A text that goes round in circles."""
    values = _beside(facts, "repeated")
    if values is None or values[0] - values[1] <= max(DRIFT_APART, 3 * values[2]):
        return None
    unit = facts.evaluation["diversity"]["unit"]
    sentence = (
        f"It repeats itself: {values[0]:.0%} of the 4-grams ({unit}s) in a sample stood in it before; "
        f"in held-out text {values[1]:.0%}."
    )
    greedy = facts.recipe.sampling.temperature < 0.5
    settings = "sampling.temperature=0.8" if greedy else "sampling.repetition_penalty=1.1"
    remedy = "longer training is the cure; sampling can hide it"
    return Diagnostic("repetition", sentence, _evidence(values), "bad", remedy, (settings,))


def likeness(facts: Facts) -> Diagnostic | None:
    """Samples that resemble each other."""
    values = _beside(facts, "alike")
    if values is None or values[0] - values[1] <= max(DRIFT_APART, 3 * values[2]):
        return None
    unit = facts.evaluation["diversity"]["unit"]
    sentence = (
        f"Its samples are alike: {values[0]:.0%} of a sample's 4-grams ({unit}s) stand in another one too; "
        f"in held-out text {values[1]:.0%}."
    )
    remedy = "draw more freely, or train on more and more varied text"
    return Diagnostic("likeness", sentence, _evidence(values), "note", remedy, ("sampling.temperature=1.0",))


def drift(facts: Facts) -> Diagnostic | None:
    """Texts that lose their thread, where texts of this kind have one."""
    values = _beside(facts, "thread")
    if values is None:
        return None
    own, control, error = values
    if control < 0.02 or own > control / 2 or control - own <= 3 * error:
        return None
    sentence = (
        f"It loses its thread within a page: two halves of a sample have {own:+.3f} more in common than halves "
        f"of different samples; in held-out text it is {control:+.3f}."
    )
    remedy = "longer training and a longer context"
    settings = (facts.setting("model.context", 2),)
    return Diagnostic("drift", sentence, _evidence(values), "note", remedy, settings)


def short_context(facts: Facts) -> Diagnostic | None:
    """The loss still falls where the window ends, or the documents are longer than it."""
    context = facts.recipe.model.context
    cut = facts.evaluation.get("documents_cut")
    if facts.recipe.batches.whole_documents:
        if not cut or cut < 0.1:
            return None
        sentence = (
            f"Too short a context: {cut:.0%} of the held-out documents are longer than its {context:,} tokens, "
            "and are cut."
        )
        settings = (facts.setting("model.context", 2),)
        return Diagnostic(
            "short context", sentence, {"documents_cut": cut}, "note", "twice the context", settings
        )
    places, loss = facts.evaluation.get("positions"), facts.evaluation.get("val_loss")
    if not places or loss is None or places["error"] is None:
        return None
    # Of a loss that falls with the logarithm of the position, log2 of the place doubles where this has half of it.
    gain = places["gain"] / math.log2(7 / 5)
    if places["gain"] <= 3 * places["error"] or gain < GAIN * loss:
        return None
    sentence = (
        f"Too short a context: the loss still falls at the end of its {context:,} tokens, from "
        f"{places['middle']:.3f} in the third quarter to {places['end']:.3f} in the last; twice the context promises "
        f"some {gain:.3f} {facts.unit.name} more."
    )
    evidence: Mapping[str, Any] = {
        "loss_third_quarter": places["middle"],
        "loss_last_quarter": places["end"],
        "gain": places["gain"],
        "standard_error": places["error"],
        "promised": gain,
    }
    settings = (facts.setting("model.context", 2),)
    return Diagnostic("short context", sentence, evidence, "note", "twice the context", settings)


def end_token(facts: Facts) -> Diagnostic | None:
    """Whether it knows that documents end, and ends its own."""
    ends = facts.evaluation.get("ends")
    if not ends or ends["documents"] < 5:
        return None
    there, rate = ends["probability"], ends["rate"]
    evidence = dict(ends)
    settings = facts.longer if facts.recipe.batches.whole_documents else ("batches=documents",)
    if there < 3 * rate:
        sentence = (
            f"End token never learned: where documents end it gives that a probability of {there:.2%}, "
            f"hardly more than its share of all tokens ({rate:.2%}), so what it writes does not know where to stop."
        )
        return Diagnostic(
            "end token", sentence, evidence, "bad", "train longer, on whole documents", settings
        )
    own, control = ends.get("samples_ended"), ends.get("held_out_ended")
    if own is None or control is None or ends["samples"] < 8 or own >= control / 3:
        return None
    sentence = (
        f"It seldom ends: {own:.0%} of its samples came to an end in time; of held-out documents {control:.0%} would "
        f"(it gives the end token {there:.1%} where documents end)."
    )
    return Diagnostic("end token", sentence, evidence, "note", "train longer, on whole documents", settings)


BROKEN = ("diverged", "unsteady")
"""Trainings that came apart."""
ALIKE = 0.01
"""The share by which a loss may differ from that of single tokens, to be no better than these."""


def diagnose(facts: Facts) -> list[Diagnostic]:
    """The diagnostics of a run: first the verdict, which alone says what to do, then its evidence.

    A pure function. Nothing is said about what is missing.
    """
    taught_by_texts = facts.recipe.objective.build().learns_texts
    how = course(facts) if taught_by_texts else diverged(facts)
    writing = (memorization, repetition, likeness, drift, end_token, short_context)
    judged = [how, standing(facts, how) if facts.unit.has_bits_per_byte else None]
    if taught_by_texts:
        judged = [too_large(facts, how), how, under_fit(facts), standing(facts, how)]
    if (nothing := nothing_to_learn(facts)) is not None:
        judged = [how, nothing]
    judged.append(impossible(facts))
    diagnostics = [one for one in (*judged, *(judge(facts) for judge in writing)) if one is not None]
    if not diagnostics:
        return []
    first = verdict(diagnostics, how)
    return [first, *(replace(one, remedy="", settings=()) for one in diagnostics if one is not first)]


def verdict(diagnostics: list[Diagnostic], how: Diagnostic | None) -> Diagnostic:
    """Of all diagnostics the one to act on: what cannot be, what spoilt the run, how it learned, what else is bad."""
    kinds = {one.kind: one for one in diagnostics}
    if "impossible" in kinds:
        return kinds["impossible"]
    if "nothing to learn" in kinds and (how is None or how.kind not in BROKEN):
        return kinds["nothing to learn"]
    if how is not None and how.severity == "bad":
        return kinds.get("too large", how)
    bad = [one for one in diagnostics if one.severity == "bad" and one.remedy]
    urgent = [kinds[kind] for kind in ("memorization", "baselines") if kinds.get(kind) in bad]
    return urgent[0] if urgent else how or (bad or diagnostics)[0]


CHANCE = 1e-6
"""How rarely an honest model may be called impossible."""


def impossible(facts: Facts) -> Diagnostic | None:
    """The model gives the judged text more probability than the source that wrote it.

    Averaged over what the source writes, the ratio of the two probabilities is at most 1 for each model that was chosen
    beforehand and whose distributions sum to one; so it exceeds r in at most one text of r (Markov's inequality). A
    checkpoint chosen among n on this text counts n times.
    """
    stored = facts.evaluation
    loss, tokens = stored.get("val_loss"), stored.get("tokens")
    floor = stored.get("source_loss", stored.get("source_entropy"))
    if loss is None or floor is None or not tokens or facts.elsewhere:
        return None
    ahead, tried = (floor - loss) * tokens, max(1, len(facts.validation))
    if ahead <= math.log(tried / CHANCE):
        return None
    sentence = (
        f"Impossible: {loss:.4f} is below {floor:.4f}, the loss of the source itself on the same text, by "
        f"{ahead:,.1f} nats in all; chance does that in fewer than 1 of {1 / CHANCE:,.0f} runs. This proves a mistake: "
        "a leak, an overlap with the training text, or a distribution that does not sum to one."
    )
    evidence = {
        "loss": loss,
        "source_loss": floor,
        "tokens": tokens,
        "nats_below": ahead,
        "checkpoints": tried,
    }
    remedy = (
        "octavo eval RUN --prove FILE: a distribution that does not sum to one writes no file that decodes"
    )
    return Diagnostic("impossible", sentence, evidence, "bad", remedy)


def nothing_to_learn(facts: Facts) -> Diagnostic | None:
    """A text like random letters: the best n-gram looks at single tokens, and the model is no better."""
    loss, known = facts.evaluation.get("val_loss"), facts.evaluation.get("baselines") or {}
    if loss is None or not facts.unit.has_bits_per_byte or (known.get("ngram") or {}).get("order") != 1:
        return None
    counted = known["ngram"]["loss"]
    if abs(loss - counted) > ALIKE * counted:
        return None
    sentence = (
        "Next to nothing to learn: no token of this text tells what comes after it. The best n-gram looks at single "
        f"tokens and has {counted:.4f}, the model {loss:.4f}."
    )
    evidence = {"loss": loss, "ngram": counted}
    return Diagnostic(
        "nothing to learn", sentence, evidence, "note", "another text, or another tokenizer for it"
    )


def standing(facts: Facts, how: Diagnostic | None) -> Diagnostic | None:
    """Which simple predictors the model beats; and if what it writes is garbage, whether a bug is the reason. A run
    that started from another is judged against that, one with counts by what its network adds to them."""
    loss, known = facts.evaluation.get("val_loss"), facts.evaluation.get("baselines") or {}
    if (rivals := facts.rivals) is not None:
        return among_its_own(facts, how, rivals.own, rivals.others, rivals.it)
    if loss is not None and known and not facts.unit.has_bits_per_byte:
        return among_its_own(facts, how, loss, {name: one["loss"] for name, one in known.items()})
    if loss is None or "unigram" not in known:
        return None
    losses = {
        name: known[name]["loss"] for name in ("uniform", "unigram", "bigram", "ngram") if name in known
    }
    order = (known.get("ngram") or {}).get("order")
    own = facts.evaluation.get("bits_per_byte") or 0.0
    packed = (
        ("gzip", "xz") if "unit" not in facts.evaluation else ()
    )  # they compare with nothing else than bits
    bits = {name: known[name]["bits_per_byte"] for name in packed if name in known}
    evidence: dict[str, Any] = {"loss": loss, **losses, "bits_per_byte": own}
    evidence |= {f"{name}_bits_per_byte": value for name, value in bits.items()}
    packers = [name for name in ("gzip", "xz") if name in bits and own >= bits[name]]

    def diagnostic(
        sentence: str, severity: Severity, remedy: str = "", settings: tuple[str, ...] = ()
    ) -> Diagnostic:
        return Diagnostic("baselines", sentence, evidence, severity, remedy, settings)

    knows = {
        "uniform": "it predicts no better than guessing",
        "unigram": "it knows less than how often each token occurs (unigram)",
        "bigram": "it knows which tokens are frequent, but not which follows which (bigram)",
        "ngram": f"it learns from what stands before, but less than counting {order}-grams does",
    }
    above = next((name for name in knows if loss >= losses.get(name, float("inf"))), None)
    start = (known.get("start") or {}).get("loss")
    if start is not None and not facts.elsewhere:
        return beside_start(facts, how, start, evidence, knows[above] if above else "")
    if above is not None and facts.elsewhere:
        sentence = (
            f"On this text {knows[above]}: it is unlike what the model learned from, or little was learned."
        )
        return diagnostic(sentence, "bad", "look at the run's own evaluation: octavo eval RUN")
    if above is not None:
        cause, remedy, settings = _cause(facts, how, above)
        return diagnostic(f"Garbage here {cause}: {knows[above]}.", "bad", remedy, settings)
    if (counted := counting_alone(facts, how, evidence)) is not None:
        return counted
    if packers:
        need = f"{' and '.join(packers)} need{'s' if len(packers) == 1 else ''}"
        if facts.elsewhere:
            return diagnostic(f"Below every n-gram, yet {need} fewer bits for this text.", "note")
        sentence = f"Not a bug, but little learned: below every n-gram, yet {need} fewer bits for the validation text."
        return diagnostic(sentence, "note", "more text, a longer context and longer training", facts.longer)
    beaten = "every n-gram" + (" and gzip" if "gzip" in bits else "")
    return diagnostic(f"Not a bug, and not untrained: it is below {beaten}.", "good")


def beside_start(
    facts: Facts, how: Diagnostic | None, start: float, evidence: dict[str, Any], knows: str
) -> Diagnostic:
    """A run beside what it started from, on the same text. `knows`: what it knows less than, if that is simple."""
    loss, evidence = evidence["loss"], {**evidence, "start": start}
    figures = f"{loss:.4f} {facts.unit} on the validation split, {start:.4f} before"
    also = f"; {knows}" if knows else ""
    if loss > start + ALIKE * abs(start):
        tuned = hasattr(facts.recipe.objective, "beta")
        severity: Severity = "bad" if knows or not tuned else "note"
        remedy = "a third of the learning rate or fewer steps" + (
            ", or a larger objective.beta" if tuned else ""
        )
        slower = (facts.setting("training.optimizer.learning_rate", 1 / 3),)
        sentence = f"Worse than what it started from: {figures}{also}."
        return Diagnostic("baselines", sentence, evidence, severity, remedy, slower)
    if loss < start - ALIKE * abs(start):
        sentence = f"Better than what it started from: {figures}{also}."
        remedy, settings = _longer(facts, how) if knows else ("", ())
        return Diagnostic("baselines", sentence, evidence, "note" if knows else "good", remedy, settings)
    sentence = f"As good as what it started from: {figures}{also}."
    return Diagnostic("baselines", sentence, evidence, "note" if knows else "good")


def _longer(facts: Facts, how: Diagnostic | None) -> tuple[str, tuple[str, ...]]:
    """More training as a remedy, where the course of the run does not speak against it."""
    against = how is not None and how.kind in (*BROKEN, "over-fit")
    return ("", ()) if against else ("train longer", facts.longer)


def counting_alone(facts: Facts, how: Diagnostic | None, evidence: dict[str, Any]) -> Diagnostic | None:
    """Whether counting does all the work of a model with counts; None where its network adds to that. All its figures
    are of the same tokens."""
    if not (attribution := facts.evaluation.get("counted")):
        return None
    together, counting, network = (attribution[f"{name}loss"] for name in ("", "counting_", "network_"))
    simple = {"unigrams": 1, "bigrams": 2}
    orders = {
        side["order"]: side["loss"]
        for side in attribution["sides"]
        if side["order"] and not side.get("mixer")
    }
    above = next((name for name, order in simple.items() if network >= orders.get(order, math.inf)), None)
    adds = counting - together > ALIKE * counting or network < counting
    if adds and above != "unigrams":
        return None
    knows = f", more than counting {above} ({orders[simple[above]]:.3f})" if above else ""
    sentence = (
        f"Counting does all of it: alone it has {counting:.3f} nats per token, with the network {together:.3f}. The "
        f"network alone has {network:.3f}{knows}: it has learned too little to help."
    )
    evidence = {**evidence, "counting_loss": counting, "network_loss": network, "together_loss": together}
    return Diagnostic("baselines", sentence, evidence, "bad", *_longer(facts, how))


def among_its_own(
    facts: Facts, how: Diagnostic | None, loss: float, losses: Mapping[str, float], it: str = ""
) -> Diagnostic:
    """Which of its objective's own baselines it beats, by a loss or by what else is better if it is smaller."""
    better = [name for name, reached in losses.items() if loss < reached]
    worse = [name for name in losses if name not in better]
    evidence = {name: finite(reached) for name, reached in {"loss": loss, **losses}.items()}
    if "start" in worse and not facts.elsewhere:
        others = [name for name in worse if name != "start"]
        knows = f"it is not below {listed(others)}" if others else ""
        return beside_start(facts, how, losses["start"], evidence, knows)
    if not worse:
        sentence = f"{it} is below {listed(better)}." if it else f"Better {_than(better)}."
        return Diagnostic("baselines", sentence, evidence, "good")
    if it:
        sentence = f"{it} is {f'below {listed(better)}, but ' if better else ''}not below {listed(worse)}."
    else:
        sentence = (
            f"Better {_than(better)}, but not {_than(worse)}." if better else f"Not better {_than(worse)}."
        )
    severity: Severity = "note" if better else "bad"
    if facts.elsewhere:
        return Diagnostic("baselines", sentence, evidence, severity)
    return Diagnostic("baselines", sentence, evidence, severity, "train longer", facts.longer)


def _than(names: Sequence[str]) -> str:
    plain = {"uniform": "guessing", "start": "before tuning"}
    return listed([f"than {plain.get(name, name)}" for name in names])


def _cause(facts: Facts, how: Diagnostic | None, above: str) -> tuple[str, str, tuple[str, ...]]:
    """Why it stands above a simple predictor, what helps, and its settings. If the course is known, the course
    says what helps, except for a model that only guesses and has stopped improving."""
    kind = None if how is None else how.kind
    if kind in BROKEN:
        return "is a training that came apart", "", ()
    if kind == "over-fit":
        return "is over-fitting, not a bug nor too little training", "", ()
    if above == "uniform" and kind in (None, "plateau"):
        slower = (facts.setting("training.optimizer.learning_rate", 0.1),)
        return "points to a bug, or a far too high learning rate", "a tenth of the learning rate", slower
    if kind == "plateau" and facts.rate_left >= RUN_DOWN:
        return "is not a matter of time, for it has stopped improving", "", ()
    doubtful = above in ("uniform", "unigram") and kind != "learning"
    longer = "train longer; if that changes nothing, look for the bug" if doubtful else "train longer"
    cause = "is too little training or a bug" if doubtful else "is too little training, not a bug"
    return (cause, longer, facts.longer) if how is None else (cause, "", ())
