"""TF_POPLAR_FLAGS: what it may hold, what that means, and when it is read."""

import dataclasses
import threading

import pytest
from helpers import run_python

from ipufeed.device.flags import flags as flags_module
from ipufeed.device.flags.flags import (
    Flags,
    get_flags,
    parse_flags,
    running_on_ipu_model,
    usage,
    use_flags,
    use_synthetic_data_for,
)
from ipufeed.device.flags.synthetic import (
    InitializerKind,
    SyntheticDataCategory,
    SyntheticDataInitializer,
)
from ipufeed.errors import PoplarFlagsError

# Every flag and its default, written by hand.
DEFAULTS = {
    "help": False,
    "use_synthetic_data": False,
    "synthetic_data_categories": "",
    "synthetic_data_initializer": "",
    "use_ipu_model": False,
    "log_cycle_count": -1,
    "while_loop_brute_force_max_trip_count": 128,
    "max_compilation_threads": -1,
    "max_infeed_threads": -1,
    "executable_cache_path": "",
    "dump_schedule_as_dot": False,
    "tensor_map_file_path": "",
    "fallback_scheduler": False,
    "allow_nans": False,
    "null_data_feed": False,
    "show_progress_bar": "auto",
    "use_on_demand": False,
    "on_demand_device_poll_time": 1000,
    "on_demand_device_timeout": 3600000,
    "ipu_model_tiles": -1,
    "sync_replica_start": False,
    "enable_hlo_verifier": False,
    "disable_poplar_version_check": False,
    "save_vertex_graph": False,
}


def message_of(text: str) -> str:
    """What a process that has these flags ends with."""
    with pytest.raises(PoplarFlagsError) as caught:
        parse_flags(text)
    assert isinstance(caught.value, SystemExit)
    return str(caught.value)


def test_no_flags_are_the_defaults():
    """All of them, and no others."""
    assert dataclasses.asdict(parse_flags("")) == DEFAULTS
    assert parse_flags(" \t\n ") == Flags()


@pytest.mark.parametrize(
    "name",
    [name for name, value in DEFAULTS.items() if value is False and name != "help"],
)
def test_a_switch_can_be_put_in_each_of_its_forms(name):
    """Bare, =true and =false; the last one counts."""
    assert getattr(parse_flags(f"--{name}"), name) is True
    assert getattr(parse_flags(f"--{name}=true"), name) is True
    assert getattr(parse_flags(f"--{name}=TRUE"), name) is True
    assert getattr(parse_flags(f"--{name}=1"), name) is True
    assert getattr(parse_flags(f"--{name} --{name}=false"), name) is False
    assert getattr(parse_flags(f"--{name} --{name}=0"), name) is False


@pytest.mark.parametrize(
    "name", [name for name, default in DEFAULTS.items() if type(default) is int]
)
def test_a_number_is_read(name):
    """With its sign; the others keep their defaults."""
    assert getattr(parse_flags(f"--{name}=2000"), name) == 2000
    if name != "on_demand_device_poll_time":
        assert getattr(parse_flags(f"--{name}=-1"), name) == -1
    assert dataclasses.asdict(parse_flags(f"--{name}=2000")) == {**DEFAULTS, name: 2000}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("--executable_cache_path=/tmp/a", "/tmp/a"),
        ("  --use_ipu_model\n --executable_cache_path=/tmp/a\t", "/tmp/a"),
        ("--executable_cache_path='/tmp/my cache'", "/tmp/my cache"),
        ('--executable_cache_path="/tmp/my cache" --allow_nans', "/tmp/my cache"),
        (r'--executable_cache_path="/tmp/\"a\" \\ b"', r'/tmp/"a" \ b'),
        (r"--executable_cache_path='/tmp/\a'", r"/tmp/\a"),
        ("--executable_cache_path=/tmp/a=b", "/tmp/a=b"),
        ("--executable_cache_path=/a --executable_cache_path=/b", "/b"),
        ("--executable_cache_path=", ""),
        ('--executable_cache_path="/tmp/open', "/tmp/open"),
        ("--executable_cache_path='/tmp/open", "/tmp/open"),
    ],
)
def test_a_text_is_read_with_and_without_quotes(text, path):
    """Quotes keep white space together and are not a part of the value."""
    assert parse_flags(text).executable_cache_path == path


