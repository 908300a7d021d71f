"""Findings on how a run learned, from its curves: over-fit, under-fit, learning, plateau, diverged, too large."""

from __future__ import annotations

from octavo.evaluation.curve import Curve, Trend
from octavo.evaluation.finding import Evidence, Facts, Finding
from octavo.evaluation.sizing import TOO_MANY_PARAMETERS_PER_TOKEN, larger, smaller

SURE = 4.0
"""Standard deviations of a curve's own noise that a difference must exceed."""

RISE = 0.01
"""The least share by which a validation loss must have risen to be called over-fit."""

FALL = 0.005
"""The least share by which a loss must still fall over the last third of a run to be called learning."""

APART = 0.2
"""The share by which a training loss must end above its lowest to be called diverged."""


def diverged(facts: Facts) -> Finding | None:
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
        return Finding("diverged", f"Diverged. {facts.diverged}", evidence, "bad", remedy, settings)
    curve = facts.training.thinned()
    if len(curve) < 5 or facts.train_end is None:
        return None
    lowest, end = float(curve.losses.min()), facts.train_end
    if end - lowest <= max(APART * lowest, 2 * SURE * facts.training.noise):
        return None
    at = int(curve.steps[curve.best])
    said = (
        f"Diverged: the training loss was down to {lowest:.3f} near step {at:,} and ended at {end:.3f}; "
        "it came apart, although it stayed a number."
    )
    evidence |= {"lowest_training_loss": lowest, "at_step": at, "last_training_loss": end}
    return Finding("diverged", said, evidence, "bad", remedy, settings)


def over_fit(facts: Facts) -> Finding | None:
    """The validation loss had its lowest point before the end, and rose by more than its noise."""
    curve, training = facts.validation, facts.training
    after = len(curve) - 1 - curve.best if len(curve) else 0
    if after < 1:
        return None
    step, loss = float(curve.steps[curve.best]), float(curve.losses[curve.best])
    end = float(sorted(curve.losses[-min(3, after) :])[min(3, after) // 2])
    # Few evaluations tell little about their own noise.
    noise = curve.noise if len(curve) >= 8 else max(curve.noise, 0.0075 * loss)
    if end - loss <= max(SURE * noise, RISE * loss):
        return None
    reach = 0.05 * curve.steps[-1]
    at_best, at_end = (training.level(at, reach) if len(training) else None for at in (step, curve.steps[-1]))
    if at_best is not None and at_end is not None and at_end > at_best + SURE * training.noise:
        return None  # the training loss rose too: not learnt by heart, but come apart
    said = (
        f"Over-fit from step {step:,.0f}: there the validation loss was at its best, {loss:.4f}, "
        f"and it ended {end - loss:.4f} higher"
    )
    if at_best is not None and at_end is not None:
        said += f" while the training loss fell from {at_best:.3f} to {at_end:.3f}"
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
        "that step's weights are kept as best and judged here; more text, dropout or an earlier stop help"
    )
    return Finding("over-fit", said + ".", evidence, "bad", remedy, facts.firmer)


def too_large(facts: Facts) -> Finding | None:
    """Over-fit, with more parameters for each token of text than such texts bear."""
    count, tokens = facts.evaluation.get("parameters"), facts.train_tokens
    limit = TOO_MANY_PARAMETERS_PER_TOKEN * tokens
    if count is None or not tokens or count <= limit or over_fit(facts) is None:
        return None
    shape = smaller(facts.recipe.model, vocab_size=facts.vocab_size, limit=limit)
    said = f"Too large for this text: {count:,} parameters learn {tokens:,} tokens, {count / tokens:.0f} for each"
    evidence = {"parameters": count, "training_tokens": tokens, "parameters_per_token": count / tokens}
    if shape is None:
        remedy = f"more text, or a smaller vocabulary: the embedding of {facts.vocab_size:,} tokens alone is too large"
        return Finding("too large", said + ".", evidence, "bad", remedy)
    evidence |= {"suitable_parameters": shape.parameters}
    said += f"; {shape.parameters:,} suit it better."
    firmer = tuple(option for option in facts.firmer if option.startswith("model.dropout"))
    text = count // TOO_MANY_PARAMETERS_PER_TOKEN
    remedy = f"a model of {shape.parameters:,} parameters, or some {text:,} tokens of text"
    return Finding("too large", said, evidence, "bad", remedy, shape.settings + firmer)


def under_fit(facts: Facts) -> Finding | None:
    """Neither the validation text nor the training text is predicted as well as counting predicts it."""
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
        f"{ngram['order']}-grams reaches ({ngram['loss']:.3f}); the model has more to learn from this text."
    )
    trend = last_trend(facts)
    if trend is None or falls(trend[1], trend[0]):
        return Finding("under-fit", said, evidence, "bad", "train longer", facts.longer)
    shape = larger(facts.recipe.model, vocab_size=facts.vocab_size)
    faster = facts.setting("training.optimizer.learning_rate", 2)
    remedy = "it has stopped improving: try twice the learning rate, then a larger model"
    return Finding(
        "under-fit", said, evidence, "bad", remedy, (faster,) + (() if shape is None else shape.settings)
    )


