import sys

import pytest

from harness.errors import TargetError
from harness.pipeline import code_of, code_version
from harness.replay import load_target


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "shopcode"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "flow.py").write_text("from shopcode.helper import add\n\ndef run(x):\n    return add(x)\n")
    (folder / "helper.py").write_text("def add(x):\n    return x + 1\n")
    (folder / "rules.json").write_text("{}")
    sys.path.insert(0, str(tmp_path))
    yield folder
    sys.path.remove(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("shopcode")]:
        del sys.modules[name]


@pytest.mark.parametrize("file", ["flow.py", "helper.py", "rules.json", "__init__.py"])
def test_an_edit_of_any_file_of_the_package_is_another_version(package, file):
    before = code_version("shopcode")
    assert code_version("shopcode") == before
    (package / file).write_text((package / file).read_text() + "\n# edited")
    assert code_version("shopcode") != before


def test_a_new_file_and_a_renamed_one_are_other_versions(package):
    before = code_version("shopcode")
    (package / "helper.py").rename(package / "helping.py")
    renamed = code_version("shopcode")
    (package / "new.py").write_text("")
    assert len({before, renamed, code_version("shopcode")}) == 3


def test_line_endings_and_compiled_files_do_not_count(package):
    before = code_version("shopcode")
    text = (package / "flow.py").read_bytes()
    (package / "flow.py").write_bytes(text.replace(b"\n", b"\r\n"))
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "flow.cpython-311.pyc").write_bytes(b"x")
    assert code_version("shopcode") == before


def test_an_extension_module_and_the_content_of_a_large_file_count(package):
    (package / "fast.cpython-311-x86_64-linux-gnu.so").write_bytes(b"one")
    (package / "table.bin").write_bytes(b"\0" * (2 << 20) + b"a")
    before = code_version("shopcode")
    (package / "table.bin").write_bytes(b"\0" * (2 << 20) + b"b")
    large = code_version("shopcode")
    (package / "fast.cpython-311-x86_64-linux-gnu.so").write_bytes(b"two")
    assert len({before, large, code_version("shopcode")}) == 3


def test_linked_folders_count_and_a_link_to_a_folder_above_does_not_hang(package, tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "a.txt").write_text("a")
    (package / "linked").symlink_to(rules, target_is_directory=True)
    (package / "round").symlink_to(package, target_is_directory=True)
    before = code_version("shopcode")
    (rules / "a.txt").write_text("b")
    assert code_version("shopcode") != before


def test_every_portion_of_a_namespace_package_counts(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name / "shopspace").mkdir(parents=True)
        (tmp_path / name / "shopspace" / f"{name}.py").write_text("A = 1\n")
        monkeypatch.syspath_prepend(str(tmp_path / name))
    before = code_version("shopspace")
    for name in ("first", "second"):
        (tmp_path / name / "shopspace" / f"{name}.py").write_text("A = 22\n")
        assert code_version("shopspace") != before
        before = code_version("shopspace")


def test_a_module_without_package_counts_with_its_neighbours(tmp_path):
    (tmp_path / "lonelyflow.py").write_text("def run():\n    return 1\n")
    (tmp_path / "lonelyhelper.py").write_text("A = 1\n")
    sys.path.insert(0, str(tmp_path))
    try:
        run = load_target("lonelyflow:run")
        before = code_of(run)
        (tmp_path / "lonelyhelper.py").write_text("A = 22\n")
        assert code_of(run) != before
    finally:
        sys.path.remove(str(tmp_path))


def test_a_missing_package_is_named():
    with pytest.raises(TargetError, match="no_such_package"):
        code_version("no_such_package")


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("shopcode", "package.module:function"),
        ("shopcode.flow:missing", "no function 'missing'"),
        ("shopcode.nothing:run", "ModuleNotFoundError"),
        ("no_such_package:run", "no_such_package"),
    ],
)
def test_a_target_that_does_not_import_is_explained(package, ref, says):
    with pytest.raises(TargetError, match=says):
        load_target(ref)
