"""Conversations as a dataset: what the template would lose is refused, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.config.parts import parts
from octavo.corpus.records.turns import Message, Turns
from octavo.data import prepare
from octavo.errors import TokenizerError
from octavo.tasks.chat.turns import ByTemplate
from octavo.tokenizers import Tokenizer, build_tokenizer, with_special
from octavo.tokenizers.chat import CHAT_TOKENS
from unit.data.common import Given


def words(text: str, **options: object) -> Tokenizer:
    """A tokenizer of words that was trained on a text, with the template."""
    config = parts("tokenizer")["word"].model_validate(options)
    return with_special(build_tokenizer(config, lambda: iter([text]), documents=True), CHAT_TOKENS)  # pyrefly: ignore


@pytest.mark.parametrize("answer", ["it  is me", "It is me"])
def test_a_template_that_loses_text_is_refused_and_leaves_nothing(answer: str, tmp_path: Path) -> None:
    tokenizer = words("who is it? it is me", lowercase=True)
    texts = [
        Turns((Message("user", f"who is {'it ' * n}?"), Message("assistant", "it is me"))).text()
        for n in range(1, 20)
    ]
    lost = Turns((Message("user", "who is me?"), Message("assistant", answer))).text()
    with pytest.raises(
        TokenizerError, match=r'begins with "who is .*does not keep this text: “.*come back as'
    ) as caught:
        prepare(Given(*texts, lost), ByTemplate(tokenizer), split="prompts", validation=0.3, cache=tmp_path)
    assert caught.value.remedy and not list((tmp_path / "datasets").glob("*"))
