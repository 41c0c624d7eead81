import functools
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import trio

from tools.base import Call, Tool, ToolError, ToolOutput
from tools.python_function import FunctionError, load, wrap
from tools.spill import SpillFolder


def call(progress: Callable[[str], None] = lambda line: None) -> Call:
    return Call("call_1", SpillFolder(Path("/nowhere")), progress)


async def answer(tool: Tool, arguments: bytes = b"{}") -> ToolOutput:
    return await tool.run(arguments, call())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def double(number: int, times: int = 1) -> int:
    """Double a number.

    Args:
        number: The number.
        times: How often.
    """
    return int(number * 2**times)


async def test_a_function_is_a_tool() -> None:
    tool = wrap(double)

    output = await answer(tool, b'{"number": 4}')

    assert (tool.name, tool.description) == ("double", "Double a number.")
    assert msgspec.json.decode(tool.parameters) == {
        "type": "object",
        "properties": {
            "number": {"description": "The number.", "type": "integer"},
            "times": {"description": "How often.", "type": "integer", "default": 1},
        },
        "required": ["number"],
        "additionalProperties": False,
    }
    assert output == ToolOutput("double: 8", "8")


async def test_an_async_function_runs_on_the_loop() -> None:
    async def wait(seconds: float) -> str:
        await trio.sleep(seconds)
        return threading.current_thread().name

    output = await answer(wrap(wait), b'{"seconds": 0.001}')

    assert output.content == threading.current_thread().name


async def test_a_decorator_may_hide_that_a_function_is_async() -> None:
    def logged(function: Callable[[], Awaitable[str]]) -> Callable[[], Awaitable[str]]:
        @functools.wraps(function)
        def wrapper() -> Awaitable[str]:
            return function()

        return wrapper

    @logged
    async def greet() -> str:
        await trio.lowlevel.checkpoint()
        return "hello"

    assert (await answer(wrap(greet))).content == "hello"


async def test_a_default_that_json_has_no_word_for_is_left_to_the_function() -> None:
    own = ["x"]

    def f(a: int = 1, b: str = "é", c: list[str] = own) -> str:
        return f"{a}{b}{c is own}"

    assert (await answer(wrap(f))).content == "1éTrue"


async def test_the_call_is_given_to_who_asks_for_it() -> None:
    lines: list[str] = []

    def work(steps: int, call: Call) -> str:
        for step in range(steps):
            call.progress(f"step {step}")
        return call.call_id

    output = await wrap(work).run(b'{"steps": 2}', call(lines.append))

    assert (output.content, lines) == ("call_1", ["step 0", "step 1"])


async def test_the_call_cannot_be_given_by_the_model() -> None:
    def work(call: Call) -> str:
        return call.call_id

    with pytest.raises(ToolError, match="there is no argument call"):
        await answer(wrap(work), b'{"call": {}}')


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (b'{"number": "4"}', 'number: expected an integer, got "4"'),
        (b"{}", "missing: number. The arguments are: number, times."),
        (
            b'{"number": 1, "time": 2}',
            "there is no argument time (did you mean times?). The arguments are: number, times.",
        ),
        (b'{"number": 1', "the arguments are not valid JSON"),
    ],
)
async def test_wrong_arguments_are_named(arguments: bytes, error: str) -> None:
    with pytest.raises(ToolError) as caught:
        await answer(wrap(double), arguments)

    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    "error", [ToolError("try again"), ValueError("no"), SystemExit(3)]
)
async def test_what_a_function_raises_passes_as_it_is(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await answer(wrap(fail))

    assert caught.value is error


async def test_a_cancel_does_not_wait_for_a_function_in_a_thread() -> None:
    started, release = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def hang() -> None:
        token.run_sync_soon(started.set)
        release.wait(90)

    before = trio.current_time()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, wrap(hang))
            await started.wait()
            scope.cancel()

    assert scope.cancelled_caught
    assert trio.current_time() - before < 5
    release.set()


async def test_functions_that_hang_leave_the_threads_of_others_alone() -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait(90)

    with trio.move_on_after(0.1):
        async with trio.open_nursery() as nursery:
            for _ in range(100):  # more than trio has threads by default
                nursery.start_soon(answer, wrap(hang))

    with trio.fail_after(30):
        assert await trio.to_thread.run_sync(lambda: "served") == "served"
    release.set()


async def test_a_repr_that_never_ends_can_be_cancelled() -> None:
    release = threading.Event()

    class Slow:
        def __repr__(self) -> str:
            release.wait(90)
            return "slow"

    async def f() -> Slow:
        return Slow()

    started = time.monotonic()
    with trio.move_on_after(0.05) as scope:
        await answer(wrap(f))
    release.set()

    assert (scope.cancelled_caught, time.monotonic() - started < 30) == (True, True)


def test_a_function_has_effects_unless_it_says_that_it_only_reads() -> None:
    def writes() -> None: ...
    def reads() -> None: ...

    reads.read_only = True  # type: ignore[attr-defined]  # how a user says it

    assert (wrap(writes).has_effects, wrap(reads).has_effects) == (True, False)


