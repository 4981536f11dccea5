"""The check of the house rules finds what it has to find, and allows what it says."""

from pathlib import Path
from textwrap import dedent, indent

import house
import pytest

OPERATOR = "core/windrow/operator/example.py"


def found(source: str, path: str = OPERATOR) -> list[str]:
    return [f"{each.line} {each.message}" for each in house.check(Path(path), dedent(source))]


def method(body: str, parameters: str = "") -> str:
    """A method of the class ``Table``, whose body starts in line 3."""
    return f"class Table:\n    def method(self{parameters}):\n{indent(dedent(body), ' ' * 8)}"


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("other._rows", "other._rows"),
        ("self.other._rows", "self.other._rows"),
        ("make()._rows", "make()._rows"),
        ("other._rows()", "other._rows"),
        ("getattr(other, '_rows')", "other._rows"),
        ("hasattr(self.other, '_rows')", "self.other._rows"),
        ("from windrow.operator import _rows", "windrow.operator._rows"),
        ("other = Row()\nreturn other._rows", "other._rows"),
        ("other = Table\nreturn other._rows", "other._rows"),
    ],
)
def test_private_names_of_others_are_found(body: str, written: str) -> None:
    line = 2 + len(body.splitlines())
    assert found(method(body)) == [f"{line} uses a private name of another object: {written}"]


@pytest.mark.parametrize(
    "body",
    [
        "self._rows",
        "cls._rows",
        "super()._rows()",
        "Table._rows",
        "other.__dict__",
        "other._replace(rows=1)._asdict(), other._fields, other._make([])",
        "other = Table()\nreturn other._rows",
        "other: Table = cls()\nreturn other._rows",
        "if other := type(self)():\n    return other._rows",
        "return isinstance(other, Table) and self._rows == other._rows",
        "def inner():\n    return self._rows\nreturn inner",
        "getattr(self, '_rows'), getattr(other, 'rows'), getattr(other, name)",
        "_, rows = other",
    ],
)
def test_private_names_of_its_own_are_allowed(body: str) -> None:
    assert not found(method(body))


@pytest.mark.parametrize("annotation", ["Table", "'Table'", "Self"])
def test_a_parameter_of_the_same_class_is_its_own(annotation: str) -> None:
    assert not found(method("return other._rows", f", other: {annotation}"))
    assert found(method("return other._rows", ", other: Row"))


def test_a_class_is_its_own_only_inside() -> None:
    assert found("class Table:\n    pass\n\ntable = Table()\ntable._rows\n") == [
        "5 uses a private name of another object: table._rows"
    ]


def test_private_names_of_an_engine_are_listed_for_its_adapter_alone() -> None:
    source = "def of(stream): return stream._j_data_stream"
    assert not found(source, "flink_ops/windrow_flink/example.py")
    assert found(source, "spark_ops/windrow_spark/example.py")


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("other.rows = 1", "other.rows"),
        ("other.rows += 1", "other.rows"),
        ("other.rows: int = 1", "other.rows"),
        ("del other.rows", "other.rows"),
        ("self.other.rows = 1", "self.other.rows"),
        ("other.rows, self.rows = 1, 2", "other.rows"),
        ("for other.rows in range(3): pass", "other.rows"),
        ("with opened() as other.rows: pass", "other.rows"),
        ("setattr(other, 'rows', 1)", "other.rows"),
        ("setattr(other, name, 1)", "other.…"),
        ("object.__setattr__(other, 'rows', 1)", "other.rows"),
        ("delattr(other, 'rows')", "other.rows"),
        ("made = cls(); made.rows = 1", "made.rows"),
        ("made = Table(); made.rows = 1", "made.rows"),
    ],
)
def test_attributes_that_are_assigned_from_outside_are_found(body: str, written: str) -> None:
    assert found(method(body)) == [f"3 assigns an attribute of another object: {written}"]


def test_a_private_attribute_that_is_assigned_from_outside_breaks_both_rules() -> None:
    assert len(found(method("other._rows = 1"))) == len(found(method("setattr(other, '_rows', 1)"))) == 2


@pytest.mark.parametrize(
    "body",
    [
        "self.rows = 1",
        "self.rows += 1",
        "cls.rows = 1",
        "Table.rows = 1",
        "setattr(self, name, 1)",
        "object.__setattr__(self, 'rows', 1)",
        "other.rows[0] = 1",
        "other.rows[:] += 1",
        "other = Table(rows=1)",
        "function.__qualname__ = 'name'",
        "self.here = threading.local()\nself.here.depth = 1",
    ],
)
def test_attributes_of_its_own_are_allowed(body: str) -> None:
    assert not found(method(body))


