"""A real browser for pages; tests that need one skip, with the reason, where there is none."""

import shutil

import pytest

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="package")
def browser():
    """Chromium, started once for the tests of this folder."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open HTML as a file; afterwards there must have been no error and no request but for it."""
    contexts, seen = [], []

    def opened(text, **options):
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(text, "utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: seen.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on(
            "dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.accept())
        )
        page.on("request", lambda request: seen.append(request.url))
        page.goto(path.as_uri())
        # The empty icon is part of the page.
        assert set(seen) <= {path.as_uri(), "data:,"}
        seen.clear()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert seen == []
