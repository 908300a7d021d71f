"""A run into the forms of other libraries: written aside, opened again, measured, and named only then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import field_validator

from octavo import __version__
from octavo.config import check
from octavo.data import prepare_text
from octavo.errors import CheckpointError, InputError, OctavoError
from octavo.export.card import card, evaluation_of
from octavo.export.prove import BOUNDS, Measurement, bound_of, measured, misses, near
from octavo.export.reference_outputs import POSITIONS, Reference, reference
from octavo.export.targets import targets
from octavo.export.targets.base import Parcel, Status, Target
from octavo.export.weights import weights_of
from octavo.run.data import absolute, build_dataset
from octavo.run.evaluate import refuse_other_text
from octavo.run.run import Run
from octavo.util.files import (
    FULL,
    claim_folder,
    file_hash,
    files_of,
    folder_aside,
    inside,
    of_the_system,
    publish_folder,
    remove,
)
from octavo.util.records import Record, json_text, plain, read_record
from octavo.util.terminal import Console, shown

CERTIFICATE = "certificate.json"
CARD = "README.md"
NOT_PROVEN = "-not-proven"
TEXT_SEEN = 1 << 20  # characters of validation text that texts for the tokenizer are taken from


class Promised(Record):
    """How exact an export was said to be."""

    model: Status
    tokenizer: Status


class Certificate(Record):
    """certificate.json, what of it is read again."""

    target: str
    dtype: str
    architecture: str
    promised: Promised
    files: dict[str, str]

    @field_validator("dtype")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in BOUNDS:
            raise ValueError("no number type that Octavo writes")
        return value


@dataclass(frozen=True)
class Exported:
    """A folder that was written.

    Attributes:
        missed: what it promised and does not hold; empty where it is proven.
    """

    target: str
    folder: Path
    certificate: dict[str, Any]
    missed: list[str]


def export(
    path: Path,
    to: Sequence[str],
    out: Path,
    *,
    text: Sequence[str] | None = None,
    checkpoint: str = "best",
    dtype: str = "float32",
    network_only: bool = False,
    report: Callable[[str], None] = lambda said: None,
) -> list[Exported]:
    """Export a run to targets, each proven: into `out`, or for several targets into folders of their names in it.
    The proof's text is the run's validation split, or `text`, files or folders.

    With `network_only` the counts beside a network stay behind. What misses a bound ends in a folder with "not-proven"
    in its name. Raises InputError, with nothing written, for what cannot be exported; MissingExtra, StorageError.
    """
    wanted = [_target(name) for name in dict.fromkeys(to)]
    run = _opened(path, checkpoint)
    run = run.network() if network_only else run
    places = {each.name: out if len(wanted) == 1 else out / each.name for each in wanted}
    for place in (out, *places.values()):
        claim_folder(place, "an export", new=True)
        if place.name:  # "." and "/" have none
            claim_folder(place.with_name(place.name + NOT_PROVEN), "an export", new=True)
    weights = weights_of(run.model, run.config.model)
    for each in wanted:
        each.needs()
        each.refuse(weights.shape, run.tokenizer, dtype)
    name = shown(run.path.name)
    parcel = Parcel(weights.to(torch.float64), run.tokenizer, dtype, name, run.config.sampling)
    report("asking the run what it says")
    kept = _reference(run, text)
    about = _about(run, named=bool(text))
    exported = []
    for each in wanted:
        report(f"{each.title}: writing and opening again")
        try:
            exported.append(_one(each, parcel, kept, run, about, places[each.name]))
        except OctavoError:
            raise
        except Exception as error:
            system = of_the_system(error)
            if system is None:
                raise
            full = system.errno in FULL
            what = "the disk is full" if full else f"it cannot be written ({system.strerror or system})"
            raise InputError(
                f"{places[each.name]} was not made: {what}.",
                remedy="free some space, or choose another --out" if full else "choose another --out",
            ) from error
    return exported


def _target(name: str) -> Target:
    if name not in targets():
        raise InputError(f"There is no target '{name}'.", remedy=f"--to {', '.join(targets())}")
    return targets()[name]


def _opened(path: Path, checkpoint: str) -> Run:
    try:
        run = Run.open(path, checkpoint=checkpoint)
        _ = run.model
    except CheckpointError as error:
        raise InputError(error.what, remedy=error.remedy) from error
    return run


def _reference(run: Run, text: Sequence[str] | None) -> Reference:
    if not run.config.objective.writes:
        raise InputError(
            "The run's objective is not the next token, so no other library can go on from a text."
        )
    if text:
        source = check({"corpus": {"kind": "files", "paths": absolute(text)}}).corpus.build(
            report=lambda said: None
        )
        split = prepare_text(source, run.tokenizer, report=lambda said: None)
    else:
        dataset = build_dataset(run.config, Console(quiet=True), run.tokenizer)
        refuse_other_text(run, dataset)
        tuned_on_little = (
            run.config.form != "text" and len(dataset.validation.tokens) <= POSITIONS + run.model.context
        )
        split = dataset.train if tuned_on_little else dataset.validation
    with split.text_path.open(encoding="utf-8", newline="") as file:
        return reference(run.model, run.tokenizer, split.tokens, file.read(TEXT_SEEN))


def _about(run: Run, *, named: bool) -> dict[str, Any]:
    """What a certificate says of the run and of the text, whatever the target is."""
    evaluation = {} if named else evaluation_of(run)
    own = evaluation if evaluation.get("step") == run.step else {}
    return {
        "text": "named" if named else "validation",
        "loss_of_the_evaluation": own.get("val_loss"),
        "run": {
            "name": shown(run.path.name),
            "step": run.step,
            "seed": run.config.seed,
            "weights_sha256": file_hash(run.checkpoint.folder / "model.safetensors"),
            "tokenizer": run.tokenizer.fingerprint(),
        },
    }


def _one(
    target: Target, parcel: Parcel, kept: Reference, run: Run, about: dict[str, Any], place: Path
) -> Exported:
    """Write, prove and name one export."""
    with folder_aside(place) as aside:
        in_float32 = None
        if parcel.dtype != "float32":
            in_float32 = _measured(target, replace(parcel, dtype="float32"), kept, aside / "float32")
            remove(aside / "float32", ["*"])
        target.write(parcel, aside)
        kept.save(aside)
        measurement = measured(target.name, aside)
        certificate = _certificate(target, parcel, about, aside, measurement, in_float32)
        missed = certificate["missed"]
        _write(aside / CERTIFICATE, json_text(certificate, indent=1, ensure_ascii=False) + "\n")
        _write(aside / CARD, card(target, parcel, run, kept, certificate))
        named = place.with_name(place.name + NOT_PROVEN) if missed else place
        publish_folder(aside, named)
    return Exported(target.name, named, certificate, missed)


def _measured(target: Target, parcel: Parcel, kept: Reference, folder: Path) -> Measurement:
    folder.mkdir()
    target.write(parcel, folder)
    kept.save(folder)
    return measured(target.name, folder)


def _certificate(
    target: Target,
    parcel: Parcel,
    about: dict[str, Any],
    folder: Path,
    measurement: Measurement,
    in_float32: Measurement | None,
) -> dict[str, Any]:
    """The certificate of what lies in a folder, complete but for the card."""
    model = target.model(parcel.weights.shape)
    tokenizer = target.tokenizer(parcel.tokenizer.kind, parcel.tokenizer)
    promised = {"model": model.status, "tokenizer": tokenizer.status}
    missed = misses(measurement, dtype=parcel.dtype, **promised)
    if in_float32 is not None:
        own = misses(in_float32, dtype="float32", **promised)
        missed += [f"in float32 {one}" for one in own if one not in missed]
    return {
        "format": 1,
        "octavo": __version__,
        "target": target.name,
        "dtype": parcel.dtype,
        "architecture": model.how,
        "rewrites": list(model.steps),
        "promised": promised,
        "why": {"model": model.why, "tokenizer": tokenizer.why},
        "measured": plain(measurement),
        **({} if in_float32 is None else {"measured_in_float32": plain(in_float32)}),
        "bound": bound_of(measurement, dtype=parcel.dtype, model=model.status),
        "missed": missed,
        "near": near(measurement, **promised),
        **about,
        "files": {name: file_hash(folder / name) for name in files_of(folder)},
    }


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def verify(folder: Path) -> Exported:
    """Measure an export again and compare its files with its certificate's. Raises InputError, CheckpointError."""
    if not (folder / CERTIFICATE).is_file():
        raise InputError(
            f"{folder} holds no export: there is no {CERTIFICATE}.",
            remedy="give a folder that octavo export wrote",
        )
    certificate = read_record(folder / CERTIFICATE, Certificate, of="the export", error=InputError)
    promised, target = certificate["promised"], _target(certificate["target"])
    target.needs()
    files = certificate["files"].items()
    outside = [one for one, _ in files if not inside(folder, one)]
    if outside:
        raise InputError(
            f"{folder / CERTIFICATE} names {shown(outside[0])!r}, which is not a file of this folder.",
            remedy="give a folder as octavo export wrote it, without links to other places",
        )
    changed = [f"{one} is not as it was written" for one, known in files if not _same(folder / one, known)]
    try:
        measurement = measured(target.name, folder)
    except OctavoError as error:
        if changed:
            raise InputError(f"{folder}: {changed[0]}. {error.what}", remedy="export it again") from error
        raise
    missed = changed + misses(measurement, dtype=certificate["dtype"], **promised)
    again = {"measured": plain(measurement), "missed": missed, "near": near(measurement, **promised)}
    return Exported(target.name, folder, certificate | again, missed)


def _same(path: Path, known: str) -> bool:
    return path.is_file() and file_hash(path) == known
