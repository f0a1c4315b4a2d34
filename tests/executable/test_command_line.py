"""python -m ipufeed.executable, on folders that are made for it."""

import json
import os
import sys
import time

import children
import numpy as np
import pytest
from helpers import DEADLOCK_S, ROOT
from lowering import lowering

import ipufeed
from ipufeed.executable import __main__ as command
from ipufeed.executable.program.file_format import pack
from ipufeed.executable.store.cache import SUFFIX


@pytest.fixture(scope="module")
def programs():
    """Two programs `net` that differ in a constant, and one `other`."""
    ipufeed.reset_ipu_configuration()
    config = ipufeed.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    names = {}
    exec(
        "def make(factor):\n    def net(images):\n        return images * factor\n"
        "    return net\n"
        "def other(x):\n    return x - 1.0\n",
        names,
    )
    with lowering() as lower:
        ones = np.ones([4, 3], np.float32)
        found = [
            lower(names["make"](0.5), ones),
            lower(names["make"](0.75), ones),
            lower(names["other"], ones),
        ]
    ipufeed.reset_ipu_configuration()
    return found


def write(folder, program, age_s=0.0, **header):
    """A file as the cache writes it, of that age."""
    entry = program.entry(b"compiled" * 100, 1.25)
    entry.header.update(header)
    path = folder / (program.key.hex + SUFFIX)
    path.write_bytes(pack(entry))
    path.chmod(0o600)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.fixture
def folder(tmp_path, programs):
    """A cache with the three."""
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    for n, program in enumerate(programs):
        created = f"2026-01-0{n + 1}T00:00:00+00:00"
        write(path, program, age_s=86400.0 * (3 - n), created=created)
    return path


def run(capsys, *arguments):
    """The exit code, stdout and stderr of a command."""
    code = command.main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def fits(text):
    return all(len(line) <= 80 for line in text.splitlines())


def test_list_shows_each_program(capsys, folder, programs):
    """Key, name, arguments, size, and whether it is used here; the newest first."""
    code, out, _ = run(capsys, "list", folder)

    assert code == 0
    keys = [line.split()[0] for line in out.splitlines() if line.endswith("yes")]
    assert keys == [each.key.hex for each in reversed(programs)]
    assert "takes images" in out
    assert out.rstrip().splitlines()[-1].startswith("3 programs, ")
    assert fits(out)


def test_list_shows_why_a_program_is_not_used_here(capsys, folder, programs):
    """Another version, and a file that is damaged."""
    host = programs[0].context["host"] | {"tensorflow": "9.9.9"}
    write(folder, programs[0], surroundings=programs[0].context | {"host": host})
    (folder / f"abc{SUFFIX}").write_bytes(b"nonsense")

    _, out, _ = run(capsys, "list", folder)

    assert "not used here: for TensorFlow 9.9.9, here is " in out
    assert "not used here: it does not have ipufeed's header" in out
    assert fits(out)


def test_list_gives_json(capsys, folder, programs):
    """For programs: a list of objects."""
    _, out, _ = run(capsys, "list", folder, "--json")

    entries = json.loads(out)
    assert [each["program"] for each in entries] == ["other", "net", "net"]
    assert all(each["usable_here"] for each in entries)


def test_the_folder_of_the_flags_is_taken(capsys, folder, flags):
    """Without DIR, --executable_cache_path counts; without both it is an error."""
    flags(f"--executable_cache_path={folder}")
    assert run(capsys, "list")[0] == 0

    flags("")
    code, _, error = run(capsys, "list")
    assert code == 2
    assert "TF_POPLAR_FLAGS=--executable_cache_path=" in error


def test_show_describes_a_program(capsys, folder, programs):
    """Interface, surroundings, ops and constants."""
    path = folder / (programs[0].key.hex + SUFFIX)

    code, out, _ = run(capsys, "show", path)

    assert code == 0
    assert "argument `images` f32[4,3]" in out
    assert "f32[] = 0.5 in mul" in out
    assert "host.tensorflow = " in out
    assert fits(out)
    shown = json.loads(run(capsys, "show", path, "--json")[1])
    assert shown["ops"]["Mul"] >= 1
    assert shown["constants"][0]["value"] == "0.5"


