"""`/healthz`, `/readyz` and `/metrics`: state and metrics of the process."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from upshot.service.metrics import CONTENT_TYPE
from upshot.service.service import Service
from upshot.service.wire.answers import json_response
from upshot.service.wire.errors import RequestError
from upshot.service.wire.shapes import ERRORS, StatusAnswer, answer_of

router = APIRouter(tags=["operation"], responses=ERRORS, default_response_class=Response)


@router.get(
    "/healthz",
    summary="Is the process alive?",
    responses=answer_of(StatusAnswer, "It is."),
)
async def healthz() -> Response:
    """Needs no token."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz",
    summary="Is it ready for requests?",
    responses=answer_of(StatusAnswer, "It is."),
)
async def readyz(request: Request) -> Response:
    """503 while the service starts or stops, and if its writer has ended. Needs no token."""
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
    service.scopes(request)  # any token
    return Response(service.metrics.text(), media_type=CONTENT_TYPE)
