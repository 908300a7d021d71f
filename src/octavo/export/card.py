"""The model card of an export: what it is, on what it learned, how good it is, what was proven, how to run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octavo.config import to_yaml
from octavo.errors import InputError
from octavo.evaluation.stored import Evaluation
from octavo.export.reference_outputs import Reference
from octavo.export.targets.base import Parcel, Target
from octavo.export.tokenizer_json import shown_end
from octavo.run.run import Run
from octavo.tokenizers.chat import has_chat
from octavo.util.records import read_record
from octavo.util.terminal import fenced, in_markdown


def card(target: Target, parcel: Parcel, run: Run, kept: Reference, certificate: dict[str, Any]) -> str:
    """The page, in Markdown; everything in it is read from the run or was measured."""
    sections = [
        ("", _about(parcel, run)),
        ("Run it", target.how_to_run(parcel)),
        ("What was proven", _proven(certificate)),
        ("What it learned from", _data(run)),
        ("How good it is", _losses(run)),
        ("What it writes", _samples(parcel, kept)),
        ("Limits", _limits(parcel)),
        ("Settings", fenced(to_yaml(_nameless(run.config.model_dump(mode="json"))), "yaml")),
    ]
    head = "---\ntags: [octavo]\npipeline_tag: text-generation\n---\n"
    parts = [f"## {title}\n\n{text}" if title else text for title, text in sections if text]
    return f"{head}# {in_markdown(parcel.name)}\n\n" + "\n\n".join(parts) + "\n"


def evaluation_of(run: Run) -> dict[str, Any]:
    """The run's own evaluation, empty where it has none with a loss, or one of more than is exported. Raises InputError
    where its file is damaged."""
    path = run.folder.evaluation if run.folder and not run.network_only else None
    if path is None or not path.is_file():
        return {}
    evaluation = read_record(path, Evaluation, of="the run's evaluation", error=InputError)
    return evaluation if evaluation.get("val_loss") is not None else {}


def _nameless(node: Any) -> Any:
    """Settings without the folders of this machine: a card is passed on, and of a path its last name is enough."""
    if isinstance(node, dict):
        return {key: _nameless(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_nameless(value) for value in node]
    return Path(node).name if isinstance(node, str) and Path(node).is_absolute() else node


def _about(parcel: Parcel, run: Run) -> str:
    shape = parcel.weights.shape
    return (
        f"A language model of {run.parameters:,} parameters: {in_markdown(run.config.model.shape)}. It reads "
        f"{shape.context:,} tokens at once; its tokenizer is of kind {parcel.tokenizer.kind} with "
        f"{shape.vocab_size:,} tokens. {_kind(parcel)} "
        f"Trained with Octavo for {run.step:,} steps."
        + (
            " In its run it is mixed with counts of the training text, which stayed behind: what the run says of its "
            "loss is not true of it."
            if run.network_only
            else ""
        )
    )


def _kind(parcel: Parcel) -> str:
    if has_chat(parcel.tokenizer):
        return "It is tuned on conversations: it reads what a user says, and answers."
    return "It is a base model: it goes on from a text, and follows no instructions."


def _proven(certificate: dict[str, Any]) -> str:
    measured, promised = certificate["measured"], certificate["promised"]
    strings = measured["strings"]
    wrong = [one for one in measured["first_greedy_difference"] if one is not None]
    texts = len(measured["first_greedy_difference"])
    rows = [
        (
            "largest difference of a logit",
            f"{measured['largest_logit_difference']:.2g} over {measured['positions']:,} positions",
        ),
        (
            "greedy texts",
            f"{texts} of {measured['greedy_tokens']} tokens, "
            + (f"{len(wrong)} differ, the first after {min(wrong)} tokens" if wrong else "all the same"),
        ),
        (
            f"loss on {_tokens(measured)} of {_text(certificate)}, here and in the run",
            f"{measured['loss']:.6f} and {measured['loss_of_the_run']:.6f} nats a token",
        ),
        ("texts with other ids", _share(strings["other_ids"], strings["compared"])),
        ("texts decoded otherwise", _share(strings["other_text"], strings["compared"])),
    ]
    if strings["refused_by_the_run"]:
        taken, refused = strings["taken_still"], strings["refused_by_the_run"]
        rows.append(("texts that the run refuses", f"{refused}, of which {taken} are taken here"))
    if "measured_in_float32" in certificate:
        own = certificate["measured_in_float32"]["largest_logit_difference"]
        rows.insert(1, ("the same in float32", f"{own:.2g}"))
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    steps = "".join(f"\n- {step}" for step in certificate["rewrites"])
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    text = f"As {certificate['architecture']} in {certificate['dtype']}, {promised['model']}"
    text += f", opened again by {versions}. `octavo verify` repeats this table."
    near = "".join(
        f"\n\nThe {what} is approximate: {why}." for what, why in certificate["why"].items() if why
    )
    missed = "".join(f"\n\n**Not proven:** {one}." for one in certificate["missed"])
    wrote = f"\n\nTo say it in that architecture's words, exactly:\n{steps}" if steps else ""
    return f"{text}{missed}{near}\n\n| measured | |\n| --- | --- |\n{table}{wrote}"


def _tokens(measured: dict[str, Any]) -> str:
    """How many tokens the loss is of."""
    if measured["loss_tokens"] == measured["of_tokens"]:
        return f"all {measured['of_tokens']:,} tokens"
    return f"{measured['loss_tokens']:,} tokens, evenly spread over the {measured['of_tokens']:,}"


def _text(certificate: dict[str, Any]) -> str:
    return "the validation split" if certificate["text"] == "validation" else "a text that was named for it"


def _share(some: int, of: int) -> str:
    return f"{some} of {of:,}" + (f" ({some / of:.1%})" if some else "")


def _data(run: Run) -> str:
    made = run.folder.made_by() if run.folder else None
    data = (made or {}).get("data") or {}
    rows = [
        f"- {in_markdown(name)}: {one['tokens']:,} tokens, {one['bytes']:,} bytes, {one['documents']:,} documents"
        for name, one in data.get("splits", {}).items()
    ]
    if data.get("text"):
        rows.append(f"- SHA-256 of the text: `{in_markdown(str(data['text']))}`")
    kind = run.config.corpus.kind
    rows.append(f"- source: {kind}; its licence is that of the text, which this card does not know")
    return "\n".join(rows)


def _losses(run: Run) -> str:
    evaluation = evaluation_of(run)
    if not evaluation:
        return ""
    rows = {"this model": {"loss": evaluation["val_loss"], "bits_per_byte": evaluation.get("bits_per_byte")}}
    rows |= evaluation.get("baselines") or {}
    lines = [
        f"| {in_markdown(name.replace('_', ' '), table=True)} | {_number(one['loss'], 4)} "
        f"| {_number(one['bits_per_byte'], 3)} |"
        for name, one in rows.items()
    ]
    table = "| on the validation split | nats/token | bits/byte |\n| --- | --- | --- |\n" + "\n".join(lines)
    step = evaluation.get("step")
    other = (
        "" if step == run.step else f"\n\nThese figures are of step {step}, the weights here of {run.step}."
    )
    sentences = "".join(f"\n\n{in_markdown(one['sentence'])}" for one in evaluation.get("diagnostics", ()))
    return table + other + sentences


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _samples(parcel: Parcel, kept: Reference) -> str:
    prompt, after = kept.prompts[0].tolist(), kept.greedy[0].tolist()
    text = parcel.tokenizer.decode(prompt + after)
    return f"Greedy, after the first {len(prompt)} tokens of the validation text:\n\n{fenced(text)}"


def _limits(parcel: Parcel) -> str:
    tokenizer = parcel.tokenizer
    unknown = tokenizer.kind in ("char", "word") and tokenizer.unknown is None
    lines = [
        "It repeats what its text holds, errors and prejudices too, and knows nothing else.",
        f"End of a text: {in_markdown(shown_end(tokenizer))}.",
        f"Beyond {parcel.weights.shape.context:,} tokens it has seen nothing: keep prompt and answer below that.",
    ]
    if unknown:
        lines.append(
            f"A text with {'characters' if tokenizer.kind == 'char' else 'words'} that it lacks is refused."
        )
    return "\n".join(f"- {line}" for line in lines)
