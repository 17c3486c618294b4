"""`/docs`: a page that describes every route, made from `/openapi.json` without external resources."""

from __future__ import annotations

import html
import json
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

router = APIRouter()

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-top: 1px solid #8884; padding-top: 1rem; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { background: #8881; padding: .75rem; border-radius: .4rem; overflow-x: auto; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem 1.5rem; }
"""


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The page needs no token: it describes the routes and contains no data."""
    described = request.app.openapi()
    parts = [
        f"<h1>{_text(described['info']['title'])}</h1>",
        *(f"<p>{_text(part)}</p>" for part in described["info"]["description"].split("\n\n")),
        '<p>As data: <a href="openapi.json">openapi.json</a></p>',
    ]
    schemas = described.get("components", {}).get("schemas", {})
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            parts += _route(path, method, route, schemas)
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
    page = f"<!doctype html><html lang=en><meta charset=utf-8><title>Upshot</title><style>{_STYLE}</style>"
    return HTMLResponse(page + "".join(parts), headers={"Content-Security-Policy": policy})


def _route(path: str, method: str, route: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    parts = [
        f'<h2><span class="method">{method.upper()}</span> <code>{_text(path)}</code></h2>',
        f"<p><b>{_text(route.get('summary', ''))}.</b> {_text(route.get('description', ''))}</p>",
    ]
    listed = route.get("parameters", [])
    if listed:
        parts.append("<dl>")
        parts += [
            f"<dt><code>{_text(each['name'])}</code> ({each['in']})</dt><dd>{_text(each.get('description', ''))}</dd>"
            for each in listed
        ]
        parts.append("</dl>")
    sent = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for words, schema in (("Body", sent), ("Answer", _answer(route))):
        for example in _resolved(schema, schemas).get("examples", [])[:1]:
            parts.append(f"<p>{words}:</p><pre>{_text(json.dumps(example, indent=2, ensure_ascii=False))}</pre>")
    return parts


def _answer(route: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (
        route.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
    )
    return found


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = schemas.get(name, schema)
    return found


def _text(words: str) -> str:
    return html.escape(words)
