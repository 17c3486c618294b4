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
    "--disable-features=SpareRendererForSitePerProcess",  # a process for a page that might come is one too many here
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)
PATIENCE = 120.0
_TEXTS = """
return [...document.querySelectorAll(arguments[0])].map(each => each.getClientRects().length ? each.innerText : "");
"""
_FIND = """
const [css, words, how] = arguments;
const text = each => (each.innerText ?? each.textContent).replace(/[\\t\\u00a0]/g, " ");
const agrees = each => how === "equals" ? text(each).trim() === words : text(each).includes(words);
return [...document.querySelectorAll(css)].find(each => each.getClientRects().length && agrees(each)) ?? null;
"""


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
        self.wait(lambda: self._find(css, words, "includes"), f"`{words}` in `{css}`")

    def click(self, words: str, css: str = "button, a") -> None:
        def clicked() -> bool:
            found = self._find(css, words, "equals")
            if found is not None:
                found.click()
            return found is not None

        self.wait(clicked, f"something to click that says `{words}`")

    def texts(self, css: str) -> list[str]:
        """The words of each element, nothing of one that is not visible: one call, however many there are."""
        found: list[str] = self.driver.execute_script(_TEXTS, css)
        return [" ".join(each.split()) for each in found]

    def _find(self, css: str, words: str, how: str) -> WebElement | None:
        """The first visible element whose text includes, or equals, the words: one call, however many there are."""
        found: WebElement | None = self.driver.execute_script(_FIND, css, words, how)
        return found

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