def last_trend(facts: Facts) -> tuple[Curve, Trend, str] | None:
    """The end of the curve that tells most: validation where it has points enough, else training."""
    for curve, name, share, least in (
        (facts.validation, "validation", 1 / 3, 5),
        (facts.validation, "validation", 1 / 2, 4),
        (facts.training, "training", 1 / 3, 10),
    ):
        if len(curve):
            part = curve.tail(share)
            trend = part.trend() if len(part) >= least else None
            if trend is not None:
                return part, trend, name
    return None


def falls(trend: Trend, part: Curve) -> bool:
    """Whether a loss falls by more than its noise, and by enough to matter."""
    level = float(abs(part.losses.mean()))
    return trend.fall > 3 * trend.doubt and trend.fall > FALL * level


def pace(facts: Facts) -> Finding | None:
    """Still improving when it ended, on a plateau, or too few figures to say."""
    if not facts.rows or diverged(facts) is not None or over_fit(facts) is not None:
        return None
    found = last_trend(facts)
    if found is None:
        count = len(facts.validation)
        said = (
            f"Too few figures ({count} evaluation{'s' * (count != 1)}) to say whether it was still improving "
            "when it ended."
        )
        evidence = {"evaluations": count, "training_rows": len(facts.training)}
        return Finding("unclear", said, evidence, "note", "evaluate more often", facts.closer)
    part, trend, name = found
    level = float(part.losses[-1])
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
    if falls(trend, part):
        said = (
            f"Still learning when it ended: {where} the {name} loss fell by {trend.fall:.4f} ± {trend.doubt:.4f} nats "
            f"per token, {-trend.slope * per:.4f} each {per:,} steps."
        )
        return Finding("learning", said, evidence, "good", "train longer for a lower loss", facts.longer)
    if 3 * trend.doubt > 0.02 * level:
        said = (
            f"The {name} loss is too noisy to say whether it was still improving: {where} it changed by "
            f"{-trend.fall:+.4f} ± {trend.doubt:.4f}."
        )
        return Finding("unclear", said, evidence, "note", "evaluate more often", facts.closer)
    return plateau(
        facts, f"{where} the {name} loss changed by {-trend.fall:+.4f} ± {trend.doubt:.4f}", evidence
    )


def plateau(facts: Facts, what: str, evidence: Evidence) -> Finding:
    """It has stopped improving; why, as far as the figures tell."""
    rates = [row["learning_rate"] for row in facts.rows if row.get("learning_rate") is not None]
    share = rates[-1] / max(rates) if rates and max(rates) > 0 else 1.0
    evidence = {**evidence, "learning_rate_at_end": share}
    if share < 0.2:
        said = (
            f"Plateau: {what}. The learning rate had gone down to {share:.0%} of its peak by then, which flattens "
            "every curve; a longer run comes down later, and lower."
        )
        return Finding("plateau", said, evidence, "note", "train longer, if this is not enough", facts.longer)
    shape = larger(facts.recipe.model, vocab_size=facts.vocab_size)
    remedy = (
        "a learning rate that goes down at the end (training.schedule=cosine), a larger model, or more text"
    )
    return Finding(
        "plateau", f"Plateau: {what}.", evidence, "note", remedy, () if shape is None else shape.settings
    )
