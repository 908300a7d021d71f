"""A loss that decodes: the judged text as a file that only the run's own predictions can read.

The file is as long as the bits that the model claims for the text. A model with a context mixer reads on in it, as
`evaluation.reading_on` scores it, or predicts as it was saved. The network reads as it does where it writes: token by
token, in a window that slides. So the figure may be a little below that of an evaluation, which begins anew with each
block. It decodes on the machine, and with the number of threads, that wrote it: elsewhere the last bits of a prediction
differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from octavo.data import Split
from octavo.errors import InputError
from octavo.evaluation import reading_on
from octavo.evaluation.arithmetic import decoded, encoded
from octavo.generation.engine import fastest_decoder
from octavo.run.data import Paths, build_dataset
from octavo.run.evaluate import on_cpu, refuse_other_text, whole_split
from octavo.run.run import Run
from octavo.task import task_of
from octavo.tokenizers import Tokenizer
from octavo.util.files import storage_errors, written_aside
from octavo.util.records import json_text, parse_json
from octavo.util.terminal import Console

FIRST_LINE = "octavo-proof 1"
MOST_TOKENS = 1 << 30


@dataclass(frozen=True)
class Proof:
    """What a file says of itself, before the bits.

    Attributes:
        text, model: SHA-256 of the text, and of the weights.
        tokens, bytes, documents: of the text.
        reads_on: whether each token was learned after it was predicted.
    """

    text: str
    model: str
    tokens: int
    bytes: int
    documents: int
    reads_on: bool = False


@dataclass(frozen=True)
class Proved:
    """The bytes of a text, of the file that holds it, and of that part of the file which is the text; `reads_on` as in
    `Proof`."""

    bytes: int
    written: int
    coded: int
    reads_on: bool

    @property
    def bits_per_byte(self) -> float:
        """Of what is coded."""
        return 8 * self.coded / max(1, self.bytes)

    def as_dict(self) -> dict[str, float]:
        """For --json."""
        return {**vars(self), "bits_per_byte": self.bits_per_byte}


def prove(run: Run, file: Path, text: Paths | None, console: Console, *, as_saved: bool = False) -> Proved:
    """Write the validation split, or another text, as a file; by a model that reads on in it, where it can, unless it
    is to be taken `as_saved`. Raises InputError for a text that its tokens do not give back."""
    split = judged(run, text, console)
    content = split.text_path.read_bytes()
    if text_of(split.tokens, split.documents, run.tokenizer) != content:
        raise InputError(
            "The tokenizer does not give this text back as it was, so it cannot be proved by decoding.",
            remedy="a run with tokenizer=byte, char or bpe",
        )
    count = len(split.tokens)
    mixer = None if as_saved else reading_on.mixer_of(run.model, count)
    if reads_on := mixer is not None:
        bits = reading_on.encoded(split.tokens, mixer, network_of(run.network(), console, count))
    else:
        bits = encoded(split.tokens, reader(run, console, count))
    said = Proof(sha256(content), fingerprint(run), count, len(content), split.documents, reads_on)
    whole = f"{FIRST_LINE}\n{json_text(vars(said))}\n".encode() + bits
    write(file, whole)
    return Proved(len(content), len(whole), len(bits), reads_on)


def decode(run: Run, file: Path, out: Path, console: Console) -> Proved:
    """Write the text that a file proves. Raises InputError for a file that is none, or of another model, or that does
    not decode to its text here."""
    said, bits, written = opened(file)
    if said.model != fingerprint(run):
        raise InputError(
            f"{file} was written by another model.", remedy="name its run, and its checkpoint: --checkpoint"
        )
    try:
        content = text_of(decoded_by(run, said, bits, console), said.documents, run.tokenizer)
    except ValueError:  # no bits are left
        content = None
    if content is None or sha256(content) != said.text:
        raise InputError(
            f"{file} does not decode to its text here: it is damaged, or predictions differ in their last bits.",
            remedy="decode on the machine that wrote it, with as many threads",
        )
    write(out, content)
    return Proved(len(content), written, len(bits), said.reads_on)


def decoded_by(run: Run, said: Proof, bits: bytes, console: Console) -> np.ndarray:
    """The tokens (N,) of a proof."""
    mixer = reading_on.mixer_of(run.model, said.tokens) if said.reads_on else None
    if mixer is None:
        return decoded(bits, said.tokens, reader(run, console, said.tokens))
    return reading_on.decoded(bits, said.tokens, mixer, network_of(run.network(), console, said.tokens))


def opened(file: Path) -> tuple[Proof, bytes, int]:
    """What a file says of itself, its bits, and its size. Raises InputError for one that `prove` did not write."""
    try:
        whole = file.read_bytes()
        first, header, bits = whole.split(b"\n", 2)
        said = Proof(**parse_json(header, Proof))
        texts, counts = (said.text, said.model), (said.tokens, said.bytes, said.documents)
        sound = all(isinstance(each, str) for each in texts) and all(type(each) is int for each in counts)
        if first != FIRST_LINE.encode() or not sound or not 0 <= said.tokens <= MOST_TOKENS:
            raise ValueError
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{file} is no file that octavo eval --prove wrote.") from error
    return said, bits, len(whole)


def judged(run: Run, text: Paths | None, console: Console) -> Split:
    """What is proved."""
    recipe = whole_split(run.config)
    if not recipe.objective.build().unit.has_bits_per_byte:
        raise InputError("Only a model that writes text can be proved by decoding.")
    if text is not None:
        return task_of(recipe).new_split(recipe, run.tokenizer, text, console)
    dataset = build_dataset(recipe, console, run.tokenizer)
    refuse_other_text(run, dataset)
    return dataset.validation


def network_of(run: Run, console: Console, count: int) -> Callable[[int], np.ndarray]:
    """Gives logits (V,) after each of `count` tokens, the same whoever asks."""
    on_cpu(run.config)
    model = run.model.to("cpu").eval()
    decoder, done = fastest_decoder(model)(model, slots=1), 0

    def after(token: int) -> np.ndarray:
        nonlocal done
        done += 1
        console.advance(done, f"token {done:,} of {count:,}")
        return decoder.feed({0: [token]})[0].float().cpu().numpy()

    return after


def reader(run: Run, console: Console, count: int) -> Callable[[int | None], np.ndarray]:
    """Gives logits (V,) after each of `count` tokens, and before the first, where all are alike."""
    network, size = network_of(run, console, count), run.tokenizer.vocab_size
    return lambda before: np.zeros(size, np.float32) if before is None else network(before)


def text_of(tokens: np.ndarray, documents: int, tokenizer: Tokenizer) -> bytes:
    """A split's text from its tokens: of several documents each is ended by a line break."""
    ids = np.asarray(tokens).astype(np.int64)
    special = [each for each in (tokenizer.start, tokenizer.end) if each is not None]
    if documents == 1:
        return tokenizer.decode(ids[~np.isin(ids, special)].tolist()).encode()
    if tokenizer.end is None:
        return tokenizer.decode(ids.tolist()).encode()
    parts = np.split(ids, np.flatnonzero(ids == tokenizer.end) + 1)
    texts = (tokenizer.decode(part[~np.isin(part, special)].tolist()) for part in parts if len(part))
    return "".join(f"{text}\n" for text in texts).encode()


def fingerprint(run: Run) -> str:
    """SHA-256 of a model's weights."""
    found = hashlib.sha256()
    for name, tensor in sorted(run.model.state_dict().items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def write(file: Path, content: bytes) -> None:
    """A whole file, or none. Raises StorageError."""
    with storage_errors(file.parent), written_aside(file) as aside:
        aside.write_bytes(content)


def sha256(content: bytes) -> str:
    """In hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
