"""Settings have one message, which the command line words with its options' names."""

import dataclasses

import pytest

from ipufeed.benchmark import Settings
from ipufeed.benchmark.advice.what_if import parse_what_if
from ipufeed.benchmark.cli.options.command import command_of
from ipufeed.benchmark.cli.options.device import device_settings_of
from ipufeed.benchmark.cli.options.parser import build_parser, message_of, settings_of
from ipufeed.benchmark.result.settings import SettingError


def read(arguments):
    options = build_parser().parse_args(["dataset.py", *arguments])
    return settings_of(options), device_settings_of(options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "--epochs must be in [1, 2147483648], got 0."),
        (
            ["--items-per-element", "0"],
            "--items-per-element must be in (0, 1e9], got 0.0.",
        ),
        (
            ["--passes", "2", "--elements", "3"],
            "--passes excludes --epochs and --elements: an epoch is then one pass.",
        ),
        (["--result-bytes", "1"], "--result-bytes must be in [32, 1073741824], got 1."),
        (
            ["--step-time", "9999s"],
            "--step-time must be in [1e-06, 3600] seconds, got ",
        ),
    ],
)
def test_an_option_out_of_range_is_named_as_it_was_typed(arguments, message):
    """Whatever the setting is called in Python."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (its message is the promise)
        read(arguments)

    assert message_of(refused.value).startswith(message)


def test_in_python_a_setting_has_its_own_name():
    """In backticks, as every argument of the package."""
    with pytest.raises(
        SettingError, match=r"^`passes` excludes `epochs` and `elements`"
    ):
        Settings(passes=1, epochs=1)


def test_a_command_is_parsed_once_and_stays_as_it_is():
    """Numbers of workers are numbers, and a file for stdout is None."""
    parser = build_parser()
    words = ["a.py:train", "--service", "local:2", "--scale", "2,1,2", "--json", "-"]
    options = parser.parse_args([*words, "--set", "n=3"])
    before = dict(vars(options))
    command = command_of(parser, options)

    assert vars(options) == before

    assert command.target == "a.py:train"
    assert command.assignments == ("n=3",)
    assert command.service.workers == 2
    assert command.service.scale == (1, 2)
    assert command.excluding == "--service"
    with pytest.raises(dataclasses.FrozenInstanceError):
        command.quiet = True


def test_questions_are_parsed_with_the_command():
    """Factors of the stages' times."""
    parser = build_parser()
    words = ["a.py", "--what-if", "decode=2x", "--what-if", "{a}=free"]
    command = command_of(parser, parser.parse_args(words))

    assert [(each.stage, each.factor) for each in command.what_if] == [
        ("decode", 0.5),
        ("{a}", 0.0),
    ]


def test_a_wrong_question_is_named_as_the_option(capsys):
    """In Python it is the argument's name; braces of the user stay as they are."""
    with pytest.raises(SettingError, match=r"^`what_if` must be .* got '{a}=fast'"):
        parse_what_if("{a}=fast")

    parser = build_parser()
    with pytest.raises(SystemExit):
        command_of(parser, parser.parse_args(["a.py", "--what-if", "{a}=fast"]))
    output = " ".join(capsys.readouterr().err.split())
    assert "--what-if must be STAGE=SPEED" in output
    assert "got '{a}=fast'" in output


def test_other_errors_stay_as_they_are():
    """Words in backticks of other messages are not options."""
    assert message_of(ValueError("`passes` of a file")) == "`passes` of a file"


def test_paths_are_those_of_the_folder_in_which_the_command_was_started(
    tmp_path, monkeypatch
):
    """The dataset's file may change the working directory."""
    monkeypatch.chdir(tmp_path)
    parser = build_parser()
    words = ["a.py", "--json", "a.json", "--html", "a.html", "--cold-files", "*.rec"]

    command = command_of(parser, parser.parse_args(words))

    assert command.json == str(tmp_path / "a.json")
    assert command.reports == {"html": str(tmp_path / "a.html")}
    assert command.cold_files == (str(tmp_path / "*.rec"),)