@pytest.mark.parametrize("name", ["<lambda>", "größe", "a" * 65, "has space"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    def f() -> None: ...

    f.__name__ = name

    with pytest.raises(FunctionError, match="cannot be a tool's name"):
        wrap(f)


def test_a_name_may_be_given() -> None:
    assert wrap(lambda: None, "nothing").name == "nothing"


async def test_a_function_is_loaded_from_a_file(tmp_path: Path) -> None:
    write(
        tmp_path / "lib" / "greet.py", "def hello(name: str):\n    return f'hi {name}'"
    )

    tool = load("lib/greet.py:hello", tmp_path)

    assert tool.name == "hello"
    assert await answer(tool, b'{"name": "Al"}') == ToolOutput("hello: hi Al", "hi Al")


async def test_files_of_one_name_do_not_clash_and_shadow_nothing(
    tmp_path: Path,
) -> None:
    import tools

    path = list(sys.path)
    for folder in ("a", "b"):
        write(tmp_path / folder / "tools.py", f"def where():\n    return {folder!r}")

    loaded = [load(f"{folder}/tools.py:where", tmp_path) for folder in ("a", "b")]

    assert [(await answer(tool)).content for tool in loaded] == ["a", "b"]
    assert (sys.modules["tools"], sys.path) == (tools, path)


async def test_a_file_is_run_once_for_all_its_functions(tmp_path: Path) -> None:
    write(
        tmp_path / "state.py",
        "seen = []\n"
        "def put(x: int):\n    seen.append(x)\n"
        "def count():\n    return len(seen)\n",
    )

    await answer(load("state.py:put", tmp_path), b'{"x": 1}')
    counted = await answer(load("./state.py:count", tmp_path))

    assert counted.content == "1"


async def test_siblings_are_imported_relatively(tmp_path: Path) -> None:
    write(tmp_path / "helpers.py", "NAME = 'helped'")
    write(
        tmp_path / "main.py",
        "from . import helpers\nfrom .helpers import NAME\n"
        "def f():\n    return NAME + helpers.NAME",
    )

    assert (await answer(load("main.py:f", tmp_path))).content == "helpedhelped"


async def test_a_file_loaded_by_itself_is_the_module_its_sibling_imports(
    tmp_path: Path,
) -> None:
    write(tmp_path / "state.py", "seen = []\ndef put(x: int):\n    seen.append(x)")
    write(tmp_path / "main.py", "from . import state\ndef f():\n    return state.seen")

    await answer(load("state.py:put", tmp_path), b'{"x": 1}')

    assert (await answer(load("main.py:f", tmp_path))).content == "[1]"


async def test_a_file_whose_name_is_no_identifier_is_loaded(tmp_path: Path) -> None:
    write(tmp_path / "my.own-tools.py", "def f():\n    return __name__")

    output = await answer(load("my.own-tools.py:f", tmp_path))

    assert (output.content or "").count(".") == 1


async def test_types_of_the_file_work_as_annotations(tmp_path: Path) -> None:
    write(
        tmp_path / "typed.py",
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Point:\n    x: int\n"
        "def f(p: Point):\n    return p",
    )

    tool = load("typed.py:f", tmp_path)

    assert (await answer(tool, b'{"p": {"x": 3}}')).content == '{"x":3}'


def test_what_a_file_prints_when_it_is_loaded_is_not_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "loud.py", "print('loading')\ndef f(): ...")

    load("loud.py:f", tmp_path)

    assert capsys.readouterr() == ("", "loading\n")


@pytest.mark.parametrize("spec", ["f", "a.py", "a.py:", ":f", "a.txt:f", "a.py:A.b"])
def test_a_spec_of_another_form_says_the_form(tmp_path: Path, spec: str) -> None:
    with pytest.raises(FunctionError) as caught:
        load(spec, tmp_path)

    assert str(caught.value) == f"{spec!r}: write it as path/to/file.py:function"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def fetch(): ...", "m.py: there is no function f; it has fetch"),
        ("def ff(): ...\ndef other(): ...", "m.py: there is no function f; did you mean ff?"),
        ("from os import getcwd", "m.py: there is no function f; it has no functions"),
        ("f = 3", "m.py:f: it is no function but a int: write a def around it"),
        ("def f(x): ...", "m.py:f: parameter x has no type: annotate it, x: str, say (typing.Any for any JSON)"),
        ("x = 1\nimport nothing_like_it", "m.py, line 2: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("def g():\n    1 / 0\n\ng()", "m.py, line 2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(2)", "m.py, line 2: SystemExit: 2"),
        ("import helpers", "m.py, line 1: ModuleNotFoundError: No module named 'helpers'\nhelpers.py lies beside it: write `from . import helpers`"),
        ("from tools.mine import x", "m.py, line 1: ModuleNotFoundError: No module named 'tools.mine'\ntools is the name of a package of Pod's own: in a file of tools write `from . import …` for what lies beside it"),
    ],
)  # fmt: skip
def test_a_fault_of_the_file_is_told_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    write(tmp_path / "m.py", text)
    write(tmp_path / "helpers.py", "")

    with pytest.raises(FunctionError) as caught:
        load("m.py:f", tmp_path)

    assert str(caught.value) == message


def test_a_syntax_error_shows_the_line(tmp_path: Path) -> None:
    write(tmp_path / "m.py", "x = 1\ndef f(:\n")

    with pytest.raises(FunctionError) as caught:
        load("m.py:f", tmp_path)

    assert 'm.py", line 2' in str(caught.value)
    assert "SyntaxError: invalid syntax" in str(caught.value)


def test_a_missing_file_is_told_with_its_full_path(tmp_path: Path) -> None:
    with pytest.raises(FunctionError) as caught:
        load("gone.py:f", tmp_path)

    assert str(caught.value) == (
        f"gone.py: there is no such file ({tmp_path / 'gone.py'})"
    )


def test_a_file_that_failed_can_be_loaded_once_it_is_mended(tmp_path: Path) -> None:
    write(tmp_path / "m.py", "1 / 0")
    with pytest.raises(FunctionError):
        load("m.py:f", tmp_path)
    write(tmp_path / "m.py", "def f(): ...  # and now it is longer")

    assert load("m.py:f", tmp_path).name == "f"
