"""Shards: the same bytes however many processes encode, and after however many of them were killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.forked import Octavo
from octavo.config.parts import parts
from octavo.data import Dataset, encode_workers, prepare, prepare_text, store
from octavo.data import text as segments
from octavo.errors import OctavoError, TokenizerError
from octavo.tokenizers import TokenizerConfig
from unit.data.common import Given

STORIES = [f"story {number} of a cat, a dög and an æon 😀. the end." for number in range(60)]
KINDS = ["char", "byte", "word", "bpe", "gpt2"]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT", 200)


def config(kind: str, **options: Any) -> TokenizerConfig:
    found = parts("tokenizer")[kind].model_validate(options)
    assert isinstance(found, TokenizerConfig)
    return found


def content(dataset: Dataset) -> dict[str, bytes]:
    return {
        path.relative_to(dataset.folder).as_posix(): path.read_bytes()
        for path in dataset.folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        *(pytest.param(kind, STORIES, id=f"{kind}-documents") for kind in KINDS),
        *(pytest.param(kind, [" ".join(STORIES)], id=f"{kind}-one") for kind in ("char", "bpe")),
        *(
            pytest.param(kind, [" ".join(STORIES)], id=f"{kind}-one", marks=pytest.mark.slow)
            for kind in ("byte", "word", "gpt2")
        ),
    ],
)
def test_the_number_of_processes_changes_no_byte(
    kind: str, texts: list[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    options = {"files": str(request.getfixturevalue("test_data") / "gpt2")} if kind == "gpt2" else {}
    made = [
        prepare(Given(*texts), config(kind, **options), cache=tmp_path / str(count), workers=count)
        for count in (1, 2)
    ]
    assert content(made[0]) == content(made[1])
    train = made[1].train
    text = train.text_path.read_text(encoding="utf-8")
    coder = made[1].tokenizer
    whole = text.splitlines() if len(texts) > 1 else [text]
    encode = coder.encode_document if len(texts) > 1 else coder.encode
    assert train.tokens.tolist() == [id for one in whole for id in encode(one).tolist()]
    store.open_dataset(made[1].folder, verify=True)


def test_a_text_without_places_to_cut_is_one_segment(tmp_path: Path) -> None:
    dataset = prepare(Given("é" * 3000), config("bpe"), cache=tmp_path, workers=2)
    assert dataset.tokenizer.decode(dataset.train.tokens) == "é" * 2700


KILLED = """
import json, os, signal, sys
from pathlib import Path
from octavo.config.parts import parts
from octavo.data import prepare, shards, text
cache, kind, workers, after, torn, tests, stories = json.load(sys.stdin)
sys.path.append(tests)
from unit.data.common import Given
text.SEGMENT = 200
append, calls = shards._Files.append, 0
def killing(self, encoded):
    global calls
    calls += 1
    if calls > after:
        if torn == "torn":
            self._files[0].write(b"half")
            self._files[0].flush()
            self._notes.write(b'[12, 3, "ab')
            self._notes.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, encoded)