def test_explain_takes_the_last_two_of_a_program(capsys, folder, programs, flags):
    """Without arguments: what the user has just run into."""
    flags(f"--executable_cache_path={folder}")

    code, out, _ = run(capsys, "explain")

    assert code == 0
    assert out.splitlines() == [
        f"before  program net ({programs[0].key.hex})",
        f"after   program net ({programs[1].key.hex})",
        "- constant 0.5 -> 0.75 baked into `mul`: pass it as an input",
    ]


def test_explain_takes_keys_and_files_and_gives_json(capsys, folder, programs, flags):
    """A key in the folder, a file anywhere."""
    flags(f"--executable_cache_path={folder}")
    path = folder / (programs[1].key.hex + SUFFIX)

    _, out, _ = run(capsys, "explain", programs[0].key.hex, path, "--json")

    (cause,) = json.loads(out)["causes"]
    assert (cause["kind"], cause["before"], cause["after"]) == ("constant", 0.5, 0.75)


def test_diff_shows_the_instruction(capsys, folder, programs):
    """As diff does, with exit code 1; 0 for equal programs."""
    one, other = (folder / (each.key.hex + SUFFIX) for each in programs[:2])

    code, out, _ = run(capsys, "diff", one, other)

    assert code == 1
    changed = [line for line in out.splitlines()[2:] if line[:1] in "+-"]
    assert len(changed) == 2
    assert changed[0].endswith("f32[] constant() 0.5  # mul")
    assert changed[1].endswith("f32[] constant() 0.75  # mul")
    assert run(capsys, "diff", one, one)[:2] == (0, "the programs are the same\n")


def test_check_finds_each_kind_of_damage(capsys, folder, programs):
    """Whole files pass; a flipped byte, a short file, other writers do not."""
    assert run(capsys, "check", folder)[:2] == (0, "3 files, all whole and safe\n")
    paths = [folder / (each.key.hex + SUFFIX) for each in programs]
    data = bytearray(paths[0].read_bytes())
    data[-5] ^= 1
    paths[0].write_bytes(data)
    paths[1].write_bytes(paths[1].read_bytes()[:100])
    paths[2].chmod(0o666)

    code, out, _ = run(capsys, "check", folder)

    assert code == 1
    words = " ".join(out.split())
    assert "the checksum of the executable does not match" in words
    assert "its header of" in words
    assert "can be written by every user" in words
    assert fits(out)


