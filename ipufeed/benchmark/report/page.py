"""A self-contained page for a result: the figures, their uncertainty, and the reasons.

It is made from the JSON alone, so that a stored result becomes a page later; every chart
has a text on how to read it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

from ipufeed.benchmark.report import pictures
from ipufeed.benchmark.report.page_stages import stages
from ipufeed.render import units
from ipufeed.render.html import document, table, tiles
from ipufeed.render.text import (
    MOST_ROWS,
    JsonObject,
    finite,
    optional,
    part,
    rows_of,
    seconds,
    short,
    text_of,
)

# Widths in pixels, for a telephone and for other screens. page.css of this folder shows
# one of them.
NARROW, WIDE = 350, 1000
DEVICE = {
    "au": "the accelerator computed (AU)",
    "starved_time_share": "it waited for an element",
    "blocked_time_share": "it waited for the host to read its results",
    "overhead_time_share": "overhead of the simulation",
}
VERDICTS = {
    "host-bound": "The pipeline is the bottleneck: the accelerator waits for it.",
    "device-bound": "The pipeline is fast enough: the accelerator is the slower side.",
    "reader-bound": "The host reads results too slowly: the accelerator waits for it.",
    "harness-bound": "The step is too short for this simulation: no verdict.",
}

Picture = Callable[[JsonObject, int], str]


def page(result: JsonObject) -> str:
    """Returns the page of a result as the JSON holds it, of any version or incomplete."""
    dataset = part(result, "dataset")
    name = str(dataset.get("name", "a dataset"))
    style = resources.files("ipufeed.benchmark.report").joinpath("page.css")
    sections = [
        f"<h1>{text_of(name, 200)}</h1>",
        f'<p class="quiet">{text_of(_summary_of(result), 300)}</p>',
        _headline(result),
        _notices(result),
        _section(
            "Rate over time",
            "Elements per second in each window of time. A level line is good; the dashed "
            "line is the steady rate, the one to quote, and the band its 95 % confidence "
            "interval.",
            result,
            pictures.rate_picture,
            _left_out(result),
        ),
        _section(
            "Waits",
            _waits_text(result),
            result,
            pictures.waits_picture,
        ),
        _section(
            "Elements in the queue",
            "Elements in the queue after each was taken. Near 0: the dataset is the "
            "slower side. Near the capacity (a dashed line, if it is in the range): the "
            "consumer is.",
            result,
            pictures.depth_picture,
            _empty_queue(result),
        ),
        _section(
            "Time between elements",
            "One narrow peak: the elements come evenly. A second peak further right: work "
            "that only some elements need, such as opening a file or filling a shuffle "
            "buffer. 99 of 100 times are left of p99.",
            result,
            pictures.histogram_picture,
        ),
        _section(
            "Where the time goes",
            "The stages of the pipeline, the most important first: a faster first stage "
            "makes the pipeline faster, a faster last one does not.",
            result,
            pictures.stage_picture,
            stages(result),
        ),
        _section(
            "Does it keep an accelerator busy?",
            "The fraction of its time in which an accelerator would compute, for several "
            "step times. Where the curve leaves the top, the pipeline becomes the "
            "bottleneck. The dashed line is the required fraction: that of the MLPerf job, "
            "or 90 %, which is usual.",
            result,
            pictures.au_picture,
            _device(result),
        ),
        '<div class="facts">',
        _facts("Machine", part(result, "machine")),
        _facts("Settings", part(result, "settings")),
        _facts("The dataset", part(result, "dataset")),
        _facts("CPU and memory", part(result, "resources")),
        _facts("The harness itself", part(result, "calibration")),
        "</div>",
        '<p class="quiet">Elements are what the dataset yields, usually batches. The '
        "numbers of this page, and more, are in the JSON of the same run.</p>",
    ]
    title = f"{short(name, 80)} - input pipeline"
    body = "\n".join(filter(None, sections))
    return document(title, body, style.read_text(encoding="utf-8"))


def _headline(result: JsonObject) -> str:
    """Returns the main figures."""
    steady, dataset = part(result, "steady"), part(result, "dataset")
    latency, resources_ = part(result, "latency"), part(result, "resources")
    figures = []
    samples = finite(dataset.get("samples_per_element"))
    rate = finite(steady.get("elements_per_second"))
    if rate:
        many = samples not in (0.0, 1.0)
        figures.append(
            (
                "samples per second" if many else "elements per second",
                units.number(rate * samples if many else rate),
                f"{units.number(rate)} elements of {units.number(samples)}"
                if many
                else "",
            )
        )
    else:
        figures.append(("elements per second", "none", "too few elements for a rate"))
    interval = steady.get("interval")
    if isinstance(interval, list) and len(interval) == 2 and rate:
        low, high = map(finite, interval)
        figures.append(
            (
                "uncertainty",
                f"± {(high - low) / 2 / rate:.1%}",
                f"95 %: {units.number(low)} to {units.number(high)} elements/s",
            )
        )
    if finite(steady.get("bandwidth")):
        each = finite(dataset.get("bytes_per_element"))
        figures.append(
            (
                "bandwidth",
                f"{units.size(finite(steady.get('bandwidth')) * 1e9)}/s",
                f"{units.size(each)} per element",
            )
        )
    start = part(result, "startup")
    if start:
        figures.append(
            ("start-up", seconds(start.get("seconds")), "until the first element")
        )
    if latency:
        figures.append(
            (
                "between elements",
                seconds(finite(latency.get("p50")) / 1e9),
                f"p50; p99 {seconds(finite(latency.get('p99')) / 1e9)}",
            )
        )
    if finite(resources_.get("cpus_busy")):
        usable = finite(part(result, "machine").get("usable_cpus"))
        figures.append(
            (
                "CPUs busy",
                f"{finite(resources_.get('cpus_busy')):.2f}",
                f"of {usable:.0f}",
            )
        )
    au = part(result, "device").get("au")
    if au is not None:
        figures.append(("accelerator busy", f"{finite(au):.0%}", "AU"))
    return tiles(figures)


def _notices(result: JsonObject) -> str:
    """Returns the error and the warnings."""
    found = []
    error = part(result, "error")
    if error:
        found.append(
            f'<p class="notice bad"><strong>The dataset failed at element '
            f"{finite(error.get('element')):.0f} (from 0)</strong> with "
            f"{text_of(error.get('type', ''), 100)}: "
            f"{text_of(error.get('message', ''))}</p>"
        )
    found += [
        f'<p class="notice"><strong>{text_of(each.get("code", ""), 60)}</strong> '
        f"{text_of(each.get('message', ''))}</p>"
        for each in rows_of(result, "warnings")[:MOST_ROWS]
    ]
    return "".join(found)


def _section(
    title: str, how: str, result: JsonObject, picture: Picture, more: str = ""
) -> str:
    """Returns a chart for narrow and for wide screens with its text; "" without one."""
    wide = picture(result, WIDE)
    if not wide:
        return f"<section><h2>{title}</h2>{more}</section>" if more else ""
    return (
        f"<section><h2>{title}</h2><p>{how}</p>"
        f'<figure><div class="at-wide">{wide}</div>'
        f'<div class="at-narrow">{picture(result, NARROW)}</div></figure>{more}</section>'
    )


def _waits_text(result: JsonObject) -> str:
    """Returns how to read the waits, of a plain run or of one through the device."""
    if part(result, "links"):
        return (
            "Orange: the program on the device waited for an element, so the dataset is "
            "the slower side. Purple: the dataset waited because the queue was full, so "
            "the program is the slower side."
        )
    if pictures.is_in_a_loop(result):
        return (
            "Orange: the loop that takes the elements waited for the next one. It should "
            "be orange nearly throughout: the measured rate is then the loader's own. "
            "Purple: the loop copied and counted, and did not call the loader."
        )
    return (
        "Orange: the consumer of the elements waited for the next one. Here it only "
        "copies, so it should be orange nearly throughout: the measured rate is then the "
        "dataset's own. Purple: the dataset waited because the queue was full."
    )


def _left_out(result: JsonObject) -> str:
    """Returns what is not in the steady rate, and why."""
    found = "".join(
        f"<li><strong>{text_of(each.get('what', ''), 40)}</strong>, "
        f"{seconds(each.get('seconds'))}, "
        f"{units.counted(int(finite(each.get('elements'))), 'element')}: "
        f"{text_of(each.get('why', ''), 400)}</li>"
        for each in rows_of(part(result, "steady"), "left_out")
    )
    return f"<p>Not in the steady rate:</p><ul>{found}</ul>" if found else ""


def _empty_queue(result: JsonObject) -> str:
    """Returns a text in place of an empty chart; "" for a loader without a queue."""
    series = pictures.series_of(result)
    if series is None or pictures.is_in_a_loop(result):
        return ""
    if max(series.depths) >= pictures.LEAST_DEPTH:
        return ""
    return (
        "<p>The queue was nearly always empty after an element was taken: the dataset is "
        "the slower side.</p>"
    )


def _device(result: JsonObject) -> str:
    """Returns the figures of the requested step time, and of the sweep."""
    found = part(result, "device")
    shares = [
        [name, f"{finite(found[key]):.1%}"]
        for key, name in DEVICE.items()
        if found.get(key) is not None
    ]
    rows = [
        [
            seconds(each.get("step_seconds")),
            f"{finite(each.get('au')):.0%}",
            optional(each.get("starved_share"), lambda share: f"{share:.0%}"),
        ]
        for each in rows_of(found, "knee")[:MOST_ROWS]
    ]
    parts = []
    if found.get("verdict") is not None:
        verdict = str(found["verdict"])
        sentence = VERDICTS.get(verdict, verdict)
        if found.get("last_wait_seconds") is not None:
            wait = seconds(found["last_wait_seconds"])
            sentence += (
                f" It waited for the last {wait}; the table is of the time before."
            )
        parts.append(f"<p><strong>{text_of(sentence, 200)}</strong></p>")
    if shares:
        step = optional(found.get("step_seconds"), seconds)
        parts.append(table([f"of the time, with steps of {step}", "fraction"], shares))
    if rows:
        parts.append(table(["step", "AU", "waited"], rows))
    return "".join(parts)


def _facts(title: str, values: JsonObject) -> str:
    """Returns a table of names and values."""
    rows = [
        [text_of(str(name).replace("_", " "), 60), value_of(str(name), value)]
        for name, value in list(values.items())[:MOST_ROWS]
        if value is not None
    ]
    if not rows:
        return ""
    return (
        f"<details open><summary>{title}</summary>{table([], rows, left=2)}</details>"
    )


def _summary_of(result: JsonObject) -> str:
    """Returns the numbers of elements and seconds, and the CPU."""
    elements = sum(
        int(finite(each.get("elements_processed")))
        for each in rows_of(result, "epochs")
    )
    machine = part(result, "machine")
    cpu = machine.get("cpu") or machine.get("cpu_model") or ""
    series = pictures.series_of(result)
    lasted = f" in {seconds(series.end)}" if series else ""
    return f"{units.counted(elements, 'element')}{lasted}. {cpu}".strip()


def value_of(name: str, value: object) -> str:
    """Returns a value as text, in the unit of its name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if name.endswith("_bytes") or name.startswith("bytes_"):
            return units.size(finite(value))
        if "per_second" not in name and "seconds" in name:
            return seconds(value)
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**18 else f"{finite(value):.6g}"
    if isinstance(value, (dict, list)):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        listed = ", ".join(
            f"{name}: {_rounded(each) if isinstance(each, float) else each}"
            for name, each in list(inner)[:MOST_ROWS]
        )
        return text_of(listed, 400)
    return text_of(value, 400)


def _rounded(value: float) -> str:
    """Returns three digits, or all of a large number."""
    shown = finite(value)
    return f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:.3g}"
