from __future__ import annotations

from fastapi import APIRouter

from slackwater.console.ports import Reads
from slackwater.model.time import Clock


def html_router(reads: Reads, clock: Clock) -> APIRouter:
    return APIRouter()
