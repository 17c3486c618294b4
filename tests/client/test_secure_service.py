"""A service with TLS and tokens: what a client may see, and what it is told when it may not."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("uvicorn") is None:
    pytest.skip("needs the service: pip install '.[service]'", allow_module_level=True)

import upshot
from tests.service.served_process import ROOT, ServedProcess
from tests.service.serving import CLOSURE
from upshot.client import Client

WAIT = 120.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")]


class Secure:
    """Where the service is, the file that its certificate is trusted by, and tokens by name."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self._file = folder / "cert.pem", folder / "tokens.toml"
        self._key = folder / "key.pem"
        options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        options += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(self._key), "-out", str(self.certificate)]
        subprocess.run(["openssl", "req", *options], check=True, capture_output=True)
        self.tokens = {
            "reader": self.token("reader", "--read", "closure"),
            "loader": self.token("loader", "--read", "*", "--write", "edge"),
        }
        program = folder / "program.dl"
        program.write_text(CLOSURE)
        options = ["--tokens", str(self._file), "--tls-cert", str(self.certificate), "--tls-key", str(self._key)]
        self.process = ServedProcess(program, folder / "store", *options).start()
        self.url = f"https://127.0.0.1:{self.process.port}"

    def token(self, name: str, *scopes: str) -> str:
        command = [sys.executable, "-m", "upshot", "token", name, "--tokens", str(self._file), *scopes]
        made = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True)
        return made.stdout.strip()

    def revoke(self, name: str) -> None:
        kept = [f"[token.{part}" for part in self._file.read_text().split("[token.")[1:] if not part.startswith(name)]
        self._file.write_text("".join(kept))

    def client(self, name: str) -> Client:
        return Client(self.url, self.tokens[name], ca=self.certificate, retry_for=WAIT)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    found = Secure(tmp_path_factory.mktemp("secure"))
    found.client("loader").program()
    yield found
    found.process.kill()


def test_a_copy_is_kept_over_tls_with_a_token(secure: Secure) -> None:
    with secure.client("loader") as loader, secure.client("reader").follow("closure") as copy:
        done = loader.transaction(insert={"edge": [("a", "b"), ("b", "c")]})
        assert copy.wait(done.version, WAIT)
        assert copy.rows == set(loader.rows("closure"))


def test_what_a_token_may_not_read_or_change_is_refused(secure: Secure) -> None:
    with secure.client("reader") as reader:
        assert list(reader.program().relations) == ["closure"]
        for call in (lambda: reader.rows("edge"), lambda: reader.follow("edge"), lambda: reader.query("edge(X, Y)")):
            with pytest.raises(upshot.UsageError) as error:
                call()
            assert error.value.code == "not-found"
        with pytest.raises(upshot.UsageError) as error:
            reader.transaction(insert={"edge": [("x", "y")]})
        assert error.value.code == "forbidden"


def test_without_a_token_nothing_is_answered(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    for token in (None, "not-one-of-them"):
        with pytest.raises(upshot.UsageError) as error:
            Client(secure.url, token, ca=secure.certificate).rows("closure")
        assert error.value.code == "unauthorized"
        assert "not-one-of-them" not in str(error.value)


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(secure: Secure) -> None:
    with pytest.raises(upshot.EngineError) as error:
        Client(secure.url, secure.tokens["reader"]).rows("closure")
    assert error.value.code == "untrusted-certificate"


def test_follow_takes_its_token_from_the_environment(secure: Secure) -> None:
    arguments = ["follow", secure.url, "closure", "--once", "--ca", str(secure.certificate)]
    environment = {**ENVIRONMENT, "UPSHOT_TOKEN": secure.tokens["reader"]}
    ended = subprocess.run(
        [sys.executable, "-m", "upshot", *arguments], env=environment, capture_output=True, text=True, timeout=WAIT
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["snapshot"] is True


def test_a_token_that_is_taken_back_ends_the_copies_it_follows(secure: Secure) -> None:
    secure.tokens["guest"] = secure.token("guest", "--read", "closure")
    with secure.client("guest").follow("closure") as copy:
        secure.revoke("guest")
        with pytest.raises(upshot.UsageError) as error:
            copy.wait(copy.version + 1_000_000, WAIT)
        assert error.value.code == "unauthorized"
        assert not copy.is_open
    assert secure.client("reader").rows("closure").version
