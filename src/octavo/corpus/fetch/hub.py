"""Data sets of the Hugging Face hub by name: `hf:owner/name`, `hf:owner/name:config`, `hf:owner/name:config/split`.

The hub offers every data set as Parquet files. They are fetched one after another into a temporary file,
read, and forgotten, so a data set of any size needs room for its largest file only.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, urlsplit

from octavo.corpus.fetch.addresses import answered
from octavo.corpus.fetch.catalogue import user_mirrors
from octavo.errors import CorpusError, MissingExtra

if TYPE_CHECKING:
    import httpx2

_NAME = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+)(?::(?P<config>[\w.-]+)(?:/(?P<split>[\w.-]+))?)?\Z")
_SECONDS = 30.0
_LARGEST = 64 << 30  # bytes of one file
_LISTING = 64 << 20  # bytes of the hub's list of files
_FORM = "Write it as hf:owner/name, hf:owner/name:config or hf:owner/name:config/split."


class HubDataset:
    """The Parquet files of a data set.

    Args:
        address: see the top of this file.
        transport: what to speak HTTP through, for tests.
    """

    def __init__(self, address: str, transport: httpx2.BaseTransport | None = None) -> None:
        found = _NAME.match(address)
        if found is None:
            raise CorpusError(f"{address} does not name a data set.", remedy=_FORM)
        if find_spec("pyarrow") is None:
            raise MissingExtra("pyarrow", "data", "Reading data sets of the Hugging Face hub")
        self.address = address
        self._name, self._config, self._split = found["name"], found["config"], found["split"] or "train"
        self._hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        self._transport = transport

    @contextmanager
    def _get(self, url: str) -> Iterator[httpx2.Response]:
        """What an address answers; where it leads is checked, and the token goes to no other machine."""
        import httpx2

        headers = {"Accept-Encoding": "identity"}  # sizes are those of the file
        token = os.environ.get("HF_TOKEN")
        if token and urlsplit(url).netloc == urlsplit(self._hub).netloc:
            headers["Authorization"] = f"Bearer {token}"
        private = user_mirrors().allow_private
        with httpx2.Client(timeout=_SECONDS, follow_redirects=False, transport=self._transport) as client:
            try:
                with answered(client, url, headers, allow_private=private) as answer:
                    answer.raise_for_status()
                    yield answer
            except httpx2.HTTPStatusError as error:
                raise self._refused(error.response.status_code) from error
            except httpx2.HTTPError as error:
                raise CorpusError(
                    f"{self.address} cannot be fetched: {urlsplit(self._hub).netloc} does not answer "
                    f"({type(error).__name__}).",
                    remedy="Check the network. Offline, give Parquet or text files that you have: --text PATH.",
                ) from error

    def _refused(self, status: int) -> CorpusError:
        if status in (401, 403, 404):
            return CorpusError(
                f"{self.address}: the hub has no such data set, or does not show it to you ({status}).",
                remedy=f"{_FORM} For one with restricted access put your token into HF_TOKEN.",
            )
        return CorpusError(
            f"{self.address} cannot be fetched: the hub answers {status}.", remedy="Try later."
        )

    def files(self) -> list[str]:
        """Addresses of the Parquet files of the chosen config and split, in order. Raises CorpusError."""
        with self._get(f"{self._hub}/api/datasets/{quote(self._name)}/parquet") as answer:
            listing = _listing(answer)
        config = self._config or ("default" if "default" in listing else next(iter(listing), ""))
        splits = listing.get(config)
        if splits is None:
            raise CorpusError(
                f"{self.address} has no config {config!r}; it has {', '.join(map(repr, listing)) or 'none'}.",
                remedy=_FORM,
            )
        if self._split not in splits:
            raise CorpusError(
                f"{self.address} has no split {self._split!r}; it has {', '.join(map(repr, splits)) or 'none'}.",
                remedy=_FORM,
            )
        return splits[self._split]

    @contextmanager
    def opened(self, url: str) -> Iterator[BinaryIO]:
        """One file, fetched whole. Raises CorpusError."""
        # A folder of its own, since Windows does not let another process open a temporary file.
        with (
            tempfile.TemporaryDirectory(prefix="octavo-") as folder,
            Path(folder, "data").open("w+b") as file,
        ):
            with self._get(url) as answer:
                wanted = int(answer.headers.get("Content-Length") or 0)
                size = 0
                for chunk in answer.iter_bytes():
                    size += len(chunk)
                    if size > _LARGEST:
                        raise CorpusError(f"{self.address}: a file is larger than {_LARGEST >> 30} GB.")
                    file.write(chunk)
            if size < wanted:
                raise CorpusError(
                    f"{self.address}: the connection broke after {size:,} of {wanted:,} bytes.",
                    remedy="Try again.",
                )
            file.flush()
            yield file


def _listing(answer: httpx2.Response) -> dict[str, dict[str, list[str]]]:
    """What the hub says: config, split, addresses; checked, since it comes from elsewhere."""
    data = b""
    for chunk in answer.iter_bytes():
        data += chunk
        if len(data) > _LISTING:
            break
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(
        isinstance(splits, dict)
        and all(isinstance(urls, list) and all(isinstance(u, str) for u in urls) for urls in splits.values())
        for splits in found.values()
    ):
        raise CorpusError("The hub's list of files has an unexpected form.", remedy="Try later.")
    return found
