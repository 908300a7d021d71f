"""What cannot be imported: a sentence each, and nothing left of the run."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from octavo.errors import InputError, OctavoError
from octavo.export.imported import import_model
from octavo.export.to_config import config_of, tensors_of
from octavo.export.weights import Shape, shape_of, weights_of
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.run import saved
from octavo.run.run import Run
from unit.export import folders
from unit.export.shapes import OPTIONS, SMALL


@pytest.mark.parametrize("name", OPTIONS)
def test_back_is_the_way_there_turned_round(name: str) -> None:
    config = GPTConfig.model_validate(SMALL | OPTIONS[name])
    model = build_model(config, vocab_size=13, seed=1)
    shape = shape_of(config, vocab_size=13)
    back = config_of(shape)
    assert shape_of(back, vocab_size=13) == shape
    found = tensors_of(weights_of(model, config), back)
    own = dict(model.named_parameters())
    assert found.keys() == own.keys()
    assert all(torch.equal(found[each], own[each]) for each in own)


@pytest.mark.parametrize("head_width", range(2, 66, 2))
def test_any_share_of_a_head_comes_back(head_width: int) -> None:
    for turned in range(2, head_width + 1, 2):
        shape = shape_of(
            GPTConfig.model_validate(SMALL | {"positions": "rotary", "head_width": head_width}), vocab_size=3
        )
        wanted = Shape(**{**shape.as_dict(), "turned": turned, "slowness": ()})
        assert shape_of(config_of(wanted), vocab_size=3).turned == turned


def edited(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / "config.json").read_text()) | changes
        kept = {name: value for name, value in settings.items() if value != "gone"}
        (folder / "config.json").write_text(json.dumps(kept))

    return change


def cut(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def renamed(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: (folder / old).rename(folder / new) and None


def indexed(weight_map: dict[str, str] | str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = json.dumps({"weight_map": weight_map}) if isinstance(weight_map, dict) else weight_map
        (folder / "model.safetensors.index.json").write_text(content)

    return change


ROPE = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0}
WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "pickle": (renamed("model.safetensors", "pytorch_model.bin"), "can run code"),
    "no weights": (renamed("model.safetensors", "weights"), "holds no weights"),
    "no settings": (renamed("config.json", "settings.json"), "no config.json"),
    "no tokenizer": (renamed("tokenizer.json", "vocab.json"), "tokenizer"),
    "settings that are none": (
        lambda folder: (folder / "config.json").write_text("[") and None,
        "config.json",
    ),
    "a list as settings": (lambda folder: (folder / "config.json").write_text("[]") and None, "config.json"),
    "deep settings": (lambda f: (f / "config.json").write_text("[" * 10**5) and None, "config.json"),
    "unknown kind": (edited(model_type="mamba"), "'mamba'"),
    "kind of no text": (edited(model_type=["llama"]), "nothing as the kind"),
    "kind missing": (edited(model_type="gone"), "nothing as the kind"),
    "wider": (edited(hidden_size=48, head_dim=8), "do not fit"),
    "more layers": (edited(num_hidden_layers=3), "lack"),
    "fewer layers": (edited(num_hidden_layers=1), "no place"),
    "millions of layers": (edited(num_hidden_layers=10**7), "no such model"),
    "a larger vocabulary": (edited(vocab_size=folders.V + 1), "should be"),
    "other heads": (edited(num_key_value_heads=4), "fit"),
    "heads that share nothing": (edited(num_key_value_heads=3), "multiple"),
    "no heads": (edited(num_attention_heads=0), "config.json"),
    "half a head": (edited(num_attention_heads=1.5), "heads"),
    "a truth for a number": (edited(num_hidden_layers=True), "layers"),
    "a word for a number": (edited(hidden_size="32"), "config.json"),
    "a list for a number": (edited(hidden_size=[32]), "config.json"),
    "less than nothing": (edited(intermediate_size=-4), "no such model"),
    "width gone": (edited(hidden_size="gone"), "'hidden_size'"),
    "not a number": (edited(rms_norm_eps=float("nan")), "finite number"),
    "other activation": (edited(hidden_act="mish"), "'mish'"),
    "scaled positions": (edited(rope_parameters=ROPE), "'llama3'"),
    "windows": (edited(layer_types=["full_attention", "sliding_attention"]), "window"),
    "a window for all": (edited(use_sliding_window=True), "window"),
    "odd rope": (edited(rope_parameters=3), "config.json"),
    "biases that are not there": (edited(attention_bias=True), "lack"),
    "cut short": (cut, "damaged or cut short"),
    "empty": (lambda folder: (folder / "model.safetensors").write_bytes(b"") and None, "damaged"),
    "index without its files": (indexed({"lm_head.weight": "part-1.safetensors"}), "is missing"),
    "index to elsewhere": (indexed({"lm_head.weight": "../x.safetensors"}), "no safetensors file"),
    "index to a pickle": (indexed({"lm_head.weight": "model.bin"}), "no safetensors file"),
    "index of more": (indexed({"more.weight": "model.safetensors"}), "'more.weight'"),
    "index of nothing": (indexed({}), "names no files"),
    "index that is none": (indexed("{"), "index.json"),
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.saved("llama", tmp_path_factory.mktemp("llama"))


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_read_leaves_nothing(what: str, llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    change, sentence = WRONG[what]
    change(folder)
    with pytest.raises(InputError, match=sentence):
        import_model(folder, tmp_path / "runs" / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("wrong", ["nan", "inf", "-inf"])
def test_weights_that_are_no_numbers_are_refused_and_named(wrong: str, llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][1] = float(wrong)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="no finite numbers, in norm"):
        import_model(folder, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_way_out_of_a_pickle_is_named(tmp_path: Path, llama: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "model.pt")
    for path in (folder, folder / "model.pt"):
        with pytest.raises(InputError) as error:
            import_model(path, tmp_path / "new")
        assert "safe_serialization=True" in str(error.value.remedy)


def test_positions_that_are_scaled_where_nothing_says_so(tmp_path: Path) -> None:
    """What transformers takes Apertus's positions for, where its settings do not say them."""
    folder = folders.saved("apertus", tmp_path / "model")
    edited(rope_parameters="gone")(folder)
    with pytest.raises(InputError, match="'llama3'"):
        import_model(folder, tmp_path / "new")


