"""Which files a command names: read as far as it is plain words, and never further."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.operands import MAX_OPERANDS, Operands, operands, programs


@pytest.mark.parametrize(
    ("command", "required", "named", "fixed"),
    [
        ("ls", (), ("ls",), True),
        ("ls -la src", (), ("ls", "-la", "src"), True),
        ("bash run.sh", ("run.sh",), ("bash",), True),
        ("bash 'my file.sh'", ("my file.sh",), ("bash",), True),
        ("bash ./a/../run.sh", (), ("bash",), False),
        ("./tool", ("tool",), (), True),
        ("/usr/bin/python3 x.py", ("x.py",), (), True),
        ("/opt/python3 x.py", (), ("x.py",), False),
        ("echo x > out.txt", ("out.txt",), ("echo", "x"), True),
        ("echo x >> out.txt 2>&1", ("out.txt",), ("echo", "x", "2"), True),
        ("sort <in.txt >out.txt", ("in.txt", "out.txt"), ("sort",), True),
        ("echo a; cat b | wc -l && true", (), ("echo", "a", "cat", "b", "wc", "-l", "true"), True),
        ("make", (), ("make",), False),
        ("bash", (), ("bash",), False),
        ("bash -x run.sh", (), ("bash", "-x", "run.sh"), False),
        ("A=1 ls", (), ("ls",), False),
        ("A=1", (), (), False),
        ("tool --in=a.txt", (), ("tool", "--in=a.txt", "a.txt"), False),
        ("echo $HOME", (), ("echo", "$HOME"), False),
        ("cat <<EOF", ("EOF",), ("cat",), False),
        ("", (), (), True),
        ("echo 'open", (), (), False),
        ("cd sub; ./x", ("sub/x",), ("cd", "sub", "sub/./x"), False),
        ("cd $X; ./x", ("$X/x",), ("cd", "$X"), False),
        ("cd a b; ./x", (), ("cd", "a", "b"), False),
    ],
)
def test_reading(command: str, required: tuple[str, ...], named: tuple[str, ...], fixed: bool) -> None:
    """Scripts, programs by path and redirections are required; every other word is a name; the rest is not fixed."""
    found = operands(command)
    assert (found.required, found.fixed) == (required, fixed)
    assert set(found.named) >= {name for name in named if name.isalnum()}


def test_a_folder_is_where_words_are_read() -> None:
    """Relative words mean files of the folder in which the command runs, absolute ones those of the workspace."""
    found = operands("bash run.sh /workspace/data.txt", "sub/deep")
    assert found == Operands(required=("sub/deep/run.sh",), named=("sub/deep/bash", "data.txt"), fixed=True)


def test_their_number_is_bounded() -> None:
    """Beyond a number of files the rest is not read, and nothing is called fixed."""
    found = operands("cat " + " ".join(f"file{n}" for n in range(1000)))
    assert len(found.named) == MAX_OPERANDS
    assert not found.fixed


@given(st.text(max_size=60), st.sampled_from(["", "sub"]))
def test_any_text_is_read(command: str, folder: str) -> None:
    """Whatever the text is, reading it ends without an error, and no path leaves the workspace."""
    found = operands(command, folder)
    for path in (*found.required, *found.named):
        assert not path.startswith("/")
        assert ".." not in path.split("/")
    programs(command)


@given(st.text(alphabet="ab.sh/$`*?;|&<>(){}[]~!\\\n'\"# \t=-", max_size=30))
def test_nothing_with_an_expansion_is_fixed(command: str) -> None:
    """A character by which the shell would make other words than those read means that nothing is fixed."""
    if set(command) & set("$`*?[]{}~!\\\n"):
        assert not operands(command).fixed


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("git status", ("git",)),
        ("SECRET=abc curl -H 'token: x' https://x.test", ("curl",)),
        ("/usr/bin/python3 -c 'x' | sort; sort", ("python3", "sort")),
        ("echo 'unclosed", ()),
        ("$(evil) x", ("evil", "x")),
        ("averyveryverylongnamethatcouldbeasecret x", ()),
    ],
)
def test_programs_are_named_without_their_arguments(command: str, names: tuple[str, ...]) -> None:
    """For shared places: the programs' own names, no assignment, no argument, nothing long."""
    assert programs(command) == names
