"""The Markdown files of the repository and what stands in them: fenced blocks, links, headings."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the word after the fence, its text, and the line it starts at."""

    language: str
    text: str
    line: int


def project_files() -> list[Path]:
    """The files that belong to the project: tracked ones, and new ones that no `.gitignore` line excludes."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in sorted(set(listed.split("\0"))) if name and (path := ROOT / name).is_file()]


def markdown_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md"]


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    return [Block(m.group(1), m.group(2), text.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(text)]


def prose(path: Path) -> str:
    """The text without its fenced blocks and inline code, where brackets mean something else."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", path.read_text()))


def links(path: Path) -> Iterator[str]:
    return (match.group(1) for match in _LINK.finditer(prose(path)))


def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", path.read_text())):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(words.strip().replace(" ", "-"))
    return found