def test_attributes_of_other_libraries_are_listed_by_package() -> None:
    source = "def of(element): element.text = 'x'"
    assert not found(source, "conformance/windrow_conformance/example.py")
    assert found(source) == ["1 assigns an attribute of another object: element.text"]


def test_long_files_of_core_are_found() -> None:
    assert not found("x = 1\n" * 400)
    assert found("x = 1\n" * 401) == ["1 file has 401 lines, more than 400"]
    assert not found("x = 1\n" * 401, "spark_ops/windrow_spark/example.py")


def test_long_functions_are_found() -> None:
    fits = 'def long():\n    """One.\n\n    Two.\n    """\n' + "    x = 1\n" * 59
    assert not found(fits)
    assert found(fits + "    x = 1\n") == ["1 function long has 61 lines, more than 60"]
    inside = "class C:\n" + indent(fits + "    x = 1\n", "    ")
    assert found(inside, "flink_ops/windrow_flink/example.py") == [
        "2 function long has 61 lines, more than 60"
    ]


def test_many_parameters_are_found() -> None:
    assert not found("class C:\n    def many(self, a, b, c, d, /, e, f, *g, h): pass\n")
    assert found("def many(a, b, c, d, /, e, f, *g, h, **i): pass\n") == [
        "1 function many has 9 parameters, more than 8"
    ]
    kernels = "core/windrow/kernels/slices/example.py"
    assert not found("def many(a, b, c, d, e, f, g, h, i, j): pass\n", kernels)
    assert found("def many(a, b, c, d, e, f, g, h, i, j, k): pass\n", kernels) == [
        "1 function many has 11 parameters, more than 10"
    ]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (OPERATOR, "import windrow_spark"),
        (OPERATOR, "def late():\n    from windrow_conformance.command import main"),
        (OPERATOR, "importlib.import_module('windrow_flink.stream')"),
        ("spark_ops/windrow_spark/example.py", "from windrow_flink import windowed"),
        ("flink_ops/windrow_flink/example.py", "import windrow_spark.batch as batch"),
        ("flink_ops/windrow_flink/example.py", "import windrow_conformance"),
    ],
)
def test_imports_of_the_packages_above_are_found(path: str, source: str) -> None:
    (only,) = found(source, path)
    assert " imports windrow_" in only


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (OPERATOR, "import windrow.windows, numpy, windrow_like"),
        ("core/windrow/cli/conformance.py", "import_module('windrow_conformance.command')"),
        ("spark_ops/windrow_spark/example.py", "import windrow as wr\nfrom windrow_spark.batch import run"),
        ("flink_ops/windrow_flink/example.py", "from windrow.operator import Operator\nfrom . import stream"),
        ("conformance/windrow_conformance/example.py", "import windrow, windrow_spark, windrow_flink"),
    ],
)
def test_imports_of_the_packages_below_are_allowed(path: str, source: str) -> None:
    assert not found(source, path)


@pytest.mark.parametrize("layer", sorted(house.LOWER_LAYERS))
def test_a_lower_layer_does_not_import_upwards(layer: str) -> None:
    path = f"core/windrow/{layer}/example.py"
    for source in (
        "from windrow.operator.slices import State",
        "import windrow.storage.pages",
        "from windrow import cli",
        "def late():\n    from windrow.demo import page",
        "from ..pipelines import graph",
    ):
        (only,) = found(source, path)
        assert f"{layer} imports windrow." in only and "layers above" in only, source
    (only,) = found("from windrow import Operator", path)
    assert "from the root package" in only
    assert not found("from windrow import durations\nfrom windrow.windows import Window", path)
    assert not found(
        "from windrow.columns import arrow\nfrom windrow.errors import WindrowError\nimport operator", path
    )


def test_upper_layers_and_the_root_import_everything() -> None:
    for path in (OPERATOR, "core/windrow/local.py", "core/windrow/__init__.py"):
        assert not found("from windrow.storage import pages\nfrom windrow.operator import Operator", path)


def test_a_violation_is_printed_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    (only,) = house.check(Path(OPERATOR), "x.y = 1")
    assert str(only) == f"{OPERATOR}:1 assigns an attribute of another object: x.y"
    code = house.main()
    assert code == bool(capsys.readouterr().out)


def test_every_package_is_checked() -> None:
    seen = {file.relative_to(house.ROOT).parts[1] for file in house.files()}
    assert seen == set(house.PACKAGES)


def test_one_name_stands_for_one_class() -> None:
    sources = {
        Path("core/windrow/a.py"): "class Rows: ...\nclass _Own: ...",
        Path("core/windrow/b.py"): "class _Own: ...\nclass Rows: ...",
    }
    (found,) = house.shared_names(sources)
    assert str(found) == "core/windrow/b.py:2 class Rows has the name of another in core/windrow/a.py"
