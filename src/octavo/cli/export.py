"""octavo export: a run for other libraries, proven equal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from octavo.cli.common import Json, RunPath, Text, Which, complain, print_json, print_table, show, the_run


def export_command(
    run: RunPath = None,
    *,
    to: Annotated[
        list[str],
        Parameter(
            help="Targets: hf (transformers), gguf (llama.cpp, Ollama), onnx (onnxruntime), torch (nothing else).",
            consume_multiple=True,
            negative="",
        ),
    ],
    out: Annotated[Path, Parameter(help="The folder to make; of several targets one inside it for each.")],
    text: Text = None,
    checkpoint: Which = "best",
    dtype: Annotated[
        str, Parameter(help="Number type of the matrices: float32, float16, bfloat16; gguf has more.")
    ] = ("float32"),
    network_only: Annotated[
        bool,
        Parameter(
            help="Of a model with counts of its text, the network alone: counts travel nowhere.", negative=""
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Write a run for other libraries, open it there again, and prove that it says the same.

    Each folder holds a model card and a certificate with what was measured: logits, greedy texts, ids of texts, loss.
    The proof reads the run's validation text, or the one named by --text.
    What misses its bound ends in a folder with "not-proven" in its name, and the exit code is 1.

    For example:

    octavo export runs/bard --to hf --out bard-hf

    octavo export runs/bard --to hf gguf --out shipped --dtype bfloat16 --network-only
    """
    from octavo.export.export import export

    exported = export(
        the_run(run),
        to,
        out,
        text=text,
        checkpoint=checkpoint,
        dtype=dtype,
        network_only=network_only,
        report=(lambda said: None) if json else show,
    )
    show_exported([(one.target, str(one.folder), one.certificate) for one in exported], json=json)
    return 1 if any(one.missed for one in exported) else 0


def show_exported(exported: list[tuple[str, str, dict[str, Any]]], *, json: bool) -> None:
    """Folders with what was measured, and what each missed."""
    if json:
        print_json([{"folder": folder, **certificate} for _, folder, certificate in exported])
        return
    rows = []
    for target, _, certificate in exported:
        measured, strings = certificate["measured"], certificate["measured"]["strings"]
        wrong = sum(one is not None for one in measured["first_greedy_difference"])
        rows.append(
            (
                f"{target} ({certificate['architecture']})",
                certificate["dtype"],
                f"{measured['largest_logit_difference']:.1e}",
                f"{len(measured['first_greedy_difference']) - wrong} of {len(measured['first_greedy_difference'])}",
                f"{strings['compared'] - strings['other_ids']} of {strings['compared']}",
                f"{measured['loss']:.4f}",
            )
        )
    print_table(rows, head=("", "type", "logits differ by", "greedy texts equal", "ids equal", "loss"))
    for target, folder, certificate in exported:
        for near in certificate["near"]:
            show(f"{target}: {near}")
        for missed in certificate["missed"]:
            complain(f"not proven: {missed}")
        show(f"\n{folder}" if not certificate["missed"] else f"\nnot proven: {folder}")
