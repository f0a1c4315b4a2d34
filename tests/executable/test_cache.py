"""The cache on disk: what is read, what is refused, and which process compiles.

find(key) --> Entry | Slot --> store --> <key>.poplar_exec
"""

import errno
import hashlib
import json
import logging
import multiprocessing
import os
import shutil
import stat
import threading
import time

import pytest
from helpers import DEADLOCK_S

from ipufeed.errors import DamagedFileError, IpufeedError
from ipufeed.executable import explain
from ipufeed.executable.program import file_format
from ipufeed.executable.program.file_format import Entry
from ipufeed.executable.store import cache as caches
from ipufeed.executable.store import safety
from ipufeed.executable.store.cache import Cache, Slot

KEY = "a1b2c3"
DIGEST = "d" * 64


def never():
    return False


def entry(executable=b"code" * 100, program=b"program" * 50):
    return Entry({"key": KEY, "digest": DIGEST, "name": "train"}, program, executable)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def stored(cache):
    """The path of a file that the cache has written."""
    slot = cache.find(KEY, DIGEST, never)
    path = slot.store(entry())
    slot.release()
    return path


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="ipufeed")
    return lambda: [record.getMessage() for record in caplog.records]


def test_what_is_stored_is_found_by_another_cache_of_the_folder(cache, stored):
    """Byte for byte; nothing but the file remains in the folder."""
    found = Cache(cache.folder).find(KEY, DIGEST, never)

    assert found.executable == entry().executable
    assert found.program == entry().program
    assert found.header["name"] == "train"
    assert os.listdir(cache.folder) == [stored.name]
    assert stored.name == "a1b2c3.poplar_exec"


def test_folder_and_file_are_their_owners_only(cache, stored):
    """Whatever the umask is."""
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600


SUM = [3, "0" * 64]


@pytest.mark.parametrize(
    "header",
    [
        b"no JSON",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"parts": []}',
        *(
            json.dumps({"parts": {"program": wrong, "executable": SUM}}).encode()
            for wrong in (None, 3, "ab", [3], [-1, "0"], ["3", "0"], [1.5, "0"], [3, 0])
        ),
    ],
    ids=lambda header: header[:40].decode(errors="replace"),
)
def test_a_header_of_another_kind_is_a_damaged_file(header):
    """Whatever its checksum covers: the error is the one that readers expect."""
    fixed = len(header).to_bytes(8, "little") + hashlib.sha256(header).digest()

    with pytest.raises(DamagedFileError, match="header"):
        file_format.unpack(file_format.MAGIC + fixed + header + b"abcdef")


def test_a_change_of_any_byte_is_seen(stored):
    """Each byte of a file, flipped, and each length that a file can be cut to."""
    data = stored.read_bytes()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(DamagedFileError):
            file_format.unpack(bytes(damaged))
    for length in range(len(data)):
        with pytest.raises(DamagedFileError):
            file_format.unpack(data[:length])
    with pytest.raises(DamagedFileError):
        file_format.unpack(data + b"\0")


def test_a_damaged_executable_is_the_public_error(stored):
    """The class of `ipufeed.errors` catches it, and has the file's path."""
    flip(stored)

    with pytest.raises(DamagedFileError, match="checksum") as caught:
        explain(stored, stored)
    assert caught.value.path == str(stored)
    assert isinstance(caught.value, IpufeedError)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def empty(path):
    path.write_bytes(b"")


def let_all_write(path):
    path.chmod(0o606)


def link(path):
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


def make_pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def rename(path):
    other = Entry({"key": KEY, "digest": "e" * 64}, b"p", b"x")
    path.write_bytes(file_format.pack(other))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (flip, "checksum"),
        (cut, "its header of"),
        (empty, "does not have ipufeed's header"),
        (let_all_write, "can be written by every user: `chmod o-w` it"),
        (link, "is a symbolic link"),
        (make_pipe, "is not a regular file"),
        (rename, "does not match its file name"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_file_that_cannot_be_trusted_is_replaced(cache, stored, warnings, spoil, why):
    """With one warning, however often it is looked for; then it is found again."""
    spoil(stored)
    for _ in range(3):
        found = cache.find(KEY, DIGEST, never)
        assert isinstance(found, Slot)
        found.release()
    (warning,) = warnings()
    assert str(stored) in warning
    assert why in warning

    slot = cache.find(KEY, DIGEST, never)
    slot.store(entry(b"new"))
    slot.release()
    assert cache.find(KEY, DIGEST, never).executable == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(cache, stored, warnings):
    """The other user may have written anything into it."""
    os.chown(stored, 12345, -1)

    slot = cache.find(KEY, DIGEST, never)
    slot.release()

    assert "belongs to user 12345" in warnings()[0]


def test_a_folder_that_others_may_write_to_is_not_used(cache, stored, warnings):
    """Nothing is read from it nor written to it; one warning has the cause."""
    cache.folder.chmod(0o777)
    other = Cache(cache.folder)

    assert other.find(KEY, DIGEST, never) is None
    assert other.find(KEY, DIGEST, never) is None
    (warning,) = warnings()
    assert "can be written by every user" in warning


def test_a_sticky_folder_above_is_safe(tmp_path):
    """As /tmp is: others cannot replace what is in it."""
    tmp_path.chmod(0o1777)
    (tmp_path / "mine").mkdir(mode=0o700)
    safety.check_folder(tmp_path / "mine")

    tmp_path.chmod(0o777)
    with pytest.raises(safety.UnsafeError):
        safety.check_folder(tmp_path / "mine")


@pytest.mark.parametrize(
    ("path", "why"),
    [("file/cache", "Not a directory"), ("file", "file is not a folder; remove it")],
)
def test_a_folder_that_cannot_be_made_is_reported(tmp_path, warnings, path, why):
    """A file is in its place, or above."""
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / path)

    assert cache.find(KEY, DIGEST, never) is None
    assert "is not used" in warnings()[0]
    assert why in warnings()[0]


