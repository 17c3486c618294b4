"""What this machine lacks for some of the suites. A test that needs it is skipped with the words returned here."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

_JAVA = 17


@functools.cache
def java_version() -> tuple[str, str]:
    """The Java that Spark would run on, and its version; empty where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return "", ""
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "([^"]+)', printed.stderr + printed.stdout)
    return java, version[1] if version else ""


def missing_for_spark() -> str:
    """The reason why Spark cannot run here; empty if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "needs pyspark 4.2: pip install '.[spark]'"
    java, version = java_version()
    if not java:
        return "needs Java 17 or newer: install one, or set JAVA_HOME"
    number = re.match(r"\d+", version)
    if number is None or int(number[0]) < _JAVA:
        return f"needs Java {_JAVA} or newer, and {java} is {version or 'not one'}"
    return ""


def missing_for_browser() -> str:
    """The reason why the page cannot be tested here; empty if it can."""
    for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)):
        if not any(map(shutil.which, names)):
            return f"needs {names[0]} (Debian: chromium chromium-driver)"
    return ""
