"""Each page in each state fits its window, complains of nothing, and can be used by everybody."""

from __future__ import annotations

import pytest
from playwright.async_api import async_playwright

from tests.browser import chromium
from tests.pictures.states import MAY_COMPLAIN, STATES, VIEWS, opened, turn_to
from tests.server.test_staff_page import is_wider, problems


@pytest.mark.parametrize("name", STATES)
async def test_a_page_fits_its_window_and_axe_finds_nothing(name: str) -> None:
    """Wide and narrow, light and dark; the console is empty unless a request was made to fail."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        async with opened(browser, name) as page:
            for width, scheme in VIEWS:
                await turn_to(page, width, scheme)
                assert (await problems(page), await is_wider(page)) == ([], False), (width, scheme)
            if name not in MAY_COMPLAIN:
                messages = await page.console_messages()
                complaints += [m.text for m in messages if m.type == "error"]
            complaints += [str(error) for error in await page.page_errors()]
        await browser.close()
    assert complaints == []
