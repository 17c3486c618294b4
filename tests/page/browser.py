"""A real browser, without a window, and what a person does with it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)
PATIENCE = 120.0


class Browser:
    """One tab. What is looked for is waited for."""

    def __init__(self, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = next(
            filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
        )
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def go(self, address: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(address)

    def all(self, css: str) -> Sequence[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        return self.wait(lambda: (self.all(css) or [None])[0], f"`{css}`")

    def text(self, css: str) -> str:
        return self.wait(lambda: [each.text for each in self.all(css)] or None, f"`{css}`")[0]

    def shows(self, css: str, words: str) -> None:
        """Waits until the words stand there."""
        self.wait(lambda: any(words in each.text for each in self.all(css)), f"`{words}` in `{css}`")

    def click(self, words: str, css: str = "button, a") -> None:
        def clicked() -> bool:
            for each in self.all(css):
                if each.text.strip() == words:
                    each.click()
                    return True
            return False

        self.wait(clicked, f"something to click that says `{words}`")

    def keys(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def escape(self) -> None:
        self.keys(Keys.ESCAPE)

    def script(self, text: str) -> Any:
        return self.driver.execute_script(text)

    def wait(self, found: Callable[[], T | None], what: str) -> T:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                if answer := found():
                    return answer
            except StaleElementReferenceException:
                pass
            time.sleep(0.05)
        raise AssertionError(
            f"{what} did not appear; the page says:\n{self.driver.find_element(By.TAG_NAME, 'body').text}"
        )

    def picture(self, name: str) -> None:
        """Kept where `UPSHOT_SCREENSHOTS` says, for people to look at."""
        if folder := os.environ.get("UPSHOT_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))

    def complaints(self) -> list[str]:
        """What the browser's console says is wrong, since the last time it was asked."""
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]

    def close(self) -> None:
        self.driver.quit()
