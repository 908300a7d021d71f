"""A loss that decodes: the judged text as a file that only the run's own predictions can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from octavo import Run, train
from octavo.errors import InputError
from octavo.run.data import build_dataset
from octavo.run.prove import FIRST_LINE, decode, prove, sha256
from octavo.util.terminal import Console

STATED = {"text": "", "model": "", "tokens": 1, "bytes": 0, "documents": 1}
QUIET = Console(quiet=True)
TEXT = "".join(f"The {n}th cat, naïve as it was, sat on mat {n * 7 % 13}.\n" for n in range(160))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("proof")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    model = {"layers": 1, "width": 16, "heads": 2, "context": 24, "counts": {"kind": "mixing"}}
    recipe = {
        "model": model,
        "training": {"steps": 2, "batch": 4},
        "tokenizer": {"kind": "byte", "characters": 9},
    }
    return train(recipe, folder / "text.txt", folder / "run", quiet=True)


@pytest.mark.parametrize("as_saved", [False, True])
def test_the_judged_text_comes_back_and_takes_as_many_bits_as_its_loss(
    run: Run, tmp_path: Path, as_saved: bool
) -> None:
    found = prove(run, tmp_path / "own", None, QUIET, as_saved=as_saved)
    read = decode(run, tmp_path / "own", tmp_path / "text", QUIET)
    own = build_dataset(run.config, QUIET, run.tokenizer).validation.text_path.read_bytes()
    assert (tmp_path / "text").read_bytes() == own
    assert found == read and found.bytes == len(own) and found.reads_on != as_saved
    evaluated = run.evaluate()
    claimed = evaluated if as_saved else evaluated["reading_on"]
    assert found.bits_per_byte == pytest.approx(claimed["bits_per_byte"], abs=0.25), "but for windows"
    assert found.written == (tmp_path / "own").stat().st_size


def test_another_text_is_proved_too(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("A cat, né 12.\nThe cat sat.\n", encoding="utf-8")
    prove(run, tmp_path / "own", other, QUIET)
    decode(run, tmp_path / "own", tmp_path / "text", QUIET)
    assert (tmp_path / "text").read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff" * 50,
        b"a\nb\nc",
        f"{FIRST_LINE}\n[]\n".encode(),
        *(
            f"{FIRST_LINE}\n{json.dumps(STATED | {'tokens': wrong})}\n".encode()
            for wrong in (-1, "9", None, 1.5, True, 1 << 40)
        ),
    ],
)
def test_what_is_no_proof_is_refused(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own").write_bytes(content)
    with pytest.raises(InputError, match="no file that octavo eval --prove wrote"):
        decode(run, tmp_path / "own", tmp_path / "text", QUIET)
    assert not (tmp_path / "text").exists()


def counted(whole: bytes) -> int:
    """The tokens of a proof."""
    return int(json.loads(whole.split(b"\n")[1])["tokens"])


def test_a_damaged_file_and_another_model_are_refused(run: Run, tmp_path: Path) -> None:
    file, text = tmp_path / "own", tmp_path / "other.txt"
    text.write_text("The 5th cat sat on mat 5.\n", encoding="utf-8")
    prove(run, file, text, QUIET)
    whole = file.read_bytes()
    file.write_bytes(whole[:-4] + bytes(255 - byte for byte in whole[-4:]))
    with pytest.raises(InputError, match="does not decode"):
        decode(run, file, tmp_path / "text", QUIET)
    other = sha256(b"The 5th cat sat on mat 6.\n")  # as long as the one that was judged
    file.write_bytes(whole.replace(sha256(text.read_bytes()).encode(), other.encode(), 1))
    with pytest.raises(InputError, match="does not decode"):
        decode(run, file, tmp_path / "text", QUIET)
    for tokens in (1 << 24, 1 << 30):
        file.write_bytes(
            whole.replace(f'"tokens": {counted(whole)}'.encode(), f'"tokens": {tokens}'.encode(), 1)
        )
        with pytest.raises(InputError, match="does not decode"):
            decode(run, file, tmp_path / "text", QUIET)
    empty = whole.replace(sha256(text.read_bytes()).encode(), sha256(b"").encode(), 1)
    file.write_bytes(empty.replace(f'"tokens": {counted(whole)}'.encode(), b'"tokens": 9999', 1))
    with pytest.raises(InputError, match="does not decode"):
        decode(run, file, tmp_path / "text", QUIET)
    file.write_bytes(whole.replace(b'"model": "', b'"model": "0', 1))
    with pytest.raises(InputError, match="another model"):
        decode(run, file, tmp_path / "text", QUIET)
    with pytest.raises(InputError, match="cannot be read"):
        decode(run, tmp_path / "nowhere", tmp_path / "text", QUIET)
