"""The chat template in a Hugging Face folder gives the ids that it gives here."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.config.parts import parts
from octavo.corpus.records.turns import Message
from octavo.export.targets.hf import write_tokenizer
from octavo.tokenizers import TokenizerConfig, build_tokenizer
from octavo.tokenizers.chat import CHAT_TOKENS, ChatTemplate

transformers = pytest.importorskip("transformers")
TEXT = "Hello there, who is it? It is <|user|> and\n 2 <|end|>. " * 9


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_apply_chat_template_gives_the_same_ids(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    size = {"size": 300} if kind == "bpe" else {}
    config = parts("tokenizer")[kind].model_validate({"special": CHAT_TOKENS, **size})
    assert isinstance(config, TokenizerConfig)
    tokenizer = build_tokenizer(config, lambda: iter([TEXT]), documents=True)
    write_tokenizer(tokenizer, tmp_path, context=64)
    theirs, template = transformers.AutoTokenizer.from_pretrained(tmp_path), ChatTemplate(tokenizer)
    messages = [
        Message("system", " Hello\n"),
        Message("user", "who is it? "),
        Message("assistant", "It is 2."),
    ]
    for given, answering in ((messages, False), (messages[:2], True), (messages[1:], False)):
        plain = [message.as_dict() for message in given]
        found = theirs.apply_chat_template(plain, add_generation_prompt=answering, return_dict=False)
        assert found == template.render(given, answering=answering).ids.tolist()
    for text in (
        "who is <|user|>",
        "<|end|>",
    ):  # where it is asked to, that library too takes a role's name as text
        ids = theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert ids == template.encode(text).tolist()


def test_without_the_templates_tokens_there_is_no_template(tmp_path: Path) -> None:
    config = parts("tokenizer")["byte"]()  # type: ignore[call-arg]
    write_tokenizer(build_tokenizer(config, lambda: iter([TEXT]), documents=True), tmp_path, context=64)  # type: ignore[arg-type]
    written = (tmp_path / "tokenizer_config.json").read_text()
    assert "chat_template" not in written and '"split_special_tokens": true' in written