shards._Files.append = killing
prepare(Given(*stories), parts("tokenizer")[kind](), cache=Path(cache), workers=workers)
"""


def killed(server: Octavo, cache: Path, kind: str, count: int, after: int, how: str = "clean") -> Path:
    told = [str(cache), kind, count, after, how, str(Path(__file__).parents[2]), STORIES]
    done = server(program=KILLED, stdin=json.dumps(told).encode())
    assert done.code == -9, done.err
    [left] = (path for path in (cache / "datasets").iterdir() if path.is_dir())
    return left


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL here")
@pytest.mark.parametrize(
    ("kind", "count", "after", "how"),
    [
        ("char", 1, 3, "torn"),
        ("char", 1, 3, "altered"),
        ("bpe", 2, 5, "torn"),
        ("word", 1, 12, "clean"),
    ],
)
def test_a_killed_preparation_is_gone_on_with(
    kind: str,
    count: int,
    after: int,
    how: str,
    server: Octavo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[int] = []
    encode = segments.encode_segment
    monkeypatch.setattr(
        segments, "encode_segment", lambda *arguments: (done.append(1), encode(*arguments))[1]
    )
    unbroken = prepare(Given(*STORIES), config(kind), cache=tmp_path / "unbroken")
    total = len(done)
    left = killed(server, tmp_path, kind, count, after, how)
    if how == "altered":
        tokens = left / "train.bin"
        tokens.write_bytes(tokens.read_bytes()[:-1] + b"\xff")
        after -= 1  # of the last segment that was whole nothing is believed
    done.clear()
    said: list[str] = []
    again = prepare(Given(*STORIES), config(kind), cache=tmp_path, report=said.append, workers=1)
    assert said == ["dataset: continues what an interrupted process had encoded"]
    assert len(done) == total - after
    assert content(again) == content(unbroken)
    assert list((tmp_path / "datasets").iterdir()) == [again.folder]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL here")
def test_what_was_left_of_another_preparation_is_not_taken(server: Octavo, tmp_path: Path) -> None:
    left = killed(server, tmp_path, "char", 1, 3)
    said: list[str] = []
    prepare(Given(*STORIES), config("char"), cache=tmp_path, validation=0.2, report=said.append)
    prepare(Given(*STORIES), config("byte"), cache=tmp_path, report=said.append)
    purpose = (left / "purpose.json").read_text()
    (left / "purpose.json").write_text(purpose.replace('"python": "', '"python": "0.'))
    prepare(Given(*STORIES), config("char"), cache=tmp_path, report=said.append)
    assert not said and left.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL here")
def test_a_folder_whose_process_is_at_work_is_not_taken(server: Octavo, tmp_path: Path) -> None:
    left = killed(server, tmp_path, "char", 1, 3)
    said: list[str] = []
    with left.with_name(f"{left.name}.lock").open("r+b") as lock:
        assert store.take(lock.fileno())
        prepare(Given(*STORIES), config("char"), cache=tmp_path, report=said.append)
    assert not said and (left / "train.journal").exists()


def test_ctrl_c_ends_all_processes_and_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))
        return started[-1]

    def interrupt(done: int, total: int | None) -> None:
        if started and done > 1000:
            raise KeyboardInterrupt

    monkeypatch.setattr(encode_workers.subprocess, "Popen", noted)
    with pytest.raises(KeyboardInterrupt):
        prepare(Given(*STORIES), config("char"), cache=tmp_path, progress=interrupt, workers=2)
    assert len(started) == 2 and all(process.poll() is not None for process in started)
    said: list[str] = []
    prepare(Given(*STORIES), config("char"), cache=tmp_path, report=said.append)
    assert len(said) == 1 and "continues" in said[0]


def test_a_process_that_dies_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = encode_workers._Worker.answer

    def dying(self: Any) -> Any:
        if self._asked:
            self._process.kill()
            self._process.wait()
        return answer(self)

    monkeypatch.setattr(encode_workers._Worker, "answer", dying)
    with pytest.raises(OctavoError, match="encodes the text ended with status") as caught:
        prepare(Given(*STORIES * 9), config("char"), cache=tmp_path, workers=2)
    assert caught.value.remedy


def test_what_is_missing_is_counted_over_all_processes(tmp_path: Path) -> None:
    coder = prepare(Given(*STORIES), config("char"), cache=tmp_path).tokenizer
    foreign = Given(*["cat and Ω, ψ" * 30] * 20)
    said = []
    for count in (1, 2):
        with pytest.raises(TokenizerError) as caught:
            prepare_text(foreign, coder, cache=tmp_path, workers=count)
        said.append(str(caught.value))
    assert said[0] == said[1] and "'Ω' (600×), 'ψ' (600×)" in said[0]
    assert len(list((tmp_path / "datasets").iterdir())) == 1  # it would fail again, so nothing is kept
