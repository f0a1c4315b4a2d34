"""Which options exclude looking at stages, and the message wherever they do."""

import pytest

from ipufeed.benchmark.cli.main import main
from ipufeed.benchmark.cli.options.command import command_of
from ipufeed.benchmark.cli.options.parser import build_parser
from ipufeed.benchmark.cli.options.stages import why_no_stages

EXCLUDING = [
    "--step-time 12ms",
    "--knee",
    "--result-bytes 64",
    "--read-time 1ms",
    "--cold",
    "--cold-files *.bin",
    "--service local:1",
    "--processes 2",
    "--through device",
]


@pytest.mark.parametrize("asked", ["--verify", "--what-if a=2x"])
@pytest.mark.parametrize("excluding", EXCLUDING)
def test_what_needs_the_stages_is_refused_where_they_are_not_measured(
    asked, excluding, capsys
):
    """Exit code 2 at once, with both options and the remedy."""
    option, other = asked.split()[0], excluding.split()[0]

    with pytest.raises(SystemExit) as caught:
        main(["dataset.py", *asked.split(), *excluding.split()])

    assert caught.value.code == 2
    output = " ".join(capsys.readouterr().err.split())
    assert f"{option} excludes {other}: stages are those of the dataset alone" in output
    assert f"Leave {option} out, or {other}." in output


def reason(*words):
    """Why a summary has no stages, of a whole command line."""
    parser = build_parser()
    command = command_of(parser, parser.parse_args(["a.py", *words]))
    return why_no_stages(command.no_stages, command.excluding)


@pytest.mark.parametrize("excluding", EXCLUDING)
def test_the_summary_names_the_option_that_leaves_out_the_stages(excluding):
    """Unless the user did not want them anyway."""
    option = excluding.split()[0].replace("cold-files", "cold")

    assert reason(*excluding.split()) == (
        f"not with {option}: run without it to see them"
    )
    assert reason(*excluding.split(), "--no-stages") is None


def test_the_summary_omits_the_hint_where_stages_are_measured():
    """An ordinary run has its table."""
    assert reason() is None
