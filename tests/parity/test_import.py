"""Imported models against transformers itself."""

from __future__ import annotations

import filecmp
from pathlib import Path

import pytest
import torch

from octavo.export.imported import import_model
from octavo.export.targets import targets
from octavo.export.targets.base import Parcel
from octavo.export.weights import weights_of
from octavo.run.run import Run
from unit.export import folders


@torch.no_grad()
@pytest.mark.parametrize("form", ["one file", "shards", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", folders.MODELS)
def test_logits_are_those_of_transformers(kind: str, form: str, tmp_path: Path) -> None:
    options = {"shards": {"max_shard_size": "20KB"}}.get(form, {})
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(form, torch.float32)
    folder = folders.saved(kind, tmp_path / "model", dtype=dtype, **options)
    assert (folder / "model.safetensors.index.json").is_file() == (form == "shards")
    import_model(folder, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    ids = folders.tokens()
    expected = folders.opened(folder)(ids).logits
    torch.testing.assert_close(run.model(ids), expected, rtol=0, atol=1e-5)
    assert run.tokenizer.encode(folders.TEXT).tolist() == folders.encoder().encode(folders.TEXT).ids
    assert (run.tokenizer.start, run.tokenizer.end) == (0, 0)


@torch.no_grad()
def test_the_model_without_its_head_has_shorter_names(tmp_path: Path) -> None:
    """As the files of GPT-2 that everybody has."""
    model = folders.theirs("gpt2")
    model.transformer.save_pretrained(tmp_path / "model")
    folders.encoder().save(str(tmp_path / "model" / "tokenizer.json"))
    import_model(tmp_path / "model", tmp_path / "run")
    ids = folders.tokens()
    torch.testing.assert_close(Run.open(tmp_path / "run").model(ids), model(ids).logits, rtol=0, atol=1e-5)


@pytest.mark.slow
@torch.no_grad()
def test_a_model_as_large_as_gpt2(tmp_path: Path) -> None:
    transformers = folders.transformers
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    model.save_pretrained(tmp_path / "model")
    folders.encoder().save(str(tmp_path / "model" / "tokenizer.json"))
    import_model(tmp_path / "model", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.parameters == 124_439_808 and run.model.vocab_size == 50_257
    ids = torch.randint(50_257, (1, 200), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(run.model(ids), model(ids).logits, rtol=0, atol=1e-5)
    del model
    parcel = Parcel(weights_of(run.model, run.config.model).to(torch.float64), run.tokenizer, "float32", "x")
    (tmp_path / "out").mkdir()
    targets()["hf"].write(parcel, tmp_path / "out")
    import_model(tmp_path / "out", tmp_path / "again")
    files = (tmp_path / each / "checkpoints/step-000000/model.safetensors" for each in ("run", "again"))
    assert filecmp.cmp(*files, shallow=False)