def test_weights_in_eight_bits_are_refused(tmp_path: Path, llama: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = copied(llama, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["lm_head.weight"].to(torch.int8)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match="int8"):
        import_model(folder, tmp_path / "new")


def test_a_tied_head_that_is_another_one_is_refused(tmp_path: Path) -> None:
    """transformers takes the head for its own then, whatever the settings say."""
    folder = folders.saved("llama", tmp_path / "model")
    edited(tie_word_embeddings=True)(folder)
    with pytest.raises(InputError, match="holds another head: lm_head"):
        import_model(folder, tmp_path / "new")
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    ids = folders.tokens()
    import_model(folder, tmp_path / "new")
    found = Run.open(tmp_path / "new").model(ids)
    assert (found - folders.opened(folder)(ids).logits).abs().max() < 1e-4


@pytest.mark.parametrize("there", ["run", "file", "empty folder", "dead link"])
def test_what_exists_stays(there: str, llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if there == "run":
        import_model(llama, out)
    elif there == "file":
        out.write_text("mine")
    elif there == "empty folder":
        out.mkdir()
    else:
        out.symlink_to(tmp_path / "nowhere")
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(InputError, match="out"):
        import_model(llama, out)
    assert sorted(map(str, tmp_path.rglob("*"))) == before


@pytest.mark.parametrize("place", ["save_checkpoint", "point", "code_identity", "to_yaml"])
@pytest.mark.parametrize("kind", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_nothing(
    place: str, kind: BaseException, llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        with saved.storage_errors(tmp_path):
            raise kind

    monkeypatch.setattr(saved, place, fails)
    with pytest.raises((OctavoError, KeyboardInterrupt)) as error:
        import_model(llama, tmp_path / "runs" / "new")
    assert not list(tmp_path.iterdir())
    if isinstance(kind, OSError):
        assert isinstance(error.value, InputError) and "disk is full" in str(error.value)
        assert "resume" not in str(error.value)


def test_a_tokenizer_can_be_named(tmp_path: Path, llama: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    (folder / "tokenizer.json").rename(tmp_path / "other.json")
    import_model(folder, tmp_path / "run", tokenizer=tmp_path / "other.json")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["imported"]["files"].keys() == {"config.json", "model.safetensors", "other.json"}
    assert manifest["imported"]["form"] == "Hugging Face (llama)"
