"""Check the built site: links inside lead to a page and a place on it, pictures are there, and every page leads back.

``python docs/check_links.py docs/_build/html``; `make docs` runs it after the build.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Where a page leads, what it loads, and which places on it can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag says."""
        said = {name: value for name, value in attrs if value}
        self.places |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if tag in ("img", "script", "source") and "src" in said:
            self.loads.append(said["src"])
        if tag == "link" and "href" in said and said.get("rel") in ("stylesheet", "icon"):
            self.loads.append(said["href"])


def read(path: Path) -> Page:
    """Read one page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def target(page: Path, address: str) -> tuple[Path, str] | None:
    """Return the file and the place on it that an address names; ``None`` for addresses elsewhere."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return path / "index.html" if path.is_dir() else path, unquote(parts.fragment)


def targets(path: Path, page: Page) -> dict[str, tuple[Path, str]]:
    """Return what each address of a page names inside the site."""
    found = {address: target(path, address) for address in page.links + page.loads}
    return {address: place for address, place in found.items() if place is not None}


def pages_of(root: Path) -> dict[Path, Page]:
    """Read every page of a site; the theme's folder of static files holds none."""
    return {path: read(path) for path in sorted(root.rglob("*.html")) if "_static" not in path.parts}


def faults(root: Path) -> list[str]:
    """List every link, picture and script of the site that leads nowhere, and pages that nothing leads to."""
    root = root.resolve()
    pages = pages_of(root)
    front = root / "index.html"
    found, reached = [], {front, root / "search.html"}  # a button of every page opens the search
    for path, page in pages.items():
        here = path.relative_to(root)
        places = targets(path, page)
        reached |= {file for file, _ in places.values() if file != path}
        for address, (file, anchor) in places.items():
            if not file.is_file():
                found.append(f"{here}: {address} is not there")
            elif anchor and file in pages and anchor not in pages[file].places:
                found.append(f"{here}: {address} names a place that is not on the page")
        if path != front and all(file != front for file, _ in places.values()):
            found.append(f"{here}: no way back to the front page")
    return found + [f"{path.relative_to(root)}: no page leads to it" for path in pages if path not in reached]


def main(folder: str) -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    root = Path(folder)
    if not (root / "index.html").is_file():
        print(f"{root}: there is no index.html: run make docs first.", file=sys.stderr)
        return 1
    wrong = faults(root)
    print("\n".join(wrong) if wrong else f"{len(pages_of(root))} pages: every link inside leads somewhere.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
