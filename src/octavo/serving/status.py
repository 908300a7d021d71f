"""What the server says of itself: models, health, metrics, and its own document."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from octavo.config import stored_recipe
from octavo.errors import OctavoError
from octavo.serving.call import Call
from octavo.serving.models import NOT_THERE, Place, key_of, unknown
from octavo.serving.openapi import document
from octavo.serving.service import Service
from octavo.task import task_of


class Status:
    """The endpoints."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def health(self, call: Call) -> None:
        """Whether the server is there."""
        stopping = self.service.stopping
        await call.answer({"status": "stopping" if stopping else "ok"}, status=503 if stopping else 200)

    async def models(self, call: Call) -> None:
        """All models."""
        places = self.service.models.places.values()
        cards = [await asyncio.to_thread(self._card, place) for place in places]
        await call.answer({"object": "list", "data": cards})

    async def model(self, call: Call) -> None:
        """One of them, or one of its checkpoints."""
        name = str(call.scope["path_params"]["name"])
        run, _, which = name.partition("@")
        place = self.service.models.places.get(run)
        if place is None:
            raise unknown(name)
        card = await asyncio.to_thread(self._card, place)
        if which not in ("", "best", "last", *map(str, card["octavo"]["steps"])):
            raise unknown(name)
        await call.answer(card | {"id": name})

    def _card(self, place: Place) -> dict[str, Any]:
        key = key_of(place, "best")
        served = self.service.models.loaded.get(key) if key else None
        notice = None if served is None else served.notice
        task, description, created, step = "unknown", "", 0, None
        try:
            folder = place.checkpoint("best")
            if folder is not None:
                created = int((folder / "config.yaml").stat().st_mtime)
                recipe = stored_recipe(folder / "config.yaml")
                task, description = task_of(recipe).kind, recipe.description
                number = folder.name.removeprefix("step-")
                step = int(number) if number.isdecimal() else None
        except (OSError, ValueError, OctavoError):
            notice = NOT_THERE
        finished = place.finished
        if key is None:
            notice = NOT_THERE
        elif notice is None and not finished:
            notice = "Its training has not ended; its best checkpoint so far is served."
        details = {
            "task": task,
            "step": step,
            "steps": place.steps,
            "loaded": served is not None,
            "finished": finished,
            "description": description,
            "notice": notice,
        }
        card = {"id": place.name, "object": "model", "created": created, "owned_by": "octavo"}
        return card | {"octavo": details}

    async def metrics(self, call: Call) -> None:
        """As Prometheus reads it."""
        models, metrics = self.service.models, self.service.metrics
        schedulers = [one.scheduler for one in models.loaded.values() if one.scheduler is not None]
        counted = models.past + Counter()
        for one in schedulers:
            counted.update(one.counts)
        gauges: dict[str, tuple[str, str, float]] = {
            "queue": ("gauge", "Texts that wait for a slot.", sum(one.waiting for one in schedulers)),
            "slots_in_use": ("gauge", "Texts under way.", sum(one.active for one in schedulers)),
            "slots": ("gauge", "Texts that can be under way.", sum(one.decoder.slots for one in schedulers)),
            "models_loaded": ("gauge", "Models in memory.", len(models.loaded)),
            "models_bytes": ("gauge", "Memory that they take.", models.taken),
            "prompt_tokens_total": ("counter", "Ids of prompts that were read.", counted["read"]),
            "prompt_tokens_shared_total": ("counter", "Ids that another text had read.", counted["shared"]),
            "tokens_total": ("counter", "Tokens that were written.", counted["written"]),
            "cancelled_total": ("counter", "Texts whose client went.", metrics.cancelled),
        }
        await call.content(metrics.text(gauges).encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, call: Call) -> None:
        """What the endpoints take and give."""
        await call.answer(document())
