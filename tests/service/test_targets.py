"""Where webhooks may go: the public internet, by https, to hosts that were allowed; looked at after name resolution."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from typing import Any

import pytest

from upshot.service.webhooks.targets import MOST_LOOKUPS, RefusedTarget, TargetRules, WebhookTarget, is_public

RULES = TargetRules(("hooks.example.org", "*.example.net", "93.184.216.34", "127.0.0.1", "[::1]"))


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org/upshot",
        "https://HOOKS.example.org./",
        "https://hooks.example.org:8443/a?b=c",
        "https://a.b.example.net",
        "https://93.184.216.34/",
    ],
)
def test_https_to_an_allowed_host_is_a_target(url: str) -> None:
    assert RULES.target(url).scheme == "https"


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/",
        "ftp://hooks.example.org/",
        "file:///etc/passwd",
        "https://example.net/",
        "https://badexample.net/",
        "https://hooks.example.org.evil.org/",
        "https://evil.org/hooks.example.org",
        "https://user@hooks.example.org/",
        "https://hooks.example.org:pass@evil.org/",
        "https://evil.org\\@hooks.example.org/",
        "https://hooks.example.org/\r\nX-Evil: 1",
        "https://hooks.example.org/a b",
        "https://hooks.example.org:99999/",
        "https://[::1",
        "https:///path",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "",
        "https://hooks.example.org/" + "x" * 3000,
        "https://hooks.example.ørg/",
        "https://hooks.example.org:0/",
        "https://hooks.example.org:-1/",
        "https://@hooks.example.org/",
        "https://hooks.example.org%2eevil.org/",
        "https://evil.org%23.example.net/",
        "https://evil.org%00.example.net/",
        "https://.example.net/",
        "https://-.example.net/",
        "https://127.0.0.1%25.example.net/",
        "https://[fe80::1%25eth0]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::1%251]/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://0/",
    ],
)
def test_everything_else_is_refused(url: str) -> None:
    with pytest.raises(RefusedTarget) as refused:
        RULES.target(url)
    assert refused.value.code == "webhook-target"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fe80::1", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "ff0e::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "64:ff9b:1::808:808",
        "64:ff9b:1:7f00:1::808:808", "2002:7f00:1::", "2002:a9fe:a9fe::1",
        "2001:0:7f00:1::f5ff:fffe",
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_the_public_internet_are_refused(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(RefusedTarget):
        RULES.check([ipaddress.ip_address("93.184.216.34"), ipaddress.ip_address(address)])


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_of_the_public_internet_are_not(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
    RULES.check([ipaddress.ip_address(address)])


def test_insecure_admits_http_and_private_addresses_of_allowed_hosts_only() -> None:
    rules = TargetRules(("127.0.0.1", "inside.example.org"), insecure=True)
    assert rules.target("http://127.0.0.1:9000/x") == WebhookTarget("http", "127.0.0.1", 9000, "/x")
    rules.check([ipaddress.ip_address("10.0.0.1")])
    with pytest.raises(RefusedTarget):
        rules.target("http://127.0.0.2:9000/")
    for nobody in ("0.0.0.0", "224.0.0.1", "::", "::ffff:0.0.0.0"):
        with pytest.raises(RefusedTarget):
            rules.check([ipaddress.ip_address(nobody)])


def test_a_name_that_resolves_to_loopback_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a public address beside it, in another form, or by a name that changes its mind."""
    private = [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "fd00::1",
    ]
    answers = iter([["93.184.216.34"], *(["93.184.216.34", each] for each in private), *([each] for each in private)])

    def resolved(host: str, port: object, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(answers)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    target = RULES.target("https://hooks.example.org/")
    assert asyncio.run(RULES.addresses(target)) == [ipaddress.ip_address("93.184.216.34")]
    for _ in range(2 * len(private)):
        with pytest.raises(RefusedTarget):
            asyncio.run(RULES.addresses(target))


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f000001", "0x7f.1", "127.1", "0", "017700000001"])
def test_numbers_that_a_resolver_takes_for_loopback_are_refused_when_they_are_resolved(host: str) -> None:
    """Even if somebody allowed them by that name. No name server is asked for these."""
    rules = TargetRules((host,))
    target = rules.target(f"https://{host}/")
    with pytest.raises((RefusedTarget, ConnectionError)):
        asyncio.run(rules.addresses(target))


def test_names_that_hang_are_resolved_once_and_hold_up_no_other_name_or_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, asked = threading.Event(), []

    def resolved(host: str, port: object, **_: Any) -> list[Any]:
        asked.append(host)
        if host.startswith("slow"):
            release.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)

    async def attack() -> None:
        slow = [RULES.target(f"https://slow{n % MOST_LOOKUPS}.example.net/") for n in range(3 * MOST_LOOKUPS)]
        waiting = [asyncio.create_task(RULES.addresses(target)) for target in slow]
        await asyncio.sleep(0)
        with pytest.raises(ConnectionError, match="being resolved already"):
            await RULES.addresses(RULES.target("https://hooks.example.org/"))
        # Whatever else the service does on threads goes on, for one the writing of cursors.
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 30) == 7
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(RULES.addresses(slow[0]), 0.05)
        release.set()
        for found in await asyncio.gather(*waiting):
            assert found == [ipaddress.ip_address("93.184.216.34")]
        assert await RULES.addresses(RULES.target("https://hooks.example.org/"))

    asyncio.run(attack())
    assert sorted(asked) == sorted([f"slow{n}.example.net" for n in range(MOST_LOOKUPS)] + ["hooks.example.org"])