def test_check_finds_a_file_of_another_name(capsys, folder, programs):
    """A program under another's name would never be found."""
    path = folder / (programs[0].key.hex + SUFFIX)
    path.rename(folder / f"123{SUFFIX}")

    code, out, _ = run(capsys, "check", folder)

    assert code == 1
    assert "the digest in its header does not match its file name" in out


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--older-than", "36h"], 1),
        (["--older-than", "30d"], 3),
        (["--keep", "2"], 2),
        (["--keep", "0"], 0),
        (["--max-size", "1k"], 0),
        (["--max-size", "1G"], 3),
        (["--other-versions"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_prune_deletes_what_is_requested(capsys, folder, programs, options, left):
    """The newest stay; a dry run says the same and deletes nothing."""
    dry = run(capsys, "prune", folder, *options, "--dry-run")
    assert len(list(folder.iterdir())) == 3

    wet = run(capsys, "prune", folder, *options)

    kept = {path.name.removesuffix(SUFFIX) for path in folder.iterdir()}
    assert kept == {each.key.hex for each in programs[len(programs) - left :]}
    assert dry[0] == wet[0] == 0
    assert dry[1].count("would be deleted") == wet[1].count("deleted: ") == 3 - left


def test_prune_takes_other_versions(capsys, folder, programs):
    """What this version cannot use."""
    host = programs[1].context["host"] | {"ipufeed": "0" * 16}
    write(folder, programs[1], surroundings=programs[1].context | {"host": host})

    run(capsys, "prune", folder, "--other-versions")

    kept = {path.name.removesuffix(SUFFIX) for path in folder.iterdir()}
    assert kept == {programs[0].key.hex, programs[2].key.hex}


def test_prune_never_deletes_what_is_not_an_executable(capsys, folder):
    """Other files stay, also with our suffix, and what a link leads to."""
    (folder / "notes.txt").write_text("mine")
    (folder / f"abc{SUFFIX}").write_text("not one of yours")
    target = folder.parent / "target"
    target.write_text("elsewhere")
    (folder / f"def{SUFFIX}").symlink_to(target)

    run(capsys, "prune", folder, "--keep", "0")

    assert {path.name for path in folder.iterdir()} == {
        "notes.txt",
        f"abc{SUFFIX}",
        f"def{SUFFIX}",
    }
    assert target.exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "/nowhere/at/all"], "There is no folder /nowhere/at/all"),
        (["list", __file__], "is a file: name the folder"),
        (["show", "tests"], "tests is a folder: name a .poplar_exec file"),
        (["show", "zz"], "neither a file nor a key in hex"),
        (["explain", "1234"], "name the other, too"),
        (["prune", "."], "Choose what to delete"),
        (["show", "/nowhere/1.poplar_exec"], "There is no executable"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_refused_with_the_remedy(capsys, flags, arguments, text):
    """Exit code 2, a sentence in one line of stderr, nothing on stdout."""
    flags("")

    code, out, error = run(capsys, *arguments)

    assert (code, out) == (2, "")
    assert text in error
    assert len(error.splitlines()) == 1


def test_a_wrong_unit_is_refused_by_name(capsys):
    """Argparse's own form: usage, the option, what it must be."""
    with pytest.raises(SystemExit) as caught:
        run(capsys, "prune", "--older-than", "30")

    assert caught.value.code == 2
    assert "--older-than: must be a number and s, min, h, d or w" in (
        capsys.readouterr().err
    )


def test_names_from_a_file_do_not_steer_the_terminal(capsys, folder, programs):
    """Control characters are shown as what they are."""
    write(folder, programs[0], name="evil\x1b[2J\nname", arguments=["\x07bell"])
    path = folder / (programs[0].key.hex + SUFFIX)

    for arguments in (["list", folder], ["show", path], ["explain", path, path]):
        _, out, _ = run(capsys, *arguments)
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "evil\\x1b[2J\\n" in out


def test_names_of_files_do_not_steer_the_terminal(capsys, folder, programs):
    """Also not those of files that are not executables; they are not programs."""
    (folder / f"evil\x1b[31m\nred{SUFFIX}").write_bytes(b"nonsense")

    _, out, _ = run(capsys, "list", folder)

    assert "\x1b" not in out
    assert "evil\\x1b[31m" in out
    assert out.rstrip().splitlines()[-1].startswith("3 programs, ")
    assert out.rstrip().endswith("; 1 other file")


def test_a_copy_of_another_name_shows_its_name(capsys, folder, programs):
    """Two rows of one key are distinguished."""
    path = folder / (programs[0].key.hex + SUFFIX)
    (folder / f"copy{SUFFIX}").write_bytes(path.read_bytes())

    _, out, _ = run(capsys, "list", folder)

    assert f"  in the file copy{SUFFIX}" in out.splitlines()


def test_show_names_the_file_that_is_damaged(capsys, folder, programs):
    """The message alone says which one it is about."""
    path = folder / (programs[0].key.hex + SUFFIX)
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    code, _, error = run(capsys, "show", path)

    assert code == 2
    assert path.name in "".join(error.split())


def test_explain_takes_the_last_two_of_a_folder(capsys, folder, programs, flags):
    """Named instead of set in TF_POPLAR_FLAGS."""
    flags("")

    code, out, _ = run(capsys, "explain", folder)

    assert code == 0
    assert "constant 0.5 -> 0.75" in out


def test_prune_reports_what_it_leaves(capsys, folder, programs):
    """What cannot be read is not deleted, and is not called a program that is kept."""
    (folder / f"abc{SUFFIX}").write_bytes(b"nonsense")

    _, out, _ = run(capsys, "prune", folder, "--keep", "0")

    assert "0 programs kept" in out
    assert "1 file not touched that cannot be read or trusted: see `check`" in out


@pytest.mark.process
def test_the_light_commands_need_no_tensorflow(folder):
    """list, check, prune and --help import nothing that is slow."""
    for arguments in (
        ["--help"],
        ["list", str(folder)],
        ["check", str(folder)],
        ["prune", str(folder), "--keep", "9"],
    ):
        done = children.run(
            [
                sys.executable,
                "-X",
                "importtime",
                "-m",
                "ipufeed.executable",
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=DEADLOCK_S,
            cwd=ROOT,
            check=False,
        )

        assert done.returncode == 0, done.stderr
        imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
        assert "ipufeed.executable.commands.common" in imported
        assert not {"tensorflow", "google.protobuf"} & imported
