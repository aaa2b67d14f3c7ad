"""Take pictures of each page in each state: wide and narrow, light and dark.

    python scripts/screenshots.py FOLDER [STATE …]

Look at them after a change of a page. `tests/pictures/test_pictures.py` checks the same states.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from playwright.async_api import async_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.browser import chromium
from tests.pictures.states import STATES, VIEWS, opened, turn_to


async def take(folder: Path, names: list[str]) -> None:
    """Take the pictures of states."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        for name in names or STATES:
            async with opened(browser, name) as page:
                for width, scheme in VIEWS:
                    await turn_to(page, width, scheme)
                    path = folder / f"{name}-{width}-{scheme}.png"
                    await page.screenshot(path=path)
                    print(path)
        await browser.close()


if __name__ == "__main__":
    folder, *names = sys.argv[1:] or sys.exit(__doc__)
    asyncio.run(take(Path(folder), names))
