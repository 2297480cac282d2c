"""Every page in a real browser: charts are drawn, controls work, nothing complains.

Needs Chromium with its driver (on Debian: apt-get install chromium chromium-driver) and selenium; skipped without.
"""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest

from ebu.experiments.explain_data import scenes
from ebu.report.explain import build_explainer
from ebu.report.page import build_page
from tests.experiments.pages import COMPUTED, ITEMS, SCORES, TRAINED, built
from tests.report.folders import write_maze_run, write_run
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.xdist_group("pages")  # which are built once for all tests of a process
PHONE, DESK = (390, 844), (1280, 900)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no browser: on Debian, apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    browser.set_script_timeout(PATIENCE)
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Three methods on Acrobot, mazes, an adaptive run, one still going with a torn line, Atari and the paper's table."""
    runs, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    for algo, seed in itertools.product(("ebu", "dqn", "n-step"), range(3)):
        write_run(runs / f"{algo}-{seed}", algo, "Acrobot-v1", scores=rng.uniform(1, 9, 12).tolist(), seed=seed)
    for seed in range(2):
        chosen = rng.choice([0.0, 0.5, 1.0], 8).tolist()
        syncs = [{"kind": "sync", "step": 103 + 100 * i, "learner": 0, "beta": beta} for i, beta in enumerate(chosen)]
        write_run(runs / f"adaptive-{seed}", "adaptive-ebu", "Acrobot-v1", [5.0] * 8, rows=syncs, sync_interval=100, seed=seed)
        write_maze_run(runs / f"maze-{seed}", lengths=(50, 20, 1), seed=seed)
        write_run(runs / f"pong-{seed}", env="ALE/Pong-v5", scores=(-20.0, 3.0), seed=seed)
    going = write_run(runs / "going", "retrace", "Acrobot-v1", scores=(1.0, 3.0, 8.0), finished=False, steps=1_000)
    with (going / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "eval", "st')
    return build_page([runs], runs / "page.html", "Browser test", paper=True)


@pytest.fixture(scope="module")
def explainer(tmp_path_factory):
    return build_explainer(tmp_path_factory.mktemp("explain") / "explain.html", scenes())


class Page:
    """A page in the browser, at a size and by day or night."""

    def __init__(self, browser, path, size=DESK, night=False):
        self.browser = browser
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if night else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get_log("browser")  # what earlier pages said
        browser.get(path.as_uri())

    def js(self, code, *arguments):
        return self.browser.execute_script(f"return {code}", *arguments)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def click(self, selector):
        element = self.one(selector)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def slide(self, selector, value):
        code = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
        self.browser.execute_script(code, self.one(selector), value)

    def complaints(self):
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.mark.parametrize("size", [DESK, PHONE])
@pytest.mark.parametrize("night", [False, True])
def test_every_chart_of_the_report_is_drawn(browser, report, size, night):
    page = Page(browser, report, size, night)
    for panel in ("curves", "lengths", "beta", "overestimation"):
        drawn = page.js(f"[...document.querySelectorAll('#{panel} path.line')].map((p) => p.getTotalLength())")
        assert drawn and min(drawn) > 10, panel
    assert len(page.all("#curves figure")) == 3 and page.all("#curves path.band")
    assert len(page.all("#games .bar")) == 1
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")  # nothing sticks out sideways
    assert page.js("getComputedStyle(document.body).backgroundColor") == ("rgb(15, 18, 22)" if night else "rgb(246, 247, 249)")
    assert page.complaints() == []


def test_methods_can_be_hidden_with_the_keyboard(browser, report):
    page = Page(browser, report)
    before = len(page.all("#curves path.line"))
    button = page.one("#curves .legend button")
    assert button.get_attribute("aria-pressed") == "true"
    button.send_keys(" ")
    assert button.get_attribute("aria-pressed") == "false"
    assert len(page.all("#curves path.line")) < before
    button.send_keys(" ")
    assert len(page.all("#curves path.line")) == before


def test_switches_and_views_change_the_charts(browser, report):
    page = Page(browser, report)
    boxes = {box.text: box for box in page.all("#curves label.switch")}
    boxes["95 % interval"].click()
    assert not page.all("#curves path.band")
    boxes["single runs"].click()
    assert page.all("#curves path.single")
    assert "(log)" not in page.one("#curves figure").text
    boxes["log scale"].click()
    assert "(log)" in page.one("#curves figure").text
    before = page.one("#curves path.line").get_attribute("d")
    page.browser.execute_script("document.querySelector('#curves input[value=best]').click()")
    assert page.one("#curves path.line").get_attribute("d") != before
    assert page.complaints() == []


def test_values_are_read_by_pointer_and_by_arrow_keys(browser, report):
    page = Page(browser, report)
    plot = page.one("#curves .plot")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    pytest.importorskip("selenium.webdriver").ActionChains(browser).move_to_element(plot).perform()
    tip = page.one("#curves .tip")
    assert tip.is_displayed() and "EBU" in tip.text and "3 runs" in tip.text and " to " in tip.text
    plot.send_keys("\ue012")  # the left arrow
    assert "agent steps" in page.one("#spoken").get_attribute("textContent")
    plot.send_keys("\ue00c")  # Escape
    assert not tip.is_displayed()


@pytest.mark.parametrize("size", [DESK, PHONE])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_what_is_read_stays_inside_the_window(browser, report, size, share):
    page = Page(browser, report, size)
    for plot in page.all("#curves .plot"):
        page.browser.execute_script("arguments[0].scrollIntoView({block: 'end'})", plot)
        code = (
            "(() => { const [plot, share] = arguments, box = plot.getBoundingClientRect();"
            "const x = box.left + share * box.width, y = box.top + box.height / 2;"
            "plot.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y }));"
            "const tip = plot.querySelector('.tip').getBoundingClientRect();"
            "return [tip.width, tip.left, tip.top, innerWidth - tip.right, innerHeight - tip.bottom]; })()"
        )
        wide, *room = page.js(code, plot, share)
        assert wide > 50 and min(room) >= 0


def test_dragging_and_keys_zoom_and_a_double_click_shows_the_whole(browser, report):
    page = Page(browser, report)
    chains = pytest.importorskip("selenium.webdriver").ActionChains(browser)
    plot = page.one("#curves .plot")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    whole = page.one("#curves path.line").get_attribute("d")
    chains.move_to_element(plot).click_and_hold().move_by_offset(120, 0).release().perform()
    zoomed = page.one("#curves path.line").get_attribute("d")
    assert zoomed.count("L") < whole.count("L")
    chains.reset_actions()
    chains.double_click(plot).perform()
    assert page.one("#curves path.line").get_attribute("d") == whole
    plot.send_keys("+")
    assert page.one("#curves path.line").get_attribute("d") != whole
    plot.send_keys("0")
    assert page.one("#curves path.line").get_attribute("d") == whole
    assert page.complaints() == []


def test_smoothing_flattens_a_line(browser, report):
    page = Page(browser, report)
    length = "document.querySelector('#curves path.line').getTotalLength()"
    rough = page.js(length)
    page.slide("#curves label.slider input", 0.9)
    assert page.js(length) < rough
    assert page.complaints() == []


def test_scores_below_zero_have_no_logarithm(browser, report):
    page = Page(browser, report)
    next(box for box in page.all("#curves label.switch") if box.text == "log scale").click()
    titles = {figure.text.split("\n")[0]: "(log)" in figure.text for figure in page.all("#curves figure")}
    assert titles["ALE/Pong-v5"] is False and titles["Acrobot-v1"] is True  # Pong begins at −20
    assert page.complaints() == []


def test_a_watched_page_loads_itself_again_and_keeps_what_was_chosen(browser, tmp_path):
    run = write_run(tmp_path / "runs/one", scores=(1.0, 3.0, 2.0), finished=False, steps=1_000)
    write_run(tmp_path / "runs/two", "dqn", scores=(1.0, 2.0, 2.5))
    path = build_page([tmp_path / "runs"], tmp_path / "page.html", "First", reload_seconds=1)
    page = Page(browser, path)
    button = "document.querySelector('#curves .legend button')"
    # In one script: a key that is pressed before the page loads itself again and released after it would be lost.
    wait_for(lambda: page.js(f"({button}?.click(), {button}?.ariaPressed === 'false')"), "the button to be there")
    build_page([tmp_path / "runs"], tmp_path / "page.html", "Second", reload_seconds=600)
    wait_for(lambda: page.js("document.querySelector('h1').textContent") == "Second", "the page to load itself again")
    wait_for(lambda: page.js(f"{button}?.ariaPressed === 'false'"), "the choice to be back")
    assert run.exists() and page.complaints() == []


def test_a_finger_reads_values_that_stay_when_it_is_lifted(browser, report):
    page = Page(browser, report, PHONE)
    plot = page.one("#curves .plot")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    box = page.js("arguments[0].getBoundingClientRect().toJSON()", plot)
    middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    for kind, points in (("touchStart", [middle]), ("touchEnd", [])):
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert page.one("#curves .tip").is_displayed()
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Nine methods on five tasks, and a tenth with a long name on one of them only."""
    runs, rng = tmp_path_factory.mktemp("crowded"), np.random.default_rng(0)
    for place, beta in itertools.product(range(5), range(1, 10)):
        scores = rng.uniform(100, 900, 8).tolist()
        write_run(runs / f"{beta}-{place}", env=f"SomeWorldWithAVeryLongName{place}-v1", scores=scores, beta=beta / 10)
    write_run(
        runs / "more",
        env="SomeWorldWithAVeryLongName0-v1",
        beta=0.5,
        gamma=0.997,
        layer_norm=True,
        max_grad_norm=10.0,
        tau=0.5,
    )
    return build_page([runs], runs / "page.html")


def test_lines_are_named_in_all_charts_of_a_panel(browser, crowded):
    page = Page(browser, crowded)
    names = "[...figure.querySelectorAll('text.end')].map((text) => text.textContent)"
    found = page.js(f"[...document.querySelectorAll('#curves figure')].map((figure) => {names})")
    assert [len(names) for names in found] == [10, 9, 9, 9, 9]
    assert "EBU β=0.5 γ=0.997,settings A" in found[0]  # in two rows, not cut
    assert not any("…" in name for names in found for name in names)
    inside = page.js(
        "[...document.querySelectorAll('#curves text.end')].every((t) => { const b = t.getBoundingClientRect(), "
        "p = t.closest('.plot').getBoundingClientRect(); return b.right <= p.right + 1 && b.top >= p.top - 8; })"
    )
    assert inside and page.complaints() == []


def test_returns_have_the_dashes_of_their_method_and_are_thin(browser, crowded):
    page = Page(browser, crowded)
    code = (
        "[...document.querySelector('#overestimation figure').querySelectorAll('path.line')].map((p) => "
        "[p.getAttribute('stroke'), p.getAttribute('stroke-dasharray'), parseFloat(getComputedStyle(p).strokeWidth)])"
    )
    found = page.js(code)
    thick = [line[:2] for line in found if line[2] > 2]
    thin = [line[:2] for line in found if line[2] <= 1]
    assert len(thick) == len(thin) == 10 and sorted(map(str, thick)) == sorted(map(str, thin))


def test_marks_are_named_in_front_of_the_curves(browser, report):
    page = Page(browser, report)
    chart = "document.querySelector('#lengths .plot > svg')"
    found = page.js(f"[...{chart}.querySelectorAll('path.line, text.name')].map((element) => element.tagName)")
    assert "path" in found and found[-1] == "text"


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_wide_tables_keep_their_first_column_and_their_caption(browser, crowded, size):
    """Scrolled to the right, each row is still named, the caption stands in the window, and the last column can be read."""
    page = Page(browser, crowded, size)
    box = "document.querySelector('#results .scroll')"
    page.browser.execute_script(f"{box}.scrollLeft = 1e6")
    left, right = page.js(f"(() => {{ const b = {box}.getBoundingClientRect(); return [b.left, b.right]; }})()")
    edges = "((e) => { const b = e.getBoundingClientRect(); return [b.left, b.right]; })"
    caption = page.js(f"{edges}({box}.querySelector('caption'))")
    assert left - 1 <= caption[0] and caption[1] <= right + 1
    assert abs(page.js(f"{edges}({box}.querySelector('tbody th'))")[0] - left) <= 1
    assert page.js(f"{edges}({box}.querySelector('tbody tr').lastElementChild)")[1] <= right + 1
    assert "local" in page.js(f"getComputedStyle({box}).backgroundAttachment")  # the shadow that hints at more
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")


def test_results_fit_on_a_desk(browser, report, crowded):
    """Ten methods side by side; and a method's row with its path, its chance to beat DQN and the states of its runs."""
    for path in (report, crowded):
        page = Page(browser, path, (1200, 900))
        code = "((box) => box.scrollWidth - box.clientWidth)(document.querySelector('#results table').parentElement)"
        assert page.js(code) <= 1


def test_games_can_be_chosen(browser, report):
    page = Page(browser, report)
    code = "const s = arguments[0]; s.selectedIndex = s.options.length - 1; s.dispatchEvent(new Event('change'))"
    browser.execute_script(code, page.one("#games select"))
    assert len(page.all("#games .bar")) == 49 and "29 of 49" in page.one("#games").text


def test_every_picture_and_chart_has_words(browser, report):
    page = Page(browser, report)
    assert page.js("[...document.images].every((image) => image.alt.length > 10 && image.naturalWidth > 0)")
    assert page.js("[...document.querySelectorAll('.plot[role=img]')].every((plot) => plot.ariaLabel.includes('ends at'))")


@pytest.mark.parametrize("size", [DESK, PHONE])
@pytest.mark.parametrize("night", [False, True])
def test_the_explainer_steps_through_an_episode(browser, explainer, size, night):
    page = Page(browser, explainer, size, night)
    assert len(page.all(".world svg")) == 4 and page.all("#reach path.line")
    for _ in range(5):
        page.click("#step")
    assert page.one("[data-method=ebu] .reached").text.endswith("5 of 5 steps")
    assert page.one("[data-method=one_step] .reached").text.endswith("1 of 5 steps")
    assert "0.656" in page.one("#now").text and not page.one("#step").is_enabled()
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.complaints() == []


def test_the_slider_changes_the_targets(browser, explainer):
    page = Page(browser, explainer)
    page.slide("#position", 5)
    rows = "[...document.querySelectorAll('#sheet tr')]"
    first_target = rows + ".find((row) => row.innerText.startsWith('EBU')).cells[1].innerText"
    found = {}
    for place, beta in ((0, "0.00"), (10, "0.50"), (20, "1.00")):
        page.slide("#beta", place)
        assert page.one("#beta-value").text == beta
        found[beta] = page.js(first_target)
    assert found == {"0.00": "0", "0.50": "0.041", "1.00": "0.656"}  # 0, (βγ)⁴, γ⁴


def test_playing_moves_on_its_own_and_pauses(browser, explainer):
    page = Page(browser, explainer)
    page.browser.execute_script("document.querySelector('input[value=maze]').click()")
    page.click("#play")
    assert page.one("#play").text == "Pause"
    # The page itself looks and clicks: on a busy machine the driver may come when the episode is over.
    stopped = browser.execute_async_script("""
        const done = arguments[0], position = document.querySelector("#position"), play = document.querySelector("#play");
        const clock = setInterval(() => {
            if (+position.value < 2) return;
            clearInterval(clock);
            play.click();
            done(+position.value);
        }, 10);
    """)
    assert page.one("#play").text == "Play" and 2 <= stopped < 17


def test_further_updates_carry_one_step_learning_on(browser, explainer):
    page = Page(browser, explainer)
    page.slide("#position", 5)
    page.click("#play")  # by now it says: next update
    page.click("#play")
    assert page.one("#update-value").text == "2 of 15"
    page.slide("#position", 5)
    assert page.one("[data-method=one_step] .reached").text.endswith("3 of 5 steps")


@pytest.mark.parametrize("number", range(5))
def test_every_suggestion_shows_something(browser, explainer, number):
    page = Page(browser, explainer)
    page.browser.execute_script("document.querySelectorAll('[data-try]')[arguments[0]].click()", number)
    words = page.one("#now").text
    assert ("rates another action higher" in words) == (number >= 3)
    assert page.one("[data-method=ebu] .reached").text and page.complaints() == []


# ---------------------------------------------------------------------- the pages of the paper's items


@pytest.mark.parametrize("item", ITEMS)
def test_the_page_of_an_item_shows_its_picture_and_tables(browser, item):
    """By day on a desk and by night on a phone: nothing sticks out, nothing complains, what can be scrolled is."""
    for size, night in ((DESK, False), (PHONE, True)):
        page = Page(browser, built(item)[1] / f"{item}.html", size, night)
        assert page.js("[...document.images].every((image) => image.alt.length > 30 && image.naturalWidth > 500)")
        assert page.all("#table tbody tr") and page.all("#again code")
        assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.complaints() == []


@pytest.mark.parametrize("item", TRAINED)
def test_the_curves_of_an_item_are_drawn_and_can_be_hidden(browser, item):
    page = Page(browser, built(item)[1] / f"{item}.html")
    panels = ["curves", "lengths"] if item in ("figure2", "table1") else ["curves", "overestimation"]
    panels += ["beta"] * (item in ("figure6", "appendix-c"))
    for panel in panels:
        drawn = page.js(f"[...document.querySelectorAll('#{panel} path.line')].map((p) => p.getTotalLength())")
        assert drawn and min(drawn) > 10, panel
    before = len(page.all("#curves path.line"))
    page.click("#curves .legend button")
    assert len(page.all("#curves path.line")) < before
    if item in ("figure5", "figure6", "appendix-c"):
        assert "Nature DQN, 200M frames" in page.one("#curves").text
    assert page.complaints() == []


def test_deviations_between_seeds_can_be_hidden(browser):
    page = Page(browser, built("figure6")[1] / "figure6.html")
    box = next(box for box in page.all("#curves label.switch") if box.text == "± SD")
    assert page.all("#curves path.band")
    box.click()
    assert not page.all("#curves path.band")


@pytest.mark.parametrize("item", SCORES)
def test_bars_by_game_are_drawn_and_can_be_unsqueezed(browser, item):
    page = Page(browser, built(item)[1] / f"{item}.html")
    bars = "[...document.querySelectorAll('#games .bar')].map((bar) => Number(bar.getAttribute('width')))"
    squeezed = page.js(bars)
    assert len(squeezed) == 49 and min(squeezed) > 0
    page.click("#games label.switch")
    assert page.js(bars) != squeezed


def test_the_axis_of_runs_with_one_evaluation_begins_at_zero(browser, tmp_path):
    write_run(tmp_path / "short", scores=(1.0,))
    page = Page(browser, build_page([tmp_path], tmp_path / "page.html", "One evaluation"))
    steps = page.js("[...document.querySelectorAll('#curves figure text')].map((text) => text.textContent)")
    steps = steps[: steps.index("agent steps")]
    assert "100" in steps and "0" in steps and "101" not in steps and len(set(steps)) == len(steps)


def test_pages_without_runs_have_no_empty_charts(browser):
    for item in COMPUTED:
        page = Page(browser, built(item)[1] / f"{item}.html")
        assert not page.all("[data-panel]")
