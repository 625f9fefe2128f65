"""The page in a real browser: no error, from a file, by mouse and by keyboard, light and dark, wide and narrow."""

import numpy as np
import pytest

import tritium
from tests.insight import browser
from tests.insight import kernels as K

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    a = K.floats(128, 128, dtype=np.float16)
    found = tritium.explain(K.product, (2, 2), a, a, K.floats(128, 128), 128, 128, 128, 128, M=64, N=64, BK=32,
                            target="cuda:80")
    other = tritium.explain(K.product, (2, 2), a, a, K.floats(128, 128), 128, 128, 128, 128, M=64, N=64, BK=32,
                            target="cuda:80", num_stages=2)
    file = tmp_path_factory.mktemp("page") / "product.html"
    found.compared(other).html(file)
    return file


@pytest.fixture(scope="module")
def page(path):
    opened = browser.Page(path.as_uri())
    yield opened
    opened.close()


def said(page):
    return page.value("document.getElementById('said').textContent")


def test_pointing_at_a_program(page):
    page.point("#grid", 0.25, 0.25)
    assert said(page).startswith("program (0, 0, 0) loads") and "stores" in said(page) and "c_ptr" in said(page)
    page.point("#grid", 0.75, 0.75)
    assert said(page).startswith("program (1, 1, 0) ")


def test_pointing_at_an_element(page):
    page.point("#tensor2", 0.005, 0.01)
    assert said(page).startswith("c_ptr, elements from 0") and "stored by 1: (0, 0, 0)" in said(page)
    page.point("#tensor0", 0.5, 0.9)
    assert "loaded by 2 of the programs run: (1, 0, 0) (1, 1, 0)" in said(page)


def test_the_keyboard(page):
    page.value("document.activeElement.blur()")
    page.point("#tensor2", 0.5, 0.5)  # no program is chosen
    page.point("#said", 0.5, 0.5)
    page.value("document.getElementById('grid').focus()")
    assert said(page).startswith("program (0, 0, 0) ")
    page.key("ArrowRight", 39)
    assert said(page).startswith("program (1, 0, 0) ")
    page.key("ArrowDown", 40)
    assert said(page).startswith("program (1, 1, 0) ")
    page.key("ArrowRight", 39)
    assert said(page).startswith("program (1, 1, 0) ")  # it is the last
    page.value("document.getElementById('tensor1').focus()")
    page.key("ArrowDown", 40)
    assert said(page).startswith("b_ptr, elements from ")
    page.key("Tab", 9)
    assert page.value("document.activeElement.id") == "tensor2"


def test_stepping(page):
    for _ in range(4):
        page.point("#next", 0.5, 0.5, click=True)
    text = page.value("document.getElementById('stepsaid').textContent")
    line = page.value("document.querySelector('#source .src.on')?.dataset.line")
    assert " of " in text and f"line {line}" in text
    page.value("const s = document.getElementById('step'); s.value = 3; s.dispatchEvent(new Event('input'))")
    assert page.value("document.getElementById('stepsaid').textContent").startswith("4 of ")
    page.point("#play", 0.5, 0.5, click=True)
    page.wait("!document.getElementById('stepsaid').textContent.startsWith('4 of ')")
    page.point("#play", 0.5, 0.5, click=True)
    assert page.value("document.getElementById('play').textContent") == "Play"


def test_stages_light_up_together(page):
    names = page.value("[...document.querySelectorAll('#columns h3')].map(h => h.textContent)")
    assert names == ["python", "ttgir", "ptx"]
    page.value("document.querySelector('#columns .src[data-line]:nth-child(10)').click()")
    lit = page.value("[...document.querySelectorAll('#columns pre')].map(p => p.querySelectorAll('.on').length)")
    assert lit[0] == 1 and lit[1] >= 1
    page.value("document.getElementById('stage-llir').click()")
    assert page.value("document.querySelectorAll('#columns pre').length") == 4
    page.value("document.getElementById('stage-llir').click()")


def test_the_theme(page):
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.value(background)
    page.point("#theme", 0.5, 0.5, click=True)
    assert page.value(background) != light
    page.point("#theme", 0.5, 0.5, click=True)
    assert page.value(background) == light == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [390, 1440])
def test_dark_and_narrow(path, width):
    opened = browser.Page(path.as_uri(), width=width, dark=True)
    try:
        assert opened.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
        assert opened.value("document.documentElement.scrollWidth") <= width
        assert opened.errors == []
    finally:
        opened.close()


def test_no_errors(page):
    assert page.errors == [] and page.value("document.querySelectorAll('section').length") == 8


def test_a_large_page_is_light(tmp_path):
    """What makes a page open at once: few bytes, few nodes, nothing from elsewhere. Listings are drawn when they are
    looked at, so a kernel with thousands of lines adds no nodes before."""
    a = K.floats(512, 512, dtype=np.float16)
    found = tritium.explain(K.product, (4, 2), a, a, K.floats(512, 512), 512, 512, 512, 512, M=128, N=256, BK=64,
                            target="cuda:90a", num_warps=8)
    file = tmp_path / "large.html"
    assert len(found.html(file).encode()) < 2_000_000
    opened = browser.Page(file.as_uri())
    try:
        assert opened.value("performance.getEntriesByType('resource').length") == 0
        assert opened.value("document.getElementsByTagName('*').length") < 12_000
        assert opened.value("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") > 0
        assert opened.errors == []
    finally:
        opened.close()
