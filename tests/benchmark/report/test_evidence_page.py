"""What the page of a run promises: one file, nothing that runs, whatever is in it."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from results import EMPTY, FAILED, HOSTILE, OLD, ONE_ELEMENT, result_of

from ipufeed.benchmark.report import pictures
from ipufeed.benchmark.report.page import NARROW, WIDE, page, value_of
from ipufeed.render.svg import Axes

VOID = {"meta", "br", "img", "link", "hr", "input"}
WEIGHT = 500_000
PICTURES = {
    name: getattr(pictures, f"{name}_picture")
    for name in ("rate", "waits", "depth", "histogram", "stage", "au")
}


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails where tags are not balanced."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def check(text):
    """What is true of every page."""
    found = Page(text)
    names = {tag for tag, _ in found.tags}
    assert names.isdisjoint(
        {"script", "iframe", "object", "img", "link", "base", "form"}
    )
    for _, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert "style" not in attributes  # the policy would not let it count
        assert not {"src", "href", "xlink:href"} & set(attributes)
    # The one address is the name of SVG, which is never looked up.
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace(
        "http-equiv", ""
    )
    assert "url(" not in text
    assert len(text.encode()) < WEIGHT
    return found


@pytest.mark.parametrize(
    "result",
    [result_of(), EMPTY, ONE_ELEMENT, FAILED, OLD, {"schema_version": 1}],
    ids=["whole", "empty", "one element", "failed", "old", "hardly anything"],
)
def test_a_page_is_well_formed_and_stands_alone(result):
    """Of results of any age, complete or not."""
    check(page(result))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_name_is_text_wherever_it_stands(name):
    """It opens no element, fills in no template, and does not turn the text around."""
    text = page(
        result_of(name=name, error={"type": name, "message": name, "element": 1})
    )

    check(text)
    assert "\u202e" not in text
    assert "\u2066" not in text
    assert "\x00" not in text
    assert "<script" not in text


def test_a_name_that_can_be_shown_is_shown():
    """Emoji of several parts and letters with accents stay whole; markup is visible."""
    text = html.unescape(page(result_of(name=HOSTILE["emoji"] + "<b>")))

    assert HOSTILE["emoji"] + "<b>" in text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_pictures_are_xml_whatever_is_in_them(name, width):
    """Each of them stands alone as a file, too."""
    result = result_of(name=name)

    for picture in PICTURES.values():
        root = ElementTree.fromstring(picture(result, width))
        tags = {each.tag.rpartition("}")[2] for each in root.iter()}
        assert tags <= {
            "svg",
            "g",
            "title",
            "rect",
            "path",
            "line",
            "text",
            "polyline",
            "circle",
        }


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_no_part_of_a_picture_is_outside_of_it(width):
    """Neither a line nor, by the width of its letters, a word."""
    result = result_of(seconds=7300.0, rate=3.0, name="a name of thirty-one characters")

    for name, picture in PICTURES.items():
        root = ElementTree.fromstring(picture(result, width))
        height = float(root.get("height"))
        for each in root.iter():
            for attribute, most in (("x", width), ("x1", width), ("x2", width)):
                assert -0.5 <= float(each.get(attribute, 0)) <= most, (
                    name,
                    each.attrib,
                )
            for attribute in ("y", "y1", "y2", "cy"):
                assert 0 <= float(each.get(attribute, 0)) <= height
            if each.tag.endswith("text"):
                x, wide = float(each.get("x")), 6.5 * len(each.text or "")
                anchor = each.get("text-anchor")
                left = x - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
                assert left >= -1, (name, each.text)
                assert left + wide <= width + 1, (name, each.text)


@pytest.mark.parametrize("value", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_the_word_at_a_line_is_not_cut_off(value):
    """Left of it, right of it, or on it; wherever it stands, its unit is there."""
    axes = Axes("a picture", NARROW, 100, (0.0, 1.0), (0.0, 1.0))

    text = "an element every 25.1 ms"
    axes.upright(value, text)

    x, anchor = re.findall(
        r'<text x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)">an el', axes.svg()
    )[0]
    left = float(x) - (6.5 * len(text) if anchor == "end" else 0)
    assert left >= 0
    assert left + 6.5 * len(text) <= NARROW


@pytest.mark.parametrize("pixels", [10, 90, 97, 110, 200])
def test_the_word_at_a_line_keeps_away_from_the_axis(pixels):
    """Where there is hardly room left of its line it stands right of it."""
    axes = Axes("a picture", WIDE, 100, (0.0, 1.0), (0.0, 1.0))
    text = "p50 8.03 ms"
    value = pixels / (axes.right - axes.left)
    axes.upright(value, text)

    x, anchor = re.findall(
        r'<text x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)">p50', axes.svg()
    )[0]
    left = float(x) - (8.5 * len(text) if anchor == "end" else 0)  # of a wide font
    assert left >= axes.left + 4


def test_a_queue_that_was_always_empty_is_a_sentence():
    """An empty frame shows nothing."""
    result = result_of()
    series = result["series"]
    series["queue_depth"] = [0.0] * len(series["queue_depth"])
    text = "".join(Page(page(result)).text)

    assert pictures.depth_picture(result, WIDE) == ""
    assert "The queue was nearly always empty" in text
    assert "nearly always empty" not in "".join(Page(page(result_of())).text)


def test_the_dashed_line_across_the_knee_is_explained():
    """What it is, and why it is where it is."""
    text = "".join(Page(page(result_of())).text)

    assert "that of the MLPerf job, or 90 %, which is usual." in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.81694, "1.82"),
        (3.8042, "3.8"),
        (0.0012345, "0.00123"),
        (1597052.4, "1,597,052"),
        ([0.5123456, 3], "0: 0.512, 1: 3"),
        (32, "32"),
    ],
)
def test_figures_have_three_digits(value, shown):
    """What is behind them is noise; large numbers have all of theirs."""
    assert value_of("load_average", value) in (shown, f"<bdi>{shown}</bdi>")


@pytest.mark.parametrize("letter", ["N", "i", "\u5927"])
@pytest.mark.parametrize("pixels", [30.0, 400.0])
def test_a_name_takes_no_more_room_than_there_is(letter, pixels):
    """Capitals and wide characters take more; the figures next to it stay readable."""
    shown = pictures._fitting(letter * 300, pixels)

    width = {"N": 10.8, "i": 7.2, "\u5927": 14.4}[letter]
    assert shown.endswith("\u2026")
    assert (len(shown) - 1) * width + 7.2 <= pixels
    assert pictures._fitting("decode", pixels=400.0) == "decode"


def test_a_long_word_at_the_end_of_an_axis_is_not_cut_off():
    """It moves inwards; words that would touch are left out."""
    axes = Axes("a picture", 200, 100, (0.0, 1.0), (0.0, 1.0))

    axes.x_ticks([(0.9, "left out"), (0.0, "x" * 30), (1.0, "y" * 9)], "seconds")

    texts = [
        (float(each.get("x")), each.text)
        for each in ElementTree.fromstring(axes.svg()).iter()
        if each.tag.endswith("text")
    ]
    shown = {text: x for x, text in texts}
    assert shown["left out"] + 4 * 6.5 < 200
    assert "y" * 9 not in shown
    axes.parts.clear()
    axes.x_ticks([(1.0, "y" * 9)], "seconds")
    (x,) = re.findall(r'<text x="([\d.]+)"[^>]*>y+<', axes.svg())
    assert float(x) + 4.5 * 7.2 <= 200


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(
    "result",
    [
        EMPTY,
        OLD,
        {},
        {"series": 3, "latency": [], "stages": "none", "device": {"knee": [1, None]}},
        {
            "series": {
                "seconds": [1.5, "x"],
                "elements": [float("inf"), -1],
                "starved_share": [2, -3],
                "blocked_share": [True, 1e999],
                "queue_depth": [[], {}],
                "part": ["<script>", 7],
            },
            "latency": {"histogram": {"edges": [0, -1, "x"], "counts": [1, 2]}},
            "stages": [{}, {"share": "all"}],
            "device": {"knee": [{"step_seconds": 1}, {"step_seconds": 1}]},
        },
    ],
    ids=["empty", "old", "nothing", "other kinds", "absurd"],
)
def test_a_picture_of_what_is_not_there_is_nothing_or_whole(name, result):
    """A stored result may hold anything."""
    picture = PICTURES[name](result, WIDE)

    if picture:
        ElementTree.fromstring(picture)
        assert "nan" not in picture
        assert "inf" not in picture


def test_equal_times_between_elements_are_a_narrow_bar():
    """Not one across the whole width, on an axis whose ticks all read the same."""
    edges = [19_952_600.0, 20_183_700.0]
    latency = {"histogram": {"edges": edges, "counts": [399]}, "p50": 20e6}

    picture = PICTURES["histogram"]({"latency": latency}, WIDE)

    (bar,) = re.findall(r'<rect[^>]* width="([\d.]+)"', picture)
    assert float(bar) < WIDE / 20
    ticks = re.findall(r">([\d.]+ ms)<", picture)
    assert len(ticks) == len(set(ticks)) > 1


def test_an_hours_page_is_small():
    """Half a megabyte would be slow to open, and to send."""
    text = page(result_of(seconds=3600.0, rate=2000.0))

    assert len(text.encode()) < WEIGHT


def test_the_policy_lets_nothing_but_the_pages_own_style_count():
    """It forbids all loading, and has the hash of the style that is there."""
    text = page(result_of())

    (policy,) = re.findall(
        r'http-equiv="Content-Security-Policy" content="([^"]+)"', text
    )
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_what_a_person_wants_to_know_is_on_the_page():
    """Rate, certainty, what is wrong, what to change, and how to read each picture."""
    text = "".join(Page(page(result_of())).text)

    for words in (
        "800",  # samples: 100 elements of 8
        "± 3.0%",
        "busy_machine",
        "steady state",
        "cache train.py:dataset",
        "the one to quote",
        "Does it keep an accelerator busy?",
        "a CPU",
    ):
        assert words in text


def test_each_picture_is_there_for_narrow_and_for_wide_screens():
    """The style shows one of the two."""
    found = check(page(result_of()))

    widths = [attributes["width"] for tag, attributes in found.tags if tag == "svg"]
    assert widths == [str(WIDE), str(NARROW)] * len(PICTURES)


def test_a_burst_does_not_press_the_steady_state_flat():
    """What is far above the steady rate is cut off, and reported."""
    result = result_of()
    series = result["series"]
    series["elements"][3] = round(1000 * 100 * series["seconds"][3])

    assert "up to 100 k/s" in pictures.rate_picture(result, WIDE)
    assert "up to" not in pictures.rate_picture(result_of(), WIDE)


def test_a_result_that_was_stored_gives_the_same_page():
    """Nothing of the page comes from anywhere else."""
    result = result_of()

    assert page(json.loads(json.dumps(result))) == page(result)


def test_advice_is_shown_with_its_outcome():
    """Tried and held, tried and not, not tried, and what else was asked."""
    text = " ".join(check(page(result_of(name="decode"))).text)

    assert "cache decode" in text
    assert "Tried: 2.25x, predicted 2.50x." in text
    assert "Tried, and it did not hold: 1.00x, predicted 1.50x." in " ".join(
        text.split()
    )
    assert "not tried: decode" in text
    assert "decode=2x" in text
