"""`POST /session` and `DELETE /session`: a browser exchanges a token for a cookie that scripts cannot read."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from upshot.service.access.sessions import LIFETIME
from upshot.service.access.tokens import hash_of
from upshot.service.service import Service
from upshot.service.wire.answers import json_response
from upshot.service.wire.bodies import read_object
from upshot.service.wire.errors import RequestError
from upshot.service.wire.shapes import ERRORS, SESSION, SessionAnswer, answer_of, body_of

router = APIRouter(tags=["session"], responses=ERRORS, default_response_class=Response)


@router.post(
    "/session",
    summary="Sign in",
    responses=answer_of(SessionAnswer, "The cookie is set."),
    openapi_extra=body_of(SESSION),
)
async def sign_in(request: Request) -> Response:
    """Sets a cookie, `SameSite=Strict` and `HttpOnly`, that represents the token until the session ends."""
    service: Service = request.app.state.service
    service.authenticator.require_same_origin(request)
    token = (await read_object(request, ("token",))).get("token")
    if not isinstance(token, str) or not token:
        raise RequestError(400, "bad-request", "`token` must be text")
    scopes = service.authenticator.sign_in(token)
    response = json_response({"token": scopes.name, "subscribe": scopes.subscribe, "admin": scopes.admin})
    if service.authenticator.tokens is not None:
        response.set_cookie(
            service.authenticator.cookie,
            service.authenticator.sessions.start(hash_of(token)),
            max_age=LIFETIME,
            path="/",
            secure=service.settings.tls,
            httponly=True,
            samesite="strict",
        )
    return response


@router.delete("/session", summary="Sign out", status_code=204, response_class=Response)
async def sign_out(request: Request) -> Response:
    """Ends the session, if there is one."""
    service: Service = request.app.state.service
    authenticator = service.authenticator
    authenticator.require_same_origin(request)
    secret = request.cookies.get(authenticator.cookie)
    if secret:
        authenticator.sessions.end(secret)
    response = Response(status_code=204)
    response.delete_cookie(
        authenticator.cookie, path="/", secure=service.settings.tls, httponly=True, samesite="strict"
    )
    return response
