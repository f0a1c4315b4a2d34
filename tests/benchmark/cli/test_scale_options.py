"""The options for several processes: what goes together, and what each may be."""

import pytest

from ipufeed.benchmark.cli.main import main
from ipufeed.benchmark.cli.options.parser import build_parser
from ipufeed.benchmark.cli.options.scaleout import service_of


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--service local", "must be local:N with N in [1, 64], or grpc://HOST:PORT"),
        ("--service local:0", "must be local:N with N in [1, 64]"),
        ("--service local:65", "must be local:N with N in [1, 64]"),
        ("--service http://a:1", "must be local:N"),
        ("--service grpc://a", "must be local:N"),
        ("--service grpc://a:1 --scale 1,2", "--scale needs workers of its own"),
        (
            "--service grpc://a:1 --kill-worker-after 1",
            "--kill-worker-after needs workers",
        ),
        (
            "--service local:2 --scale 1,x",
            "numbers of workers such as 1,2,4, got '1,x'",
        ),
        ("--service local:2 --scale 99", "--scale must be at most 64 workers, got 99"),
        ("--service local:2 --kill-worker-after -1", "must be in [0, 1e6), got -1"),
        ("--service local:2 --through device", "--service does not go with --through"),
        ("--service local:2 --cold", "--service does not go with --cold"),
        ("--service local:2 --processes 2", "two ways to scale: give one"),
        ("--service local:2 --sharding hint", "invalid choice"),
        ("--scale 1", "--scale needs --service local:N"),
        ("--kill-worker-after 1", "--kill-worker-after needs --service local:N"),
        ("--processes 0", "--processes must be in [1, 64], got 0"),
        ("--processes 65", "--processes must be in [1, 64], got 65"),
        ("--processes 2 --through device", "--processes does not go with --through"),
        ("--processes 2 --knee", "--processes does not go with --knee: leave one out"),
        ("--processes 2 --step-time 1ms", "does not go with --step-time"),
        ("--service local:2 --read-time 1ms", "does not go with --read-time"),
        ("--service local:2 --cold-files *.x", "does not go with --cold-files"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words, capsys):
    """Exit code 2, before TensorFlow is imported, in words of the options."""
    with pytest.raises(SystemExit) as caught:
        main(["dataset.py", *options.split()])

    assert caught.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_the_scale_is_sorted_and_each_number_once():
    """The curve goes upwards, whatever order it was asked in."""
    parser = build_parser()
    options = parser.parse_args(["a.py", "--service", "local:2", "--scale", "4,0,1,4"])
    service = service_of(parser, options, on_device=False)

    assert service.scale == (0, 1, 4)
