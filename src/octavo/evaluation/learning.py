"""How a run learned, decided once from its curves. All else that depends on it (too large, under-fit) follows.

Several rules of their own for one curve would sooner or later contradict each other.
"""

from __future__ import annotations

from octavo.evaluation.curve import Curve, Trend
from octavo.evaluation.diagnostic import Diagnostic, Evidence, Facts
from octavo.evaluation.sizing import TOO_MANY_PARAMETERS_PER_TOKEN, larger, smaller

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
    said = (
        f"Diverged: the training loss was down to {lowest:.3f} near step {at:,} and ended at {end:.3f}; "
        "it came apart, although it stayed a number."
    )
    evidence |= {"lowest_training_loss": lowest, "at_step": at, "last_training_loss": end}
    return Diagnostic("diverged", said, evidence, "bad", remedy, settings)


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
        said = (
            f"Unsteady: after step {step:,.0f} the validation loss rose by {end - loss:.4f}, and the training loss "
            f"too, from {at_best:.3f} to {at_end:.3f}; this is not memorization: the training came apart."
        )
        evidence = {"best_step": int(step), "best_loss": loss, "last_loss": end, "noise": noise}
        slower = (facts.setting("training.optimizer.learning_rate", 1 / 3),)
        return Diagnostic("unsteady", said, evidence, "bad", "a third of the learning rate", slower)
    said = (
        f"Over-fit from step {step:,.0f}: there the validation loss was at its best, {loss:.4f}, "
        f"and it ended {end - loss:.4f} higher"
    )
    if at_best is not None and at_end is not None:
        went = "fell" if at_end < at_best else "rose"
        said += f" while the training loss {went} from {at_best:.3f} to {at_end:.3f}"
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
    return Diagnostic("over-fit", said + ".", evidence, "bad", remedy, facts.firmer)


def too_large(facts: Facts, how: Diagnostic | None) -> Diagnostic | None:
    """Over-fit, with too many parameters for each token of text."""
    count, tokens = facts.evaluation.get("parameters"), facts.train_tokens
    limit = TOO_MANY_PARAMETERS_PER_TOKEN * tokens
    if count is None or not tokens or count <= limit or how is None or how.kind != "over-fit":
        return None
    shape = smaller(facts.recipe.model, vocab_size=facts.vocab_size, limit=limit)
    said = f"Too large for this text: {count:,} parameters learn {tokens:,} tokens, {count / tokens:.0f} for each"
    evidence = {"parameters": count, "training_tokens": tokens, "parameters_per_token": count / tokens}
    if shape is None:
        remedy = f"more text, or a smaller vocabulary: the embedding of {facts.vocab_size:,} tokens alone is too large"
        return Diagnostic("too large", said + ".", evidence, "bad", remedy)
    evidence |= {"suitable_parameters": shape.parameters}
    said += f"; {shape.parameters:,} suit it better."
    firmer = tuple(option for option in facts.firmer if option.startswith("model.dropout"))
    text = count // TOO_MANY_PARAMETERS_PER_TOKEN
    remedy = f"a model of {shape.parameters:,} parameters, or some {text:,} tokens of text"
    return Diagnostic("too large", said, evidence, "bad", remedy, shape.settings + firmer)


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
    said = (
        f"Under-fit: both the validation loss ({loss:.3f}) and the training loss ({end:.3f}) are above what counting "
        f"{ngram['order']}-grams reaches ({ngram['loss']:.3f})."
    )
    return Diagnostic("under-fit", said, evidence, "bad")


def last_trend(facts: Facts) -> tuple[Curve, Trend, str] | None:
    """The end of the curve that tells most: validation where it has points enough and is clear, else training where
    that is clear, else the first that has points enough."""
    found = []
    for curve, name, share, least in (
        (facts.validation, "validation", 1 / 3, 5),
        (facts.validation, "validation", 1 / 2, 4),
        (facts.training, "training", 1 / 3, 10),
    ):
        if len(curve):
            part = curve.tail(share)
            trend = part.trend() if len(part) >= least else None
            if trend is not None:
                found.append((part, trend, name))
    clear = (one for one in found if falls(facts, one[1], one[0]) or not noisy(facts, one[1], one[0]))
    return next(clear, found[0] if found else None)


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
    found = last_trend(facts)
    if found is None:
        count = len(facts.validation)
        said = (
            f"Too few figures ({count} evaluation{'s' * (count != 1)}) to say whether it was still improving "
            "when it ended."
        )
        evidence = {"evaluations": count, "training_rows": len(facts.training)}
        return Diagnostic("unclear", said, evidence, "note", LONGER_AND_CLOSER, facts.longer + facts.closer)
    part, trend, name = found
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
        said = (
            f"Still learning when it ended: {where} the {name} loss fell by {trend.fall:.4f} ± {trend.doubt:.4f} "
            f"{facts.unit}, {-trend.slope * per:.4f} each {per:,} steps."
        )
        return Diagnostic("learning", said, evidence, "good", "train longer for a lower loss", facts.longer)
    if noisy(facts, trend, part):
        said = (
            f"The {name} loss is too noisy to say whether it was still improving: {where} it changed by "
            f"{-trend.fall:+.4f} ± {trend.doubt:.4f}."
        )
        return Diagnostic("unclear", said, evidence, "note", LONGER_AND_CLOSER, facts.longer + facts.closer)
    return plateau(
        facts, f"{where} the {name} loss changed by {-trend.fall:+.4f} ± {trend.doubt:.4f}", evidence
    )


def plateau(facts: Facts, what: str, evidence: Evidence) -> Diagnostic:
    """It has stopped improving, and why, if the metrics show it."""
    share = facts.rate_left
    evidence = {**evidence, "learning_rate_at_end": share}

    def diagnostic(said: str, remedy: str, settings: tuple[str, ...]) -> Diagnostic:
        return Diagnostic("plateau", f"Plateau: {what}.{said}", evidence, "note", remedy, settings)

    if share < RUN_DOWN:
        said = (
            f" The learning rate had gone down to {share:.0%} of its peak by then, which flattens every curve; a "
            "longer run comes down later, and lower."
        )
        return diagnostic(said, "train longer, if this is not enough", facts.longer)
    shape = larger(facts.recipe.model, vocab_size=facts.vocab_size)
    wider = () if shape is None else shape.settings
    if under_fit(facts) is not None:
        faster = facts.setting("training.optimizer.learning_rate", 2)
        return diagnostic("", "twice the learning rate and a larger model", (faster, *wider))
    cosine = ("training.schedule=cosine",) if facts.recipe.training.schedule.kind != "cosine" else ()
    return diagnostic("", "a larger model, and a learning rate that goes down at the end", (*cosine, *wider))
