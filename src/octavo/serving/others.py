"""What models of pairs and of series do: translations, and forecasts."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from octavo.errors import OctavoError
from octavo.serving.call import Call
from octavo.serving.errors import Refusal, wrong
from octavo.serving.models import Served
from octavo.serving.schemas import ForecastRequest, TranslateRequest
from octavo.serving.service import Service, head
from octavo.tasks.forecast.evaluate import summary
from octavo.tasks.translation.beam import Search
from octavo.tasks.translation.translator import Skipped, Translator


class Others:
    """The two endpoints."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def translate(self, call: Call) -> None:
        """Translate sentences."""
        asked = await call.asked(TranslateRequest)
        async with self.service.attending(call, asked) as served:
            if served.task != "translation":
                raise wrong(f"This model is no translator: its task is {served.task}.", "model")
            sources = [asked.source] if isinstance(asked.source, str) else asked.source
            rows = await self.service.set_aside(lambda: translated(served, asked, sources))
            await call.answer(head(served, asked, "trans", "translation") | {"choices": rows})

    async def forecast(self, call: Call) -> None:
        """What follows a series."""
        asked = await call.asked(ForecastRequest)
        async with self.service.attending(call, asked) as served:
            if served.task != "forecast":
                raise wrong(f"This model forecasts nothing: its task is {served.task}.", "model")
            seed = secrets.randbits(32) if asked.seed is None else asked.seed
            series = await self.service.set_aside(lambda: forecasts(served, asked, seed))
            begin = head(served, asked, "fcst", "forecast")
            await call.answer(begin | {"seed": seed, "series": series})


def translated(served: Served, asked: TranslateRequest, sources: Sequence[str]) -> list[dict[str, Any]]:
    """The translations of each source by itself, so that none depends on another."""
    if "translator" not in served.kept:
        served.kept["translator"] = served.run.translator()
    translator: Translator = served.kept["translator"]
    search = Search(asked.beams, asked.length_penalty)
    found: list[dict[str, Any]] = []
    for index, source in enumerate(sources):
        ids = translator.read(source, "The source")
        if isinstance(ids, Skipped):
            found.append({"index": index, "translations": [], "skipped": ids.why})
            continue
        (best,) = translator.translate([ids], search)
        found.append(
            {"index": index, "translations": [one.as_dict() for one in best[: asked.best]], "skipped": None}
        )
    return found


def forecasts(served: Served, asked: ForecastRequest, seed: int) -> list[dict[str, Any]]:
    """Quantiles of what follows each series of a table. Raises Refusal."""
    with tempfile.TemporaryDirectory(prefix="octavo-") as folder:
        path = Path(folder) / asked.name
        path.write_text(asked.table, encoding="utf-8")
        try:
            found = served.run.forecast(path, steps=asked.steps, samples=asked.samples, seed=seed)
        except OctavoError as error:
            raise Refusal(
                400, error.what.replace(str(path), "The table").replace(folder, ""), param="table"
            ) from error
    series = []
    for one in map(summary, found):
        channels = one["channels"]
        for channel in channels.values():
            if not asked.paths:
                channel["paths"] = None
        series.append({"channels": channels})
    return series
