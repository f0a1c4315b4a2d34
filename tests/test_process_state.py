"""What a process has set and counted is new again after one call."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import ipufeed.process_state
from ipufeed import no_recompile
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.flags import flags as flags_module
from ipufeed.device.program import executor
from ipufeed.device.system.state import SYSTEM
from ipufeed.executable import stats
from ipufeed.executable.compile import programs
from ipufeed.no_effect import no_effect
from ipufeed.ops import references
from ipufeed.ops.host import tables
from ipufeed.process_state import STATE, ProcessState
from ipufeed.programs import popdist
from ipufeed.queues import limits

# With ipufeed itself; other parts are registered with the modules that use them.
PARTS = {
    *("flags", "executor", "system", "programs", "provided", "blocks", "folders"),
    *("counters", "warnings", "random_ops", "queue limits", "host calls"),
}


def test_each_part_of_a_process_is_registered():
    """Once ipufeed is imported: a reset needs no further import."""
    assert {*STATE.parts} >= PARTS


def test_the_docstring_lists_the_parts():
    """All that a module of the package registers, and no other."""
    package = Path(ipufeed.process_state.__file__).parent
    registered = [
        name
        for path in package.rglob("*.py")
        for name in re.findall(r'STATE\.part\("([^"]+)"\)', path.read_text())
    ]
    lines = ipufeed.process_state.__doc__.partition("--part-->")[0].splitlines()[2:]

    assert sorted(re.split(r" {2,}", "  ".join(lines).strip())) == sorted(registered)


def test_a_reset_is_as_a_new_process(clean_system, monkeypatch, caplog):
    """Flags are read again, nothing is configured, counted, warned of, or refused."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    executor.set_executor("tensorflow")
    no_effect("an_option", "there is nothing to set")
    with tf.device("/device:IPU:0"):
        tf.function(lambda x: x * 3.0, jit_compile=True)(tf.ones([2]))
    assert stats().compiles == 1
    monkeypatch.delenv("TF_POPLAR_FLAGS")
    before = programs.history()

    STATE.reset()

    assert not flags_module.get_flags().use_synthetic_data
    assert executor.executor() == "xla"
    assert SYSTEM.config is None
    assert stats().compiles == 0
    assert programs.history() is not before
    caplog.clear()
    no_effect("an_option", "there is nothing to set")
    assert "an_option" in caplog.text


def test_a_reset_forgets_what_operations_and_popdist_keep():
    """Tables, references and the IPUs of a replica."""
    tables.add("a table", np.zeros([2, 2]))
    references.register("libany.so", forward=lambda *_: [])
    popdist.set_ipus_per_replica(4)

    STATE.reset()

    assert references.find("libany.so", "Build") is None
    assert popdist.getNumIpusPerReplica() == 1
    tables.add("a table", np.zeros([2, 2]))
    tables.remove("a table")


def test_a_reset_restores_the_limits_of_queues(monkeypatch):
    """As the native core starts with."""
    calls = []
    monkeypatch.setattr(limits, "set_stall_report", calls.append)
    monkeypatch.setattr(limits, "set_outfeed_limit", calls.append)
    STATE.reset("queue limits")
    assert calls == [30.0, 4 << 30]

    source = Path(ipufeed.process_state.__file__).parent / "cc"
    assert "report_after_ns{30'000'000'000}" in (source / "run/stall.cc").read_text()
    outfeed = (source / "feeds/outfeed.cc").read_text()
    assert "limit_bytes{std::int64_t{4} << 30}" in outfeed


def test_a_block_that_was_left_open_ends():
    """A thread that died in one would refuse all later programs."""
    block = no_recompile()
    block.__enter__()
    STATE.reset()
    with tf.device("/device:IPU:0"):
        tf.function(lambda x: x * 5.0, jit_compile=True)(tf.ones([2]))
    block.__exit__(None, None, None)


def test_a_part_is_reset_by_its_name_alone():
    state, done = ProcessState(), []
    state.part("one")(lambda: done.append("one"))
    state.part("two")(lambda: done.append("two"))

    state.reset("two")
    state.reset()

    assert done == ["two", "one", "two"]


def test_an_unknown_part_is_refused_and_none_is_reset():
    state, done = ProcessState(), []
    state.part("one")(lambda: done.append("one"))

    with pytest.raises(ValueError, match="must be of one, got other"):
        state.reset("one", "other")
    assert done == []


def test_a_name_is_taken_once():
    state = ProcessState()
    state.part("one")(lambda: None)

    with pytest.raises(ValueError, match="has a part 'one' already"):
        state.part("one")(lambda: None)


def test_a_part_may_use_the_state_while_it_is_reset():
    """No lock is held then."""
    state, seen = ProcessState(), []
    state.part("one")(lambda: seen.extend(state.parts))
    thread = threading.Thread(target=state.reset, daemon=True)
    thread.start()
    thread.join(60)

    assert seen == ["one"]
