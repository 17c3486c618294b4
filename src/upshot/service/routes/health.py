"""`/healthz`, `/readyz` and `/metrics`: whether the process lives, whether it answers, and how it does."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from upshot.service.metrics import CONTENT_TYPE
from upshot.service.service import Service
from upshot.service.wire.answers import json_response
from upshot.service.wire.errors import RequestError
from upshot.service.wire.shapes import ERRORS, StatusAnswer

router = APIRouter(tags=["operation"], responses=ERRORS)


@router.get(
    "/healthz",
    summary="Is the process alive?",
    response_class=Response,
    responses={200: {"model": StatusAnswer, "description": "It is."}},
)
async def healthz() -> Response:
    """Needs no token, and says nothing else."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz",
    summary="Is it ready for requests?",
    response_class=Response,
    responses={200: {"model": StatusAnswer, "description": "It does."}},
)
async def readyz(request: Request) -> Response:
    """503 while it starts or stops, and when the writer's thread is gone. Needs no token."""
    service: Service = request.app.state.service
    if not service.ready or service.stopping or not service.writer.is_alive:
        raise RequestError(503, "not-ready", "the service is starting or stopping", help="try again", retryable=True)
    return json_response({"status": "ready"})


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "In Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    },
)
async def metrics(request: Request) -> Response:
    """Counts and times, no values and no names of relations. With tokens configured it needs one, any."""
    service: Service = request.app.state.service
    service.scopes(request)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE)
