"""What every suite shares: Hypothesis draws as many examples as the run asks for, from the run's seed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.properties.settings import base_seed, case_count
from tests.spark_jvm import jvm_options, spark_home

pytest_plugins = ("tests.cluster.fixtures",)

# Deadlines, and how soon an example is drawn, measure the machine, not the code; a failing example is printed as a call
# that can be pasted into a test.
settings.register_profile(
    "upshot",
    deadline=None,
    max_examples=case_count(10, least=20),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("upshot")

# Read by every driver that a test starts, in this process or below it, and by the script that starts the driver.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, jvm_options())
if _home := spark_home():
    os.environ.setdefault("SPARK_HOME", str(_home))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--storage",
        choices=("hdfs", "s3", "unshared"),
        help="run the tests of tests/spark on a cluster whose machines share nothing but this storage; `unshared`: not "
        "even that, and a test that ends with the error for it is skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(base_seed())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Spark are slow, a handful marked `smoke` excepted: `make check` starts one session for those."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.slow)


def pytest_report_header() -> str:
    return f"UPSHOT_CASES={case_count()} UPSHOT_SEED={base_seed()}"


@pytest.fixture(scope="session")
def cases() -> int:
    """How many random cases a property test should try in all."""
    return case_count()


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run; a test that draws at random derives all its randomness from it and prints it on failure."""
    return base_seed()


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return Path(__file__).resolve().parent.parent
