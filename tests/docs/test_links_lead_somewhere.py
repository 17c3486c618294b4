from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, anchors, links, markdown_files


@pytest.mark.parametrize("path", markdown_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_internal_link_resolves(path: Path) -> None:
    broken = []
    for link in links(path):
        target, _, anchor = link.partition("#")
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(link)
    assert broken == []


def test_every_page_of_the_documentation_can_be_reached_from_the_index() -> None:
    seen, waiting = set(), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = (link.partition("#")[0] for link in links(page) if not link.startswith("http"))
        waiting += [f for t in targets if t.endswith(".md") and (f := (page.parent / t).resolve()).exists()]
    lost = [str(p.relative_to(ROOT)) for p in markdown_files() if p.is_relative_to(ROOT / "docs") and p not in seen]
    assert lost == []
