"""Importing the room is light: the libraries of its extras, and torch, come when they are needed."""

from __future__ import annotations

import subprocess
import sys


def test_import_brings_in_no_optional_library():
    code = (
        "import sys; from octavo.config.parts import parts; import octavo.tokenizers; parts('tokenizer'); "
        "print(*({'torch', 'tokenizers', 'tiktoken'} & set(sys.modules)), 'done')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert result.stdout.split() == ["done"]
