#!/usr/bin/env python3
"""Checks the built site in headless Chromium for content wider than its box, at the widths of a
desktop and a phone, and takes screenshots in light and dark.

In: the folder of the site, Chromium on PATH (Debian: chromium-headless-shell). Out: one line per
page and width at which something is cut, and exit code 1; with --shots FOLDER, PNGs of the checked
pages. Run by hand: `python tools/website/look.py`.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Full Chromium has no window narrower than 500; a phone has 390.
BROWSERS = {"chromium-headless-shell": 390, "chromium": 500, "google-chrome": 500}
_CHECK = """<script>window.addEventListener("load", () => {
  const cut = [];
  for (const box of document.querySelectorAll("article pre, article table, article p, body")) {
    const shown = !box.closest("details:not([open])") && box.clientWidth > 0;
    if (shown && box.scrollWidth > box.clientWidth + 2)
      cut.push(box.tagName + " " + (box.innerText || "").slice(0, 40).replace(/\\n/g, " "));
  }
  document.title = "CUT " + cut.length + " " + cut.slice(0, 3).join(" | ");
});</script>"""
_DARK = "<script>document.body.dataset.theme = 'dark';</script>"


def _found() -> str:
    found = next((name for name in BROWSERS if shutil.which(name)), None)
    if found is None:
        raise SystemExit("look: needs Chromium; apt-get install chromium-headless-shell")
    return found


def widths() -> tuple[int, int]:
    return 1400, BROWSERS[_found()]


def _browser(*words: str) -> str:
    command = [_found(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


def cut_at(page: pathlib.Path, width: int) -> str:
    """What does not fit; "" if everything does."""
    copy = page.with_name(f"_look_{page.name}")
    text = page.read_text(encoding="utf-8").replace("</head>", f"{_CHECK}</head>")
    copy.write_text(text, encoding="utf-8")
    try:
        made = _browser(f"--window-size={width},1000", "--dump-dom", f"file://{copy}")
    finally:
        copy.unlink()
    found = re.search(r"<title>CUT (\d+) (.*?)</title>", made, re.DOTALL)
    if found is None:
        return "did not load"
    return "" if found[1] == "0" else found[2]


def shoot(page: pathlib.Path, folder: pathlib.Path) -> None:
    """Takes screenshots in light and dark at both widths."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        copy = page.with_name(f"_look_{page.name}")
        text = page.read_text(encoding="utf-8")
        text = text.replace("</body>", f"{_DARK}</body>") if theme == "dark" else text
        copy.write_text(text, encoding="utf-8")
        for width in widths():
            out = folder / f"{page.stem}-{theme}-{width}.png"
            _browser(f"--window-size={width},1600", f"--screenshot={out}", f"file://{copy}")
        copy.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", help="default: every page but the sources'")
    parser.add_argument("--site", type=pathlib.Path, default=ROOT / "build" / "site")
    parser.add_argument("--shots", type=pathlib.Path)
    args = parser.parse_args()
    site = args.site.resolve()
    every = [p for p in sorted(site.rglob("*.html")) if p.relative_to(site).parts[0] != "source"]
    pages = [site / name for name in args.pages] or every
    wrong = 0
    for page in pages:
        for width in widths():
            if said := cut_at(page, width):
                wrong += 1
                print(f"{page.relative_to(site)} at {width}: {said}")
        if args.shots:
            shoot(page, args.shots)
    print(f"look: {len(pages)} pages at {len(widths())} widths, {wrong} with something cut")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
