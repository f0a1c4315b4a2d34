"""tools/words.py: which words of a text it finds, and where it looks."""

import importlib.util

import pytest
from helpers import ROOT

TOOL = ROOT / "tools" / "words.py"


@pytest.fixture(scope="module")
def words():
    spec = importlib.util.spec_from_file_location("words_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("The one who waits.", "who"),
        ("Whoever takes it.", "Whoever"),
        ("For whom it waits.", "whom"),
        ("That nobody reads.", "nobody"),
        ("Somebody waits.", "Somebody"),
        ("If anybody waits.", "anybody"),
        ("What someone meant.", "someone"),
        ("It starts anew.", "anew"),
        ("And the end thereof.", "thereof"),
        ("It lies beside the file.", "beside"),
        ("Of so many bytes.", "so many"),
        ("It is no list.", "is no"),
        ("They are no lists.", "are no"),
        ("It must be no list.", "be no"),
        ("The reason is said.", "said"),
        ("The caller is told.", "told"),
        ("A line tells why.", "tells"),
        ("What the graph says of a step.", "says of"),
        ("The reader hears it.", "hears"),
        ("The meeting of replicas.", "meeting"),
        ("A program on a chip.", "chip"),
        ("A file of ours.", "of ours"),
        ("It does no harm twice.", "does harm"),
        ("The work so often.", "so often"),
        ("It is set once more.", "once more"),
        ("Python ends it without a word.", "without word"),
        ("What looks at each result.", "looks at"),
        ("It has gone meanwhile.", "meanwhile"),
        ("An error with the way out.", "the out"),
        ("Values that take turns.", "take turns"),
        ("Measured in turn.", "in turn"),
        ("A step that hides behind another.", "hides behind"),
        ("The step that holds the pipeline up.", "holds up"),
        ("It takes next to nothing.", "next nothing"),
        ("It repeats for ever.", "for ever"),
        ("What was asked for.", "asked for"),
        ("Sentences for people.", "for people"),
        ("Above this share of it.", "share"),
        ("A sleep of so long.", "so long"),
        ("The fastest of several stretches.", "stretches"),
    ],
)
def test_each_form_is_found_in_each_language(words, text, form):
    """With the line, and what to write instead."""
    for path, source in (
        ("a.md", f"\n{text}\n"),
        ("a.h", f"\n// {text}\n"),
        ("a.py", f"\nx = 1  # {text}\n"),
        ("a.py", f'\nx = f"{text} {{x}}"\n'),
        ("a.py", f'"""A docstring.\n    {text}\n"""\n'),
    ):
        (found,) = words.finds(path, source)
        assert found.startswith(f"{path}:2: {form}: "), source
        assert any(found.endswith(f": {instead}") for _, instead in words.FORMS)


@pytest.mark.parametrize(
    "source",
    [
        '"""What is\n    no list."""\n',
        "# What is\n# no list.\n",
        'print(\n    "what is "\n    "no list"\n)\n',
        'print(\n    "what is"\n    f" no list of {x}"\n)\n',
    ],
)
def test_a_form_on_two_lines_is_found(words, source):
    """At its first line, in a docstring, in comments and in strings that follow."""
    (found,) = words.finds("a.py", source)
    first = next(n for n, line in enumerate(source.splitlines(), 1) if "hat is" in line)
    assert found.startswith(f"a.py:{first}: is no: ")


@pytest.mark.parametrize(
    "text",
    [
        "There is no folder.",
        "Where there\nis no folder; there may be no file; there are no files.",
        "It is no longer there, and is no more than that.",
        "It is no larger than the file.",
        "The answer is no.",
        "A file whose owner is root.",
        "The whole of it, besides, is not a list.",
        "Many are so; many are not.",
    ],
)
def test_a_clean_text_passes(words, text):
    """What looks like a form and is plain English."""
    assert list(words.finds("a.md", text)) == []


def test_names_in_python_code_are_left_alone(words):
    """But for those of tests, which are sentences; strings and comments are read."""
    assert list(words.finds("a.py", "beside = who(nobody)\nx = anew  # as is\n")) == []


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("who_waits_gets_it", "who"),
        ("a_file_that_is_no_list_is_refused", "is no"),
        ("a_program_says_so", "says"),
        ("it_repeats_for_ever", "for ever"),
    ],
)
@pytest.mark.parametrize("indent", ["", "    "])
def test_a_form_in_the_name_of_a_test_is_found(words, sentence, form, indent):
    """At the line of the name; a helper's name is not a sentence."""
    (find,) = words.finds("a.py", f"\n{indent}def test_{sentence}():\n")
    assert find.startswith(f"a.py:2: test_{sentence}: {form}: ")
    assert list(words.finds("a.py", f"def {sentence}():\n    pass\n")) == []


def test_an_exception_is_for_one_text_of_one_file(words, monkeypatch):
    """A quoted message passes there, and is found elsewhere."""
    monkeypatch.setattr(words, "EXCEPTIONS", {("a.md", "> It is no list"): "quoted"})
    assert list(words.finds("a.md", "the verdict is *cannot\ntell*\n")) == []
    assert list(words.finds("a.md", "> It is no list\n")) == []
    assert len(list(words.finds("a.md", "It is no list\n"))) == 1
    assert len(list(words.finds("b.md", "> It is no list\n"))) == 1


def test_each_exception_is_needed(words):
    """One whose text has gone would hide the next find."""
    for path, text in words.EXCEPTIONS:
        assert text in (ROOT / path).read_text()


def test_folders_are_read_and_the_exit_code_shows_finds(
    words, monkeypatch, tmp_path, capsys
):
    """All files of its languages; a folder that is not clean only where it is named."""
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "CLEAN", ("here",))
    for folder in ("here", "later"):
        (tmp_path / folder).mkdir()
    for name in ("here/b.md", "later/c.md", "here/d.svg"):
        (tmp_path / name).write_text("It starts anew.\n")
    assert words.main(()) == 1
    assert capsys.readouterr().out == "here/b.md:1: anew: again, or restart\n"
    assert words.main(("later",)) == 1
    assert "later/c.md:1" in capsys.readouterr().out
    (tmp_path / "here/b.md").write_text("It starts again.\n")
    assert words.main(()) == 0
    assert capsys.readouterr().out == ""
