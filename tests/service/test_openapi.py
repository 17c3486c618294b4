"""What the service says of itself is complete and true."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from tests.properties.settings import base_seed, case_count
from tests.service.bank import bearer, served
from tests.service.served_process import PATIENCE
from tests.service.serving import Running

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
CASES = case_count(40, least=4)
SEED = base_seed()
NAMES = ("account", "transfer", "public_note", "reached", "note_count", "suspicious", "raise_alarm")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("bank")) as running:
        yield running


@pytest.fixture(scope="module")
def described(bank: Running) -> dict[str, Any]:
    found: dict[str, Any] = bank.request("GET", "/openapi.json")[1]
    return found


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            yield path, method, route


def test_every_route_is_described(described: dict[str, Any]) -> None:
    found = {(method.upper(), path) for path, method, _ in operations(described)}
    assert found >= {
        ("POST", "/transactions"),
        ("POST", "/what-if"),
        ("POST", "/realizations"),
        ("POST", "/query"),
        ("POST", "/session"),
        ("DELETE", "/session"),
        ("POST", "/subscriptions"),
        ("GET", "/subscriptions"),
        ("GET", "/views/{name}"),
        ("GET", "/views/{name}/changes"),
        ("GET", "/explanations/{view}"),
        ("GET", "/program"),
        ("GET", "/commits"),
        ("GET", "/constraints"),
        ("GET", "/rules"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
    }


def test_every_route_has_a_summary_its_errors_and_an_example(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    for path, method, route in operations(described):
        assert route["summary"], (path, method)
        errors = [code for code in route["responses"] if code.startswith("4")]
        assert errors, (path, method)
        for code in errors:
            schema = route["responses"][code]["content"]["application/json"]["schema"]
            assert schema["$ref"].endswith("/ErrorAnswer"), (path, method, code)
        if "requestBody" in route:
            assert "example" in str(route["requestBody"]) or "$ref" in str(route["requestBody"]), (path, method)
    assert schemas["Outcome"]["examples"]


def test_the_page_of_documentation_names_every_route(bank: Running, described: dict[str, Any]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
    for path, method, _ in operations(described):
        assert f"`{method.upper()} {path}" in text, (method, path)


# ---- as many requests as time allows --------------------------------------------------------------


def _about_relations(part: Any, chosen: random.Random) -> Any:
    """The part of a body with names of relations that there are, mostly."""
    if not isinstance(part, dict):
        return part
    return {chosen.choice(NAMES) if chosen.random() < 0.7 else name: rows for name, rows in part.items()}


@pytest.mark.slow
def test_no_request_that_fits_the_description_or_nearly_is_a_fault_of_the_server(bank: Running) -> None:
    url = f"http://127.0.0.1:{bank.port}/openapi.json"
    chosen = random.Random(SEED)
    for found in schemathesis.openapi.from_url(url).get_all_operations():
        operation = found.ok()
        if operation.path == "/metrics":
            continue

        @seed(SEED)
        @settings(
            max_examples=CASES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def holds(case: Any) -> None:
            for place in ("name", "view"):
                if place in (case.path_parameters or {}) and chosen.random() < 0.7:
                    case.path_parameters[place] = chosen.choice(NAMES)
            if isinstance(case.body, dict):
                case.body = {key: _about_relations(value, chosen) for key, value in case.body.items()}
            # A stream of events does not end by itself.
            accept = {"Accept": "application/json"} if case.operation.path.endswith("/changes") else {}
            response = case.call(headers={**bearer("everything"), **accept}, timeout=PATIENCE)
            case.validate_response(response, checks=CHECKS)

        holds()
    assert bank.request("GET", "/readyz")[0] == 200
    bank.database.verify()
