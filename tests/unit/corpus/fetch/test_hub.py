"""Data sets by name, against a hub that stands here."""

from __future__ import annotations

import io
import socket
from functools import partial
from pathlib import Path

import pytest

from octavo.corpus.fetch import hub
from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError

httpx2 = pytest.importorskip("httpx2")
pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


def parquet(*texts: str) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"text": list(texts)}), out)
    return out.getvalue()


FILES = {"/0.parquet": parquet("one", "two"), "/1.parquet": parquet("three"), "/v.parquet": parquet("held")}
LISTING = {
    "default": {
        "train": ["https://hub.test/0.parquet", "https://hub.test/1.parquet"],
        "validation": ["https://hub.test/v.parquet"],
    }
}


def answer(request: object) -> object:
    path = request.url.path
    if path == "/api/datasets/ada/tales/parquet":
        return httpx2.Response(200, json=LISTING)
    if path in FILES:
        return httpx2.Response(200, content=FILES[path])
    return httpx2.Response(404)


ADDRESSES = {"intranet.test": "10.0.0.7"}  # all other names are of the internet


def look_up(host: str, port: int, **_: object) -> list[object]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ADDRESSES.get(host, "93.184.216.34"), port))]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HF_ENDPOINT",
        "OCTAVO_ALLOW_PRIVATE",
        "HF_TOKEN",
        "https_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(hub, "HubDataset", partial(hub.HubDataset, transport=httpx2.MockTransport(answer)))


def texts(address: str) -> list[str]:
    source = FilesSource(paths=(address,)).build()
    assert source.total_bytes is None
    return ["".join(document.pieces) for document in source.documents()]


def test_a_data_set_is_read_file_by_file() -> None:
    assert texts("hf:ada/tales") == ["one", "two", "three"]
    assert texts("hf:ada/tales:default/validation") == ["held"]


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("hf:tales", "does not name a data set"),
        ("hf:ada/none", "no such data set"),
        ("hf:ada/tales:big", "no config 'big'; it has 'default'"),
        ("hf:ada/tales:default/test", "no split 'test'; it has 'train', 'validation'"),
    ],
)
def test_what_is_not_there(address: str, what: str) -> None:
    with pytest.raises(CorpusError, match=what) as caught:
        texts(address)
    assert caught.value.remedy


def served(monkeypatch: pytest.MonkeyPatch, leads_to: str) -> list[object]:
    """A hub whose files lead on to another address; what is asked of it."""
    asked: list[object] = []

    def leading(request: object) -> object:
        asked.append(request)
        if request.url.path == "/0.parquet" and len(asked) == 2:
            return httpx2.Response(302, headers={"Location": leads_to})
        return answer(request)

    monkeypatch.setattr(hub, "HubDataset", partial(hub.HubDataset, transport=httpx2.MockTransport(leading)))
    return asked


@pytest.mark.parametrize("to", ["https://intranet.test/x", "https://127.0.0.1/x", "https://[::1]/x"])
def test_it_does_not_lead_into_a_private_network(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = served(monkeypatch, to)
    with pytest.raises(CorpusError, match="a machine of a private network"):
        texts("hf:ada/tales")
    assert len(asked) == 2


@pytest.mark.parametrize("to", ["http://cdn.test/0.parquet", "file:///etc/passwd"])
def test_it_leads_to_encrypted_addresses_only(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, to)
    with pytest.raises(CorpusError, match=r"without encryption|must begin with http"):
        texts("hf:ada/tales")


def test_the_token_goes_to_the_hub_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    asked = served(monkeypatch, "https://cdn.test/0.parquet")
    assert texts("hf:ada/tales") == ["one", "two", "three"]
    hosts = [(request.headers["Host"], "Authorization" in request.headers) for request in asked]
    assert hosts == [
        ("huggingface.co", True),
        ("hub.test", False),  # named by the hub's list
        ("cdn.test", False),
        ("hub.test", False),
    ]


@pytest.mark.parametrize("hub_at", ["http://hub.test", "http://HUGGINGFACE.co"])
def test_the_token_is_not_sent_in_clear_text(hub_at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("HF_ENDPOINT", hub_at)
    asked = served(monkeypatch, "https://cdn.test/0.parquet")
    with pytest.raises(CorpusError, match="without encryption") as caught:
        texts("hf:ada/tales")
    assert asked == [] and "HF_TOKEN" in (caught.value.remedy or "") and "secret" not in str(caught.value)
    monkeypatch.delenv("HF_TOKEN")
    assert texts("hf:ada/tales") == ["one", "two", "three"]


def test_offline_is_a_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(request: object) -> object:
        raise httpx2.ConnectError("no route")

    monkeypatch.setattr(hub, "HubDataset", partial(hub.HubDataset, transport=httpx2.MockTransport(offline)))
    with pytest.raises(CorpusError, match=r"does not answer \(ConnectError\)") as caught:
        texts("hf:ada/tales")
    assert "Check the network" in (caught.value.remedy or "")


def test_names_stay_names_when_paths_are_made_absolute(tmp_path: Path) -> None:
    from octavo.run.data import absolute

    assert absolute(["hf:ada/tales"]) == ["hf:ada/tales"]
