"""Folders for Hugging Face, opened by transformers, say what the run says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from octavo.config import SamplingConfig
from octavo.errors import InputError
from octavo.export import prove
from octavo.export.targets import targets
from octavo.export.targets.hf import OpenedFolder, answer_of, prompt_of, sampling_of, save_sharded
from octavo.export.tokenizer_json import tokenizer_json
from octavo.tokenizers.huggingface import HuggingFaceTokenizer
from unit.export.made import parcel_of, proven

pytest.importorskip("transformers")


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_the_main_case(tmp_path: Path, dtype: str) -> None:
    parcel, kept = parcel_of("shakespeare-char-modern", "model.layers=2", dtype=dtype)
    seen = proven("hf", parcel, kept, tmp_path / "out")
    assert seen.positions >= 1024 and seen.strings.compared + seen.strings.refused_by_the_run == 1000
    assert seen.strings.taken_still == 0
    (tensor, *_) = load_file(tmp_path / "out" / "model.safetensors").values()
    assert tensor.dtype == getattr(torch, dtype)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}),
        (
            {"temperature": 0, "top_k": 5, "repetition_penalty": 1.2},
            {"do_sample": False, "repetition_penalty": 1.2},
        ),
        (
            {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
            {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
        ),
    ],
)
def test_it_samples_as_the_run_does(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert sampling_of(SamplingConfig.model_validate(given)) == found


def test_what_a_card_asks_for_fits_into_the_context() -> None:
    parcel, _ = parcel_of("shakespeare-char-modern", "model.layers=1", "model.context=16")
    prompt = prompt_of(parcel)
    assert len(parcel.tokenizer.encode(prompt)) + answer_of(parcel, prompt) == 16


PLAIN = "positions=rotary norm=rms head_bias=false output_bias=false"
OTHERS = {
    "gpt_neox": "positions={kind:rotary,share:0.5} head_bias=false",
    "openai-gpt": "norm_place=post final_norm=false head_bias=false qkv_bias=true feed_forward={kind:relu,width:300}",
    "llama": f"{PLAIN} feed_forward=swiglu kv_heads=2",
    "qwen3": f"{PLAIN} feed_forward=swiglu qk_norm=true head_width=20",
    "arcee": f"{PLAIN} positions={{kind:rotary,share:0.5}} feed_forward={{kind:relu2,bias:false}} attention_scale=0.2",
}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", OTHERS)
def test_other_architectures(tmp_path: Path, architecture: str) -> None:
    words = [f"model.{one.replace(':', ': ').replace(',', ', ')}" for one in OTHERS[architecture].split()]
    parcel, kept = parcel_of("crusoe-char-cpu", "model.layers=2", "model.dropout=0", *words)
    proven("hf", parcel, kept, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == architecture


def test_large_weights_lie_in_several_files(tmp_path: Path) -> None:
    tensors = {f"t{number}": torch.full((10,), float(number)) for number in range(5)}
    save_sharded(tensors, tmp_path, limit=80)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert sorted(set(index["weight_map"].values())) == sorted(p.name for p in tmp_path.glob("*.safetensors"))
    assert len(set(index["weight_map"].values())) == 3 and index["metadata"]["total_size"] == 200
    for name, file in index["weight_map"].items():
        assert torch.equal(load_file(tmp_path / file)[name], tensors[name])


def test_code_in_a_folder_is_not_run_whoever_says_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel, _ = parcel_of("shakespeare-char-modern", "model.layers=1", dtype="float32")
    out = tmp_path / "out"
    out.mkdir()
    targets()["hf"].write(parcel, out)
    settings = json.loads((out / "config.json").read_text())
    own = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (out / "config.json").write_text(json.dumps(settings | {"model_type": "evil", "auto_map": own}))
    (out / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(ValueError, match="trust_remote_code"):
        OpenedFolder(out)
    assert not (tmp_path / "ran").exists()


def test_a_process_that_opens_an_export_is_asked_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {}

    def run(*_: Any, **options: Any) -> SimpleNamespace:
        told.update(options)
        return SimpleNamespace(stdout='{"error": "asked"}', stderr="")

    monkeypatch.setattr(prove.subprocess, "run", run)
    with pytest.raises(InputError, match="asked"):
        prove.measured("hf", tmp_path)
    assert told["stdin"] is subprocess.DEVNULL


def test_what_it_cannot_say_is_refused_in_a_sentence() -> None:
    parcel, _ = parcel_of("shakespeare-char-quick")
    with pytest.raises(InputError, match="knows no n-gram tables"):
        targets()["hf"].refuse(parcel.weights.shape, parcel.tokenizer, "float32")
    with pytest.raises(InputError, match="has no float8 here"):
        targets()["hf"].refuse(parcel.weights.shape, parcel.tokenizer, "float8")


def test_no_merge_is_left_out_at_random() -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "dropout": 0.5}
    content = {"version": "1.0", "added_tokens": [], "model": model}
    rest = dict.fromkeys(
        ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    )
    written = tokenizer_json(HuggingFaceTokenizer(json.dumps(content | rest)))
    assert written == content | rest | {"model": model | {"dropout": None}}