@pytest.mark.parametrize(
    "unknown",
    [
        "--nonsense",
        "--nonsense=3",
        "-use_ipu_model",
        "use_ipu_model",
        "--nouse_ipu_model",
    ],
)
def test_an_unknown_flag_ends_the_process(unknown):
    """With a message that names it, and the known ones."""
    message = message_of(f"--use_ipu_model {unknown} --allow_nans")

    assert message.startswith(
        f"Unknown flags in TF_POPLAR_FLAGS: {unknown.partition('=')[0]}. "
    )
    assert "--executable_cache_path" in message


def test_all_unknown_flags_are_named():
    """So that one run is enough to find them."""
    assert "TF_POPLAR_FLAGS: --one --two." in message_of("--one --allow_nans --two=2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--use_ipu_model=yes", "--use_ipu_model must be true or false, got 'yes'"),
        ("--max_infeed_threads=two", "--max_infeed_threads must be an integer"),
        ("--max_infeed_threads", "must be an integer (`=5`), got 'no value'"),
        ("--max_infeed_threads=1.5", "got '1.5'"),
        ("--executable_cache_path /tmp/a", "--executable_cache_path needs a value"),
        ("--show_progress_bar=on", "must be auto, true or false, got 'on'"),
    ],
)
def test_a_value_of_a_wrong_type_ends_the_process(text, message):
    """The message names the flag and what it should be."""
    assert message in message_of(text)


@pytest.mark.process
def test_the_process_really_ends_and_reports_why():
    """Even where every Exception is caught, and with its `finally` blocks run."""
    done = run_python(
        "import os; os.environ['TF_POPLAR_FLAGS'] = '--nonsense'\n"
        "import ipufeed\n"
        "from ipufeed.device.config.config import IPUConfig\n"
        "try:\n"
        "    IPUConfig().configure_ipu_system()\n"
        "except Exception:\n"
        "    pass\n"
        "finally:\n"
        "    print('tidied')\n"
        "print('went on')\n"
    )

    assert done.returncode == 1
    assert done.stdout == "tidied\n"
    assert "unknown flags" in done.stderr
    assert "Unknown flags in TF_POPLAR_FLAGS: --nonsense" in done.stderr


def test_help_prints_every_flag_and_ends(capsys):
    """With its default and a word on what it does."""
    with pytest.raises(SystemExit) as caught:
        parse_flags("--help")

    assert caught.value.code == 0
    printed = capsys.readouterr().err
    assert printed == usage() + "\n"
    for name, default in DEFAULTS.items():
        assert f"--{name}={str(default).lower()}\n" in printed


def test_polling_is_never_faster_than_every_100_ms():
    """A smaller number is raised to it."""
    flags = parse_flags("--on_demand_device_poll_time=5")

    assert flags.on_demand_device_poll_time == 100


def test_these_flags_make_another_program():
    """And no others: a cache must not be missed for another number of threads."""
    text = (
        "--use_synthetic_data --synthetic_data_initializer=3 --use_ipu_model "
        "--log_cycle_count=0 --while_loop_brute_force_max_trip_count=1 "
        "--fallback_scheduler --allow_nans --ipu_model_tiles=4 --sync_replica_start "
        "--disable_poplar_version_check --synthetic_data_categories=seed,infeed"
    )

    assert parse_flags(text).in_program_hash() == {
        "use_synthetic_data": True,
        "synthetic_data_categories": "infeed,seed",
        "synthetic_data_initializer": "3",
        "use_ipu_model": True,
        "log_cycle_count": 0,
        "while_loop_brute_force_max_trip_count": 1,
        "fallback_scheduler": True,
        "allow_nans": True,
        "ipu_model_tiles": 4,
        "sync_replica_start": True,
        "disable_poplar_version_check": True,
    }
    others = (
        "--executable_cache_path=/tmp/a --max_infeed_threads=3 --null_data_feed "
        "--show_progress_bar=true --use_on_demand --on_demand_device_poll_time=200 "
        "--on_demand_device_timeout=5 --max_compilation_threads=2"
    )
    assert parse_flags(others).in_program_hash() == Flags().in_program_hash()


@pytest.mark.parametrize("category", list(SyntheticDataCategory))
def test_synthetic_data_covers_all_categories_or_the_named_ones(category):
    """The general switch means every category; names between commas mean those."""
    rest = ",".join(each.value for each in SyntheticDataCategory if each != category)

    assert not Flags().use_synthetic_data_for(category)
    assert parse_flags("--use_synthetic_data").use_synthetic_data_for(category)
    one = parse_flags(f"--synthetic_data_categories={category.value}")
    assert one.use_synthetic_data_for(category)
    assert one.use_synthetic_data_for(category.value)
    assert not one.use_synthetic_data
    others = parse_flags(f'--synthetic_data_categories="{rest}"')
    assert not others.use_synthetic_data_for(category)
    assert len(others.categories) == 4


