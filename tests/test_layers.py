"""The house has floors: who may import whom, where files and heavy libraries may appear, and how large a room may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import roofline

PACKAGE = Path(roofline.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# A module imports from lower floors, or from what stands before it on its own. A name with a slash is a package; its
# modules keep house among themselves.
FLOORS: tuple[tuple[str, ...], ...] = tuple(
    tuple(f"{folder}{name}" for name in names.split())
    for folder, names in (
        ("", "errors units dtypes num ledger"),
        (
            "specs.",
            "record hardware fabric matrix recurrent mixers ffns layers images towers model precision plan shard engine "
            "offload arrivals beginnings workload sessions slo huggingface gguf traces catalog deployment",
        ),
        (
            "work.",
            "step sight sums routing matmul place exchange indexer attention latent compressed recurrent ffn elementwise "
            "footprint kvcache pages reserve naming count",
        ),
        ("timing.", "efficiency shipped collectives laws clock elsewhere pipeline steplaw"),
        (
            "answers.",
            "inputs estimates records tiers caches phases crossings memory chunks mixed drafters speculation decoding "
            "prediction whatif fitting levers sensitivity cost breakeven energy weights offload transfer disaggregation "
            "ladder eager lever_table steps simulate serving mix checklist sizing",
        ),
        (
            "evidence.",
            "runs readers measurements saturation agreement passes calibration accuracy comparison reference",
        ),
        ("views.", "words files progress engine_names sweep plot walkthrough report dashboard cli"),
        ("", "__main__"),
    )
)
PLACE = {name: (floor, i) for floor, names in enumerate(FLOORS) for i, name in enumerate(names)}
APART = [{"work", "timing"}]
HEAVY = {"pandas", "matplotlib"}
LAZY = {
    "yaml": ("specs.catalog", "views"),
    "json": ("specs", "evidence", "views"),
    "rich": ("views",),
    "typer": ("views",),
}
PATHS = ("specs.catalog", "specs.huggingface", "specs.gguf", "specs.traces", "evidence", "views", "__main__")


def room(module: str) -> str:
    """The listed name a module stands under: `views.cli.predict` belongs to `views.cli`."""
    parts = module.split(".")
    return next((".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in PLACE), module)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> tuple[tuple[ast.AST, bool], ...]:
    """Every node of a module's tree, and whether it lies inside a function or under TYPE_CHECKING."""

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[ast.AST, bool]]:
        for child in ast.iter_child_nodes(node):
            deeper = inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            deeper |= isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            yield child, deeper
            yield from walk(child, deeper)

    return tuple(walk(tree(module), False))


def imports(module: str) -> Iterator[tuple[str, bool]]:
    """(imported, inside a function) of a module; ours without their "roofline.", down to the module where one is named."""
    for node, inside in nodes(module):
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: write imports in full"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((n if n.removeprefix("roofline.") in MODULES else node.module or "", inside) for n in named)


def ours(module: str) -> set[str]:
    found = {name.removeprefix("roofline.") for name, _ in imports(module) if name.startswith("roofline.")}
    return {room(name) for name in found} - {room(module)}


HOUSE = [name for name, path in MODULES.items() if path.name != "__init__.py" or room(name) in PLACE]


def test_the_house_was_found() -> None:
    assert {"ledger", "specs.model", "work.count", "timing.clock", "answers.phases"} <= set(HOUSE)
    assert ours("timing.clock") >= {"ledger", "specs.hardware"}


@pytest.mark.parametrize("module", HOUSE)
def test_every_module_has_a_floor(module: str) -> None:
    assert room(module) in PLACE


@pytest.mark.parametrize("module", HOUSE)
def test_a_module_imports_only_from_below_or_from_before_it(module: str) -> None:
    above = {name for name in ours(module) if PLACE.get(name, (99, 0)) >= PLACE[room(module)]}
    assert above == set()


@pytest.mark.parametrize("module", HOUSE)
def test_counting_knows_no_timing_and_timing_no_counting(module: str) -> None:
    top = module.split(".")[0]
    for pair in APART:
        if top in pair:
            assert {name.split(".")[0] for name in ours(module)} & (pair - {top}) == set()


@pytest.mark.parametrize("module", [name for name in MODULES if name not in HOUSE])
def test_a_folder_s_own_module_only_says_what_the_folder_is(module: str) -> None:
    """The front door (`roofline/__init__.py`, the module "__init__") is the one that opens into the house."""
    if module != "__init__":
        assert [type(node) for node in tree(module).body] in ([], [ast.Expr])


@pytest.mark.parametrize("module", MODULES)
def test_pandas_and_matplotlib_are_imported_inside_functions(module: str) -> None:
    assert {name for name, inside in imports(module) if name.split(".")[0] in HEAVY and not inside} == set()


@pytest.mark.parametrize("module", MODULES)
def test_files_and_consoles_are_at_the_rim(module: str) -> None:
    for name, _ in imports(module):
        for library, rims in LAZY.items():
            if name.split(".")[0] == library:
                assert any(module == rim or module.startswith(f"{rim}.") for rim in rims), name
        if name.split(".")[0] == "pathlib":
            assert any(module == rim or module.startswith(f"{rim}.") for rim in PATHS), name


@pytest.mark.parametrize("module", [name for name in MODULES if name.split(".")[0] in ("work", "timing")])
def test_counting_and_timing_never_branch_on_a_comparison_of_numbers(module: str) -> None:
    """House rule 3: `np.minimum`, not `if n_past > window`. Asking what kind of thing a value is, is not such a branch."""
    ordering = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    branches = [node.test for node, _ in nodes(module) if isinstance(node, (ast.If, ast.IfExp, ast.While))]
    ordered = [
        ast.unparse(test)
        for test in branches
        for part in ast.walk(test)
        if isinstance(part, ast.Compare)
        and any(isinstance(op, ordering) for op in part.ops)
        and "len(" not in ast.unparse(part)
    ]
    assert ordered == []


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from its name to its end, its docstring not counted."""
    first = node.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    end = node.end_lineno or node.lineno
    return end - node.lineno + 1 - ((first.end_lineno or 0) - first.lineno + 1 if documented else 0)


@pytest.mark.parametrize("module", MODULES)
def test_rooms_are_small(module: str) -> None:
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= 400
    long = {
        node.name: code_lines(node)
        for node, _ in nodes(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and code_lines(node) > 60
    }
    assert long == {}


@pytest.mark.parametrize("module", MODULES)
def test_nothing_asserts_prints_or_exits_below_the_views(module: str) -> None:
    """`assert` is for tests; answers are returned; a library does not leave the program."""
    if module.startswith("views") or module == "__main__":
        return
    found = [
        ast.unparse(node)
        for node, _ in nodes(module)
        if isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.exit", "exit", "quit", "os._exit"))
    ]
    assert found == []
