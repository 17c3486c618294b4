"""The FastAPI application: the routes of a service, and the JSON format of all errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

from fastapi import Depends, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.errors import Error
from upshot.service.access.disclosure import NOBODY, disclosed
from upshot.service.routes import changes as routes_changes
from upshot.service.routes import docs as routes_docs
from upshot.service.routes import explanations as routes_explanations
from upshot.service.routes import health as routes_health
from upshot.service.routes import insight as routes_insight
from upshot.service.routes import page as routes_page
from upshot.service.routes import realizations as routes_realizations
from upshot.service.routes import session as routes_session
from upshot.service.routes import subscriptions as routes_subscriptions
from upshot.service.routes import transactions as routes_transactions
from upshot.service.routes import views as routes_views
from upshot.service.service import Service
from upshot.service.wire.answers import json_response
from upshot.service.wire.bodies import require_keys, require_parameters
from upshot.service.wire.errors import RequestError, error_body, status_of
from upshot.service.wire.gate import Gate
from upshot.service.wire.shapes import DESCRIPTION, ERRORS

WITH_TOKEN = (
    routes_transactions.router,
    routes_realizations.router,
    routes_views.router,
    routes_changes.router,
    routes_subscriptions.router,
    routes_explanations.router,
    routes_insight.router,
)
"""Routes that require a token, before they read the request."""

WITHOUT_TOKEN = (
    routes_session.router,
    routes_health.router,
    routes_docs.router,
    routes_page.router,
)


def create_app(service: Service) -> FastAPI:
    """The application. The service is started and stopped with it; routes find it in `request.app.state.service`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="Upshot",
        version=_version(),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.add_exception_handler(Error, _refused)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(RequestValidationError, _invalid)
    for router in WITH_TOKEN:
        app.include_router(router, dependencies=[Depends(_checked)], responses=ERRORS)
    for router in WITHOUT_TOKEN:
        app.include_router(router)
    app.add_middleware(Gate, service=service)
    return app


async def _checked(request: Request) -> None:
    """Reject unknown senders and unknown query parameters."""
    request.app.state.service.scopes(request)
    route: APIRoute = request.scope["route"]
    require_parameters(request.query_params.keys(), _parameters(route.dependant))


def _parameters(dependant: Dependant) -> list[str]:
    """The query parameters of a route, those of its dependencies included."""
    own = [each.alias for each in dependant.query_params]
    return own + [alias for each in dependant.dependencies for alias in _parameters(each)]


def _version() -> str:
    try:
        return version("upshot")
    except PackageNotFoundError:
        return "0"


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Error)
    scopes = request.scope.get("state", {}).get("scopes", NOBODY)
    headers = error.headers if isinstance(error, RequestError) else {}
    return json_response(disclosed(error, scopes), status_of(error), headers)


_SLUGS = {404: ("not-found", "unknown path"), 405: ("wrong-method", "method not allowed")}


async def _unrouted(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, message = _SLUGS.get(error.status_code, ("bad-request", "invalid request"))
    refused = RequestError(error.status_code, code, message, help="`GET /docs` lists every route")
    return json_response(error_body(refused), error.status_code, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """Answer an invalid request without repeating its values: they may be secrets in the wrong place."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, dict) and any(each["type"] == "extra_forbidden" for each in error.errors()):
        try:
            require_keys(error.body, _keys(request.scope["route"]), "the body")
        except RequestError as unknown:
            return json_response(error_body(unknown), 400)
    found: list[dict[str, Any]] = [
        {"place": ".".join(str(part) for part in each["loc"]), "problem": each["msg"]} for each in error.errors()
    ]
    message = "; ".join(f"`{each['place']}`: {each['problem'].lower()}" for each in found[:5])
    refused = RequestError(
        400, "bad-request", message, help="`GET /docs` describes the parameters", details={"problems": found}
    )
    return json_response(error_body(refused), 400)


def _keys(route: APIRoute) -> list[str]:
    """The keys of the body of a route."""
    (body,) = route.dependant.body_params
    types = (body.field_info.annotation, *get_args(body.field_info.annotation))
    models = [each for each in types if isinstance(each, type) and issubclass(each, BaseModel)]
    return [key for model in models for key in model.model_fields]