@pytest.mark.parametrize("category", ["feed", "Infeed", 9, -1, None, 1.5])
def test_an_unknown_category_names_those_that_there_are(category):
    with pytest.raises(ValueError, match=r"must be a SyntheticDataCategory.*'infeed'"):
        use_synthetic_data_for(category)


def test_categories_may_be_spelt_as_people_do():
    """Spaces and capitals make no difference, in the flag; the enumeration has aliases."""
    flags = parse_flags("--synthetic_data_categories=' Infeed, seed'")

    assert flags.categories == {
        SyntheticDataCategory.InFeed,
        SyntheticDataCategory.Seed,
    }
    assert SyntheticDataCategory.Infeed is SyntheticDataCategory.INFEED
    assert SyntheticDataCategory.OutFeed is SyntheticDataCategory.OUTFEED


def test_an_unknown_category_ends_the_process():
    """With the original's words, and the categories there are."""
    message = message_of("--synthetic_data_categories=infeed,feed")

    assert "Using an unknown synthetic data category in: infeed,feed." in message
    assert "infeed, outfeed, seed, hostembedding, parameters" in message


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", InitializerKind.CONSTANT, 7.0),
        ("-2.75", InitializerKind.CONSTANT, -2.75),
        ("1e3", InitializerKind.CONSTANT, 1000.0),
        (".5", InitializerKind.CONSTANT, 0.5),
        ("uniform", InitializerKind.UNIFORM, 0.0),
        ("normal", InitializerKind.NORMAL, 0.0),
        ("random", InitializerKind.RANDOM, 0.0),
    ],
)
def test_an_initializer_is_a_number_or_a_distribution(text, kind, value):
    """And none, if the flag is not there."""
    flags = parse_flags(f"--use_synthetic_data --synthetic_data_initializer={text}")

    assert flags.initializer == SyntheticDataInitializer(kind, value)
    assert flags.initializer.constant == int(value)
    assert Flags().initializer.kind is InitializerKind.NONE


@pytest.mark.parametrize("text", ["normals", "number", "nan", "inf", "1e999", "0x10"])
def test_an_unknown_initializer_ends_the_process(text):
    """The message says what it can be."""
    message = message_of(f"--use_synthetic_data --synthetic_data_initializer={text}")

    assert f"must be a number, uniform, normal or random, got '{text}'" in message


def test_an_initializer_needs_synthetic_data():
    """Alone it would do nothing, so it is an error; with a category it is none."""
    assert "needs synthetic data: add --use_synthetic_data" in message_of(
        "--synthetic_data_initializer=1"
    )
    flags = parse_flags(
        "--synthetic_data_initializer=1 --synthetic_data_categories=outfeed"
    )
    assert flags.any_synthetic_data


def test_the_environment_is_read_at_first_use_and_then_kept(clean_system, monkeypatch):
    """A program may set it before that; later changes wait for a configuration."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=infeed")

    assert use_synthetic_data_for(SyntheticDataCategory.Infeed)
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=outfeed")
    assert use_synthetic_data_for("infeed")
    assert not use_synthetic_data_for("outfeed")
    use_flags(flags_module.read_flags())
    assert not use_synthetic_data_for("infeed")
    assert use_synthetic_data_for("outfeed")


def test_threads_that_ask_first_get_the_same_flags(clean_system, monkeypatch):
    """The environment is read once, for all callers."""
    reads = []
    read_flags = flags_module.read_flags
    monkeypatch.setattr(
        flags_module, "read_flags", lambda: reads.append(1) or read_flags()
    )
    start = threading.Barrier(8)
    found = []

    def ask():
        start.wait(10)
        found.append(get_flags())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(found) == 8
    assert len(reads) == 1
    assert all(each is found[0] for each in found)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("", False),
        ("--use_ipu_model", True),
        (" --allow_nans  --use_ipu_model=true", True),
        ("--use_ipu_model=false", True),
        ("--allow_nans", False),
    ],
)
def test_running_on_ipu_model_looks_for_the_flag_only(monkeypatch, text, model):
    """As the original: what stands behind it makes no difference, and it is read now."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", text)
    assert running_on_ipu_model() is model
    monkeypatch.delenv("TF_POPLAR_FLAGS")
    assert running_on_ipu_model() is False