def test_a_full_disk_leaves_nothing_behind(cache, monkeypatch):
    """Neither half a file nor a temporary one."""
    slot = cache.find(KEY, DIGEST, never)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(caches.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        slot.store(entry())
    slot.release()

    assert os.listdir(cache.folder) == []


def test_threads_that_want_the_same_wait_for_the_first(cache):
    """One gets the slot, the others what it stored."""
    found = []
    first = cache.find(KEY, DIGEST, never)
    threads = [
        threading.Thread(target=lambda: found.append(cache.find(KEY, DIGEST, never)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    time.sleep(2 * caches.POLL_S)
    assert found == []
    first.store(entry(b"from the first"))
    first.release()
    for thread in threads:
        thread.join(10)

    assert [each.executable for each in found] == [b"from the first"] * 4


def compile_or_find(folders, together, results):
    for folder in folders:
        together.wait()
        found = Cache(folder).find(KEY, DIGEST, never)
        if isinstance(found, Slot):
            time.sleep(0.05)  # it compiles
            found.store(entry())
            found.release()
            results.put((folder.name, "compiled"))
        else:
            results.put((folder.name, "found"))


def test_ten_processes_that_race_compile_once(tmp_path):
    """Twenty times; no lock remains."""
    context = multiprocessing.get_context("fork")
    folders = [tmp_path / str(n) for n in range(20)]
    together, results = context.Barrier(10), context.Queue()
    processes = [
        context.Process(target=compile_or_find, args=(folders, together, results))
        for _ in range(together.parties)
    ]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=DEADLOCK_S) for _ in processes for _ in folders]
    for process in processes:
        process.join()

    for folder in folders:
        assert outcomes.count((folder.name, "compiled")) == 1
        assert outcomes.count((folder.name, "found")) == 9
        assert os.listdir(folder) == [KEY + ".poplar_exec"]


def hold_and_die(folder, held):
    Cache(folder).find(KEY, DIGEST, never)
    held.set()
    time.sleep(60)


def test_a_process_that_dies_while_it_compiles_does_not_block_others(tmp_path):
    """Its lock goes with it; the file of the lock remains, and does not matter."""
    context = multiprocessing.get_context("fork")
    held = context.Event()
    process = context.Process(target=hold_and_die, args=(tmp_path / "c", held))
    process.start()
    held.wait(30)
    process.kill()
    process.join()

    slot = Cache(tmp_path / "c").find(KEY, DIGEST, never)
    assert isinstance(slot, Slot)
    slot.release()


def test_a_wait_for_a_lock_can_be_stopped(cache):
    """Ctrl-C, while another process compiles for an hour."""
    first = cache.find(KEY, DIGEST, never)
    stopped = threading.Event()
    threading.Timer(0.2, stopped.set).start()

    second = Cache(cache.folder).find(KEY, DIGEST, stopped.is_set)

    assert isinstance(second, Slot)  # without the lock: the caller gives up
    second.release()
    assert caches._lock_path(first.path).exists()
    first.release()


def test_deleting_files_is_safe_at_any_time(cache, stored):
    """The next lookup is for the program's right to be compiled."""
    stored.unlink()
    slot = cache.find(KEY, DIGEST, never)
    assert isinstance(slot, Slot)
    slot.release()


@pytest.mark.parametrize("when", ["before the lookup", "while it compiles"])
def test_a_deleted_folder_is_made_again(cache, stored, warnings, when):
    """Users delete the files together with their folder, between any two programs."""
    if when == "before the lookup":
        shutil.rmtree(cache.folder)
    slot = cache.find("b2c3d4", DIGEST, never)
    if when == "while it compiles":
        shutil.rmtree(cache.folder)

    path = slot.store(entry())
    slot.release()

    assert os.listdir(cache.folder) == [path.name]
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert isinstance(cache.find("b2c3d4", DIGEST, never), Entry)
    assert warnings() == []


def test_a_deleted_folder_that_comes_back_as_a_file_is_not_used(
    cache, stored, warnings
):
    """It is checked like at the start, and reported once."""
    shutil.rmtree(cache.folder)
    cache.folder.write_text("")

    assert cache.find(KEY, DIGEST, never) is None
    assert cache.find(KEY, DIGEST, never) is None

    assert len(warnings()) == 1
    assert "is not a folder" in warnings()[0]
