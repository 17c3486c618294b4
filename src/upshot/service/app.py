"""The application: every route over one service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.requests import Request

from upshot.core.errors import Error
from upshot.service import routes_changes, routes_subscriptions
from upshot.service.errors import error_body, status_of
from upshot.service.service import Service


def create_app(service: Service) -> FastAPI:
    """The application. The service is started and stopped with it; routes find it in `request.app.state.service`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(title="Upshot", lifespan=lifespan)
    app.state.service = service

    @app.exception_handler(Error)
    async def refused(_: Request, error: Error) -> JSONResponse:
        return JSONResponse(error_body(error), status_of(error))

    app.include_router(routes_changes.router)
    app.include_router(routes_subscriptions.router)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app
