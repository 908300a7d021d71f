"""From a model of elsewhere to a run that every verb takes."""

from __future__ import annotations

from pathlib import Path

from octavo.config import Recipe, check
from octavo.export.incoming import Incoming, read_model
from octavo.export.to_config import tensors_of
from octavo.run.folder import RunFolder
from octavo.run.saved import save_run
from octavo.util.files import claim_folder, from_home


def import_model(path: str | Path, out: str | Path, *, tokenizer: str | Path | None = None) -> RunFolder:
    """Make the run `out` of a model in a local folder of Hugging Face's form, a GGUF file, or what Octavo exported.

    `tokenizer`: a tokenizer.json in place of the model's own. Raises InputError for what cannot be read or said, for an
    `out` that exists and for a full disk; nothing of the run is left then.
    """
    path, out = from_home(path), from_home(out)
    claim_folder(out, "a run", new=True)  # before the model is read
    incoming = read_model(path, tokenizer=None if tokenizer is None else from_home(tokenizer))
    origin = {"path": str(path.absolute()), "form": incoming.form, "files": dict(incoming.files)}
    names = ", ".join(f"{name} ({sha[:12]}…)" for name, sha in incoming.files.items())
    return save_run(
        out,
        recipe_of(incoming, out.absolute()),
        incoming.tokenizer,
        tensors_of(incoming.weights, incoming.config),
        step=0,
        facts={
            "imported": origin,
            "data": {"text": "", "vocab_size": incoming.tokenizer.vocab_size, "splits": {}},
        },
        log=f"imported from {path.absolute()}: {names}",
    )


def recipe_of(incoming: Incoming, out: Path) -> Recipe:
    """The settings of an imported run; its tokenizer is the file in the run."""
    tokenizer = incoming.tokenizer
    end = None if tokenizer.end is None else tokenizer.token_text(tokenizer.end)
    return check(
        {
            "description": f"Imported from {incoming.path.name}, {incoming.form}; Octavo trained nothing of it.",
            "tokenizer": {
                "kind": tokenizer.kind,
                "file": str(out / "tokenizer" / "tokenizer.json"),
                "end": end,
            },
            "model": incoming.config.model_dump(mode="json"),
        }
    )
