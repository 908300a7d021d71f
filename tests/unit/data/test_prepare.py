"""Datasets end to end: what stands in the folder, when it is found again, and what is never used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.parts import parts
from octavo.corpus.sources import FilesSource
from octavo.data import Dataset, default_cache, open_dataset, prepare, prepare_text, store
from octavo.data.shards import token_dtype
from octavo.errors import ConfigError, CorpusError, StorageError, TokenizerError
from octavo.tokenizers import Tokenizer, TokenizerConfig
from octavo.util import files as util_files
from octavo.util.files import file_hash
from unit.data.common import Given

STORIES = [f"story {number} of a cat and a dog. the end." for number in range(50)]


def tokenizer(kind: str = "char", **options: Any) -> TokenizerConfig:
    config = parts("tokenizer")[kind].model_validate(options)
    assert isinstance(config, TokenizerConfig)
    return config


def made(cache: Path, *texts: str, kind: str = "char", **options: Any) -> tuple[Dataset, list[str]]:
    said: list[str] = []
    return prepare(Given(*texts), tokenizer(kind), cache=cache, report=said.append, **options), said


def slow_twin(texts: list[str], coder: Tokenizer) -> list[int]:
    return [int(id) for text in texts for id in coder.encode_document(text)]


@pytest.mark.parametrize("kind", ["char", "word", "byte", "bpe"])
@pytest.mark.parametrize("split", ["contiguous", "documents"])
def test_several_documents(kind: str, split: str, tmp_path: Path) -> None:
    dataset, _ = made(tmp_path, *STORIES, kind=kind, split=split)
    for part in (dataset.train, dataset.validation):
        texts = part.text_path.read_text().splitlines()
        assert set(texts) <= set(STORIES) and part.documents == len(texts) == len(part.starts)
        assert part.tokens.tolist() == slow_twin(texts, dataset.tokenizer)
        ends = np.append(part.starts[1:], len(part.tokens)).astype(int)
        for start, end, text in zip(part.starts.tolist(), ends.tolist(), texts, strict=True):
            assert dataset.tokenizer.decode(part.tokens[start:end]) == text
        assert part.bytes == part.characters == part.text_path.stat().st_size
    assert dataset.train.documents + dataset.validation.documents == len(STORIES)


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_one_document_has_no_special_token(kind: str, tmp_path: Path) -> None:
    text = "Über die Straße, 😀 und zurück.\n" * 20
    dataset, _ = made(tmp_path, text, kind=kind)
    assert dataset.train.starts.tolist() == dataset.validation.starts.tolist() == [0]
    texts = [dataset.tokenizer.decode(part.tokens) for part in (dataset.train, dataset.validation)]
    assert texts == [text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :]]
    assert texts == [part.text_path.read_text() for part in (dataset.train, dataset.validation)]
    assert dataset.validation.bytes == len(texts[1].encode())


def test_tinyshakespeare_is_nanogpts(test_data: Path, tmp_path: Path) -> None:
    source = FilesSource(paths=(str(test_data / "tinyshakespeare.txt"),)).build()
    dataset = prepare(source, tokenizer(), cache=tmp_path)
    assert (len(dataset.train.tokens), len(dataset.validation.tokens)) == (1_003_854, 111_540)
    assert dataset.tokenizer.vocab_size == 65
    assert dataset.train.tokens[:10].tolist() == [18, 47, 56, 57, 58, 1, 15, 47, 58, 47]  # "First Citi"


def test_the_folder_and_its_manifest(tmp_path: Path) -> None:
    dataset, _ = made(tmp_path, *STORIES, STORIES[3], split="documents")
    names = {
        path.relative_to(dataset.folder).as_posix() for path in dataset.folder.rglob("*") if path.is_file()
    }
    tables = {
        f"{part}{end}" for part in ("train", "validation") for end in (".bin", ".documents.bin", ".txt")
    }
    assert tables | {"tokenizer/tokenizer.json", "manifest.json"} <= names
    manifest = json.loads((dataset.folder / "manifest.json").read_text())
    assert manifest == dataset.manifest
    assert set(manifest["files"]) == names - {"manifest.json"}
    for name, entry in manifest["files"].items():
        path = dataset.folder / name
        assert (path.stat().st_size, file_hash(path)) == (entry["bytes"], entry["sha256"])
    assert manifest["duplicates_removed"] == 1
    assert manifest["tokenizer_fingerprint"] == dataset.tokenizer.fingerprint()
    assert manifest["splits"]["train"]["tokens"] == len(dataset.train.tokens)
    assert (manifest["dtype"], manifest["split"], manifest["validation"]) == ("|u1", "documents", 0.1)
    assert list((tmp_path / "datasets").iterdir()) == [dataset.folder]  # nothing is left beside it


def test_the_same_text_and_tokenizer_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, said = made(tmp_path, *STORIES)
    assert not said
    monkeypatch.setattr(store, "PUBLISHED", {*store.PUBLISHED})

    def again() -> Dataset:
        return prepare(Given(*STORIES, size=3), tokenizer(), cache=tmp_path, report=said.append, verify=True)

    assert again().folder == first.folder and not said  # this process made it
    store.PUBLISHED.clear()  # as another process finds it
    assert again().folder == first.folder
    assert said == [f"dataset: reused {first.folder.name[:8]} (same text and tokenizer)"]


def test_any_difference_makes_another(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("story\nof\na\ncat\nthe\nend\n.\n")
    listed = tokenizer("word", words=str(words), unknown="token")

    def folders() -> Iterator[Path]:
        yield made(tmp_path, *STORIES)[0].folder
        yield made(tmp_path, *STORIES[:-1])[0].folder
        yield made(tmp_path, *STORIES, validation=0.2)[0].folder
        yield made(tmp_path, *STORIES, split="documents")[0].folder
        yield made(tmp_path, "\n".join(STORIES) + "\n")[0].folder
        yield made(tmp_path, *STORIES, kind="bpe")[0].folder
        yield prepare(Given(*STORIES), listed, cache=tmp_path).folder
        words.write_text("story\nof\na\ndog\nthe\nend\n.\n")
        yield prepare(Given(*STORIES), listed, cache=tmp_path).folder

    found = list(folders())
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "damage", ["shorter", "missing", "no manifest", "torn manifest", "other format", "altered"]
)
def test_a_damaged_dataset_is_made_again(damage: str, tmp_path: Path) -> None:
    folder = made(tmp_path, *STORIES)[0].folder
    tokens, manifest = folder / "train.bin", folder / "manifest.json"
    good = tokens.read_bytes()
    match damage:
        case "shorter":
            tokens.write_bytes(good[:-2])
        case "missing":
            (folder / "train.txt").unlink()
        case "no manifest":
            manifest.unlink()
        case "torn manifest":
            manifest.write_bytes(manifest.read_bytes()[:-20])
        case "other format":
            manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 99'))
        case "altered":
            tokens.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(CorpusError, match="cannot be used") as caught:
        open_dataset(folder, verify=True)
    assert caught.value.remedy
    again, said = made(tmp_path, *STORIES, verify=True)
    assert again.folder == folder and tokens.read_bytes() == good
    assert len(said) == 1 and "It is made again." in said[0]
    open_dataset(folder, verify=True)


KILLED = """
import os, signal, sys
from pathlib import Path
from octavo.config.parts import parts
from octavo.data import prepare
from unit.data.common import Given
def die(*arguments): os.kill(os.getpid(), signal.SIGKILL)
sys.modules["octavo.data.prepare"].publish = die
prepare(Given("one text of some length"), parts("tokenizer")["char"](), cache=Path(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL here")
def test_a_killed_build_leaves_nothing_that_counts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -9
    [left] = (path for path in (tmp_path / "datasets").iterdir() if path.is_dir())
    assert left.name.startswith(".building-") and (left / "train.bin").exists()
    dataset, said = made(tmp_path, "one text of some length")
    assert not said and left.exists()  # it could be another process at work
    yesterday = time.time() - 2 * 24 * 3600
    for path in [*left.rglob("*"), *(tmp_path / "datasets").glob(".building-*")]:
        os.utime(path, (yesterday, yesterday))
    made(tmp_path, *STORIES)
    assert not list((tmp_path / "datasets").glob(".building-*"))
    open_dataset(dataset.folder, verify=True)


def test_a_live_build_that_looks_old_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that differs once let another process delete what was just being built."""
    preparation = import_module("octavo.data.prepare")

    publish = preparation.publish

    def second(folder: Path, *arguments: Any) -> Dataset:
        monkeypatch.setattr(preparation, "publish", publish)
        for path in [*folder.rglob("*"), *folder.parent.glob(".building-*")]:
            os.utime(path, (0, 0))
        made(tmp_path, "another text of another process")
        return publish(folder, *arguments)

    monkeypatch.setattr(preparation, "publish", second)
    dataset, _ = made(tmp_path, *STORIES)
    open_dataset(dataset.folder, verify=True)
    assert len(list((tmp_path / "datasets").iterdir())) == 2


def test_what_the_user_put_into_the_cache_stays(tmp_path: Path) -> None:
    dataset, _ = made(tmp_path, *STORIES)
    (dataset.folder / "notes.md").write_text("mine")
    (dataset.folder / "train.bin").write_bytes(b"")
    old = tmp_path / "datasets" / ".building-a-house"
    old.mkdir()
    (old / "plan.txt").write_text("mine")
    os.utime(old, (0, 0))
    os.utime(old / "plan.txt", (0, 0))
    with pytest.raises(CorpusError, match="Delete the folder"):  # damaged, and not ours alone
        made(tmp_path, *STORIES)
    assert (dataset.folder / "notes.md").read_text() == "mine"
    assert (old / "plan.txt").read_text() == "mine"


def test_two_at_once_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preparation = import_module("octavo.data.prepare")

    publish = preparation.publish

    def second(*arguments: Any) -> Dataset:
        monkeypatch.setattr(preparation, "publish", publish)
        made(tmp_path, *STORIES)  # another process is first
        return publish(*arguments)

    monkeypatch.setattr(preparation, "publish", second)
    dataset, _ = made(tmp_path, *STORIES)
    open_dataset(dataset.folder, verify=True)
    assert list((tmp_path / "datasets").iterdir()) == [dataset.folder]


def test_a_text_in_the_tokens_of_another(tmp_path: Path) -> None:
    coder = made(tmp_path, *STORIES)[0].tokenizer
    said: list[str] = []
    texts = STORIES[7:9]
    split = prepare_text(Given(*texts), coder, cache=tmp_path, report=said.append)
    assert split.tokens.tolist() == slow_twin(texts, coder)
    assert (split.documents, split.bytes) == (2, split.text_path.stat().st_size)
    assert not said
    assert prepare_text(Given(*texts), coder, cache=tmp_path, report=said.append).text_path == split.text_path
    assert not said
    with pytest.raises(TokenizerError, match=r"'Ω' \(2×\), 'ψ' \(1×\)"):
        prepare_text(Given("cat Ω", "Ωψ"), coder, cache=tmp_path)


def test_a_tokenizer_without_special_tokens_sees_one_text(tmp_path: Path) -> None:
    coder = made(tmp_path, "one\ntwo " * 9)[0].tokenizer
    assert coder.end is None
    split = prepare_text(Given("one", "two"), coder, cache=tmp_path)
    assert coder.decode(split.tokens) == "one\ntwo\n" and split.starts.tolist() == [0]


def test_long_documents_are_encoded_as_short_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from octavo.data import text

    plain, _ = made(tmp_path / "a", *STORIES)
    monkeypatch.setattr(text, "SEGMENT", 16)
    monkeypatch.setattr(text, "PIECE", 7)
    streamed, _ = made(tmp_path / "b", *STORIES)
    assert streamed.manifest == plain.manifest


@given(texts=st.lists(st.text(st.sampled_from("ab é\n😀")).filter(str.strip), min_size=2, max_size=8))
def test_any_documents_come_back(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    dataset, _ = made(tmp_path_factory.mktemp("any"), *texts, validation=0.5)
    parts_ = (dataset.train, dataset.validation)
    decoded = []
    for part in parts_:
        ends = [*part.starts.tolist()[1:], len(part.tokens)]
        decoded += [
            dataset.tokenizer.decode(part.tokens[a:b])
            for a, b in zip(part.starts.tolist(), ends, strict=True)
        ]
    assert "".join(decoded) == "".join(texts)


def test_token_types() -> None:
    assert token_dtype(256) == np.uint8 and token_dtype(257) == np.uint16
    assert token_dtype(65_536) == np.uint16 and token_dtype(65_537) == np.uint32
    assert token_dtype(1 << 32) == np.uint32
    with pytest.raises(TokenizerError, match="vocabulary of 4,294,967,297 tokens is too large"):
        token_dtype((1 << 32) + 1)


def test_wrong_settings_and_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(ConfigError, match="share of the text"):
            made(tmp_path, *STORIES, validation=share)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        made(tmp_path / "file", *STORIES)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(util_files, "sync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        made(tmp_path, *STORIES)
    assert not list((tmp_path / "datasets").iterdir())


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "chosen"))
    assert default_cache() == tmp_path / "chosen"
    monkeypatch.delenv("OCTAVO_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "octavo"
    for passed_over in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", passed_over)
        assert default_cache() == Path.home() / ".cache" / "octavo"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_cache() == Path.home() / "Library" / "Caches" / "octavo"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert default_cache() == tmp_path / "octavo" / "Cache"


@pytest.mark.parametrize("line_break", ["\n", " "])
def test_memory_stays_bounded(line_break: str, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("w") as file:
        for number in range(60):
            file.write((f"sentence number {number} of a long, long text.{line_break}" * 25_000)[:1_000_000])
    source = FilesSource(paths=(str(path),), documents="separator").build()
    config = tokenizer()
    tracemalloc.start()
    dataset = prepare(source, config, cache=tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset.train.tokens) > 50_000_000
    assert peak < 40_000_000  # whatever the length: a few pieces of 1 MiB as text, code points and ids
