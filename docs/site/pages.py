"""Hook of mkdocs: the pages of the whole repository, with the table of contents of `docs/index.md`.

Pages outside `docs/` (the README, the architecture, the READMEs of examples) are part of the site under `repository/`.
Links between pages are written for the repository; here they are turned into links of the site. A link to a file that
is no page becomes plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_OUTSIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "bench", "examples")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation of the sections and links of `docs/index.md`."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    parts = _HEADING.split(text)
    nav: list[Any] = [{"Home": "index.md"}]
    for title, section in zip(parts[1::2], parts[2::2], strict=True):
        pages = [
            {label[:1].upper() + label[1:]: _site_path(_target("docs/index.md", link.partition("#")[0]))}
            for _, label, link in _LINK.findall(section)
            if link.endswith(".md")
        ]
        nav.append({title: pages})
    config.nav = nav
    config.mdx_configs.setdefault("toc", {})["slugify"] = _anchor
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside `docs/`."""
    for path in _pages_outside():
        files.append(File.generated(config, _site_path(path), content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of a page into links of the site; code stays as it is."""
    here = page.file.src_uri
    source = here.removeprefix("repository/") if here.startswith("repository/") else f"docs/{here}"
    parts = _FENCE.split(markdown)
    # Every second fence closes one: the text outside of code is the parts 0, 4, 8, …
    return "".join(
        _LINK.sub(lambda match: _link(match, source, here), part) if i % 4 == 0 else part
        for i, part in enumerate(parts)
    )


def _link(match: re.Match[str], source: str, here: str) -> str:
    mark, label, link = match.groups()
    target, hash_, anchor = link.partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return match[0]
    path = _target(source, target)
    if path.startswith("docs/") or path in _pages_outside():
        relative = os.path.relpath(_site_path(path), PurePosixPath(here).parent)
        return f"{mark}[{label}]({relative}{hash_}{anchor})"
    return label


def _anchor(heading: str, separator: str) -> str:
    """The anchor of a heading as the repository's own pages link to it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def _target(source: str, link: str) -> str:
    return os.path.normpath(PurePosixPath(source).parent / link)


def _site_path(path: str) -> str:
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def _pages_outside() -> list[str]:
    found = [
        file for name in _OUTSIDE for file in ((ROOT / name).rglob("*.md") if (ROOT / name).is_dir() else [ROOT / name])
    ]
    return sorted(str(file.relative_to(ROOT)) for file in found if file.suffix == ".md")
