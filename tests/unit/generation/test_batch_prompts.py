"""Files of prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.errors import ConfigError, InputError
from octavo.generation.batch_prompts import read_prompts


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_lines(tmp_path: Path) -> None:
    text = "\ufeff# mine\nROMEO:\\nWhat\n\n   \nTo be or not \n\\# one\\t\\\\n\nROMEO:\\nWhat\nROMEO:"
    assert read_prompts(written(tmp_path, "p.txt", text)) == [
        "ROMEO:\nWhat",
        "To be or not ",
        "# one\t\\n",
        "ROMEO:",
    ]


def test_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"a \r\n#\r\n\r\nb\r\n")
    assert read_prompts(tmp_path / "p") == ["a ", "b"]


@pytest.mark.parametrize(
    ("name", "text"), [("p.yaml", '- "ROMEO:"\n- ""\n- "#\\n"\n'), ("p.json", '["ROMEO:", "", "#\\n"]')]
)
def test_lists(tmp_path: Path, name: str, text: str) -> None:
    assert read_prompts(written(tmp_path, name, text)) == ["ROMEO:", "", "#\n"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.yaml", "- ROMEO:\n- x\n- 5", "not texts: number 1, 3"),
        ("p.yaml", "a: b", "not a list"),
        ("p.yml", "- [", "not valid YAML"),
        ("p.json", "[", "not valid JSON"),
        ("p.json", "[]", "holds no prompts"),
        ("p.txt", "# nothing\n\n", "holds no prompts"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises((InputError, ConfigError), match=said):
        read_prompts(written(tmp_path, name, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "p.txt"):
        with pytest.raises(InputError, match="cannot be read"):
            read_prompts(path)
