"""Whether a program fits the memory of the IPUs that it is compiled for."""

import json
import math
import re

import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT
from styles import entered, only

from ipufeed.device.config.config import IPUConfig
from ipufeed.executable.report.ipu_model import IpuModel

pytestmark = pytest.mark.usefixtures("clean_system")

BIG = np.ones([600, 1024], np.float32)  # 2.4 MB; four tiles have 2.5 MB
FITS = np.ones([600, 8], np.float32)


def configure(monkeypatch, flags="--use_ipu_model --ipu_model_tiles=4", **attributes):
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    IPUConfig.from_dict({"auto_select_ipus": 1, **attributes}).configure_ipu_system()


def doubled(x):
    return x * 2.0 + tf.reduce_sum(x)


def warnings(caplog):
    return [each for each in caplog.messages if "Out of memory" in each]


@pytest.mark.parametrize("style", ["graph", "function"])
def test_a_program_that_does_not_fit_is_warned_of(style, monkeypatch, caplog):
    """With what it needs and what there is, and it runs."""
    configure(monkeypatch)
    with entered(style, "xla") as ready:
        assert only(ready.run(doubled, FITS)).shape == FITS.shape
        assert warnings(caplog) == []
        assert only(ready.run(doubled, BIG)).shape == BIG.shape

    (line,) = warnings(caplog)
    found = re.search(r"needs (\d+) bytes of memory, (\d+) of them for code", line)
    needed, code = map(int, found.groups())
    assert needed > 2 * BIG.nbytes
    assert 0 < code < needed
    assert (
        f"1 IPU of 4 tiles with {624 * 1024} bytes each have {4 * 624 * 1024}." in line
    )


@pytest.mark.parametrize("style", ["graph", "function"])
def test_it_is_an_error_on_request(style, monkeypatch, caplog, tmp_path):
    """And its report is there, to see why."""
    options = {
        "debug.allowOutOfMemory": "false",
        "autoReport.all": "true",
        "autoReport.directory": str(tmp_path),
    }
    configure(monkeypatch, compilation_poplar_options=options)
    with entered(style, "xla") as ready:
        with pytest.raises(
            tf.errors.ResourceExhaustedError, match=r"Out of memory: .* of 4 tiles with"
        ):
            ready.run(doubled, BIG)
        assert only(ready.run(doubled, FITS)).shape == FITS.shape

    assert len(list(tmp_path.glob("*/profile.json"))) == 2


def test_hardware_has_more_and_is_asked_only_where_it_may_fail(monkeypatch, caplog):
    """1472 tiles hold it."""
    options = {"debug.allowOutOfMemory": "false"}
    configure(monkeypatch, "", compilation_poplar_options=options)
    with entered("function", "xla") as ready:
        ready.run(doubled, BIG)

    assert warnings(caplog) == []


@pytest.mark.parametrize("counts", [True, False])
def test_code_counts_as_its_option_decides(counts, monkeypatch, tmp_path):
    """In the report, next to what there is."""
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    configure(
        monkeypatch,
        compilation_poplar_options=options,
        **{"ipu_model.compile_ipu_code": counts},
    )
    with entered("function", "xla") as ready:
        ready.run(doubled, FITS)

    (path,) = tmp_path.glob("*/profile.json")
    found = json.loads(path.read_text())
    assert (found["memory"]["by_purpose"]["code"] > 0) == counts
    assert found["memory"]["available_bytes"] == 4 * 624 * 1024
    assert found["ipu_model"]["tiles"] == 4
    needed = found["memory"]["peak_bytes"] + found["memory"]["by_purpose"]["code"]
    tile = {"available_bytes": 624 * 1024, "mean_bytes": math.ceil(needed / 4)}
    assert found["memory"]["tile"] == tile


def test_the_page_holds_the_model_against_published_figures():
    """Each row of the table: what the model gives, and the error of it."""
    model = IpuModel()
    second = model.tiles * model.clock_hz
    modelled = {
        "products in float32, Tflop/s": model.matrix_flops["f32"] * second / 1e12,
        "products in float16, Tflop/s": model.matrix_flops["f16"] * second / 1e12,
        "memory, MB": model.memory_bytes / 1e6,
        "exchange, TB/s": model.exchange_bytes * second / 1e12,
    }
    text = (ROOT / "docs" / "reports.md").read_text()
    for name, value in modelled.items():
        row = re.search(rf"\| {re.escape(name)} \| (\S+) \| (\S+) \| (\S+) %", text)
        published, output, error = map(float, row.groups())
        assert output == pytest.approx(value, rel=1e-3)
        assert error == pytest.approx(100 * (value / published - 1), abs=0.05)
