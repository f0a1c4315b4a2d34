"""The environment variables other than TF_POPLAR_FLAGS."""

import pytest

from ipufeed.device.config import no_effect
from ipufeed.device.flags import environment

JSON_VARIABLES = {
    "POPLAR_ENGINE_OPTIONS": environment.poplar_engine_options,
    "POPLAR_TARGET_OPTIONS": environment.poplar_target_options,
    "POPLAR_RUNTIME_OPTIONS": environment.poplar_runtime_options,
}


@pytest.mark.parametrize("name", JSON_VARIABLES)
def test_options_are_read_when_they_are_requested(monkeypatch, name):
    """As texts, whatever they are in the JSON; without the variable there are none."""
    monkeypatch.setenv(name, '{"autoReport.all": "true", "a": true, "b": 3}')
    assert JSON_VARIABLES[name]() == {"autoReport.all": "true", "a": "true", "b": "3"}
    for empty in ("", "  ", "{}"):
        monkeypatch.setenv(name, empty)
        assert JSON_VARIABLES[name]() == {}
    monkeypatch.delenv(name)
    assert JSON_VARIABLES[name]() == {}


@pytest.mark.parametrize("name", JSON_VARIABLES)
@pytest.mark.parametrize(
    ("text", "message"),
    [("{a: 1}", "must be JSON"), ("[1]", "must be a JSON object"), ("x", "Got 'x'")],
)
def test_what_is_not_a_json_object_is_refused(monkeypatch, name, text, message):
    """The error names the variable and shows its value."""
    monkeypatch.setenv(name, text)

    with pytest.raises(ValueError, match=rf"(?i)^{name} .*{message}"):
        JSON_VARIABLES[name]()


@pytest.mark.parametrize(
    ("text", "level"), [("INFO", "INFO"), ("debug", "DEBUG"), ("LOUD", "OFF")]
)
def test_the_log_level_is_one_of_poplars(monkeypatch, text, level):
    """In capitals; anything else, and nothing, is OFF."""
    monkeypatch.setenv("POPLAR_LOG_LEVEL", text)
    assert environment.poplar_log_level() == level
    monkeypatch.delenv("POPLAR_LOG_LEVEL")
    assert environment.poplar_log_level() == "OFF"


@pytest.mark.parametrize(
    ("text", "warns"), [("LOUD", True), ("WARNING", True), ("err", False), ("", False)]
)
def test_an_unknown_log_level_gets_a_warning(monkeypatch, caplog, text, warns):
    """With the value and the levels; an empty variable is none."""
    monkeypatch.setenv("POPLAR_LOG_LEVEL", text)
    no_effect.warn_of_environment()

    assert (
        caplog.messages
        == [
            "POPLAR_LOG_LEVEL must be one of TRACE, DEBUG, INFO, WARN, ERR, OFF, got "
            f"{text!r}: no phase is logged."
        ]
        * warns
    )


def test_the_variables_in_the_hash_are_raw_texts(monkeypatch):
    """Two spellings of the same JSON are two programs, as in the original."""
    for name in environment.HASHED_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"a":1}')

    assert environment.variables_in_program_hash() == {
        "POPLAR_ENGINE_OPTIONS": '{"a":1}',
        "POPLAR_TARGET_OPTIONS": "",
        "GCL_LIBRARY_PATH": "",
        "GCL_GP_PATH": "",
    }
