"""Plain Python functions as tools: schema from the signature, words from the docstring.

The SDK's ``beta_async_tool`` does the like, but importing it costs 1.2 seconds,
and what a model hears of wrong arguments hides which one was wrong.

A file of functions is loaded by its path under a private name. Its folder is
not put on ``sys.path``: a file there could then stand in for one of our
modules, or for an optional one of a library's. It is a package of its own
instead, so a sibling is imported with ``from . import sibling``; whatever is
installed is imported as usual.
"""

import contextlib
import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
import types
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio
from msgspec import UNSET

from tools.arguments import parse, schema_of
from tools.base import Call, Tool, ToolOutput
from tools.returned import output_of
from tools.signature import FunctionError, read_signature

__all__ = ["FunctionError", "load", "load_function", "returned_by", "wrap"]

T = TypeVar("T")

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What the providers take."""


def load(spec: str, base: Path) -> Tool:
    """Return the tool that *spec*, ``path/to/file.py:function``, names.

    A relative path starts at *base*. The file is run once, however many of
    its functions are loaded. Raises FunctionError.
    """
    function = load_function(spec, base)
    return wrap(function, spec.rpartition(":")[2], where=spec)


def load_function(spec: str, base: Path) -> Callable[..., object]:
    """Return what *spec* names, as it is. Raises FunctionError."""
    file, colon, name = spec.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise FunctionError(f"{spec!r}: write it as path/to/file.py:function")
    module = _load_file((base / file).resolve(), file)
    function: Callable[..., object] | None = getattr(module, name, None)
    if function is None:
        raise FunctionError(_no_such_function(file, name, module))
    return function


def wrap(
    function: Callable[..., object], name: str | None = None, *, where: str = ""
) -> Tool:
    """Return *function* as a tool called *name*, by default as it is called itself.

    It may be async (trio) or not; then it runs in a thread that a cancelled
    call does not wait for. A parameter annotated with ``tools.base.Call`` is
    given the call. With a true attribute ``read_only`` the function counts as
    one without effects. *where* names it in errors. Raises FunctionError.
    """
    shown = where or getattr(function, "__name__", None) or repr(function)
    try:
        return _PythonFunction(function, name)
    except FunctionError as error:
        raise FunctionError(f"{shown}: {error}") from error.__cause__


class _PythonFunction:
    def __init__(self, function: Callable[..., object], name: str | None) -> None:
        signature = read_signature(function)
        self.name = name or function.__name__
        if not _TOOL_NAME.fullmatch(self.name):
            raise FunctionError(
                f"{self.name} cannot be a tool's name: up to 64 letters (a to z), "
                "digits, _ and - can"
            )
        self.description = signature.description or f"The function {self.name}."
        self.parameters = schema_of(signature.arguments)
        self.has_effects = not getattr(function, "read_only", False)
        self._function = function
        self._signature = signature

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        parsed = parse(self._signature.arguments, arguments)
        given: dict[str, object] = dict.fromkeys(self._signature.call_parameters, call)
        for field in parsed.__struct_fields__:
            value = getattr(parsed, field)
            if value is not UNSET:
                given[field] = value
        returned = await self._returned(given)
        return await _in_thread(partial(output_of, self.name, returned))

    async def _returned(self, given: dict[str, object]) -> object:
        return await returned_by(self._function, partial(self._function, **given))


async def returned_by(
    function: Callable[..., object],
    call: Callable[[], object],
    *,
    limiter: trio.CapacityLimiter | None = None,
) -> object:
    """Return what *call* returns, which calls *function*, async (trio) or not.

    One that is not runs in a thread, which a cancel does not wait for: it goes
    on until it ends by itself, or the process does, and keeps its place in
    *limiter* until then.
    """
    if inspect.iscoroutinefunction(function):
        coroutine = call()
        assert inspect.iscoroutine(coroutine)
        return await _wait(coroutine)
    # In a tuple, since trio takes a coroutine for a mistake. Here a decorator
    # may have hidden that the function is async.
    (returned,) = await _in_thread(lambda: (call(),), limiter)
    if inspect.iscoroutine(returned):
        return await _wait(returned)
    return returned


async def _wait(coroutine: Awaitable[object]) -> object:
    return await coroutine


async def _in_thread(
    work: Callable[[], T], limiter: trio.CapacityLimiter | None = None
) -> T:
    """Call *work*; a call that is cancelled does not wait for it.

    Without *limiter* it has one of its own: a function that never ends would
    keep its place for ever in the one that everything else uses.
    """
    return await trio.to_thread.run_sync(
        work, abandon_on_cancel=True, limiter=limiter or trio.CapacityLimiter(1)
    )


def _load_file(path: Path, shown: str) -> types.ModuleType:
    package = _package_of(path.parent)
    # By its own name where it has one, so that a sibling imports the same module.
    stem = path.stem if path.stem.isidentifier() else f"_{_digest(path.stem)}"
    name = f"{package}.{stem}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise FunctionError(f"{shown}: there is no such file ({path})")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is the Pod's protocol
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's file does
        del sys.modules[name]
        raise FunctionError(_import_trouble(error, path, shown)) from error
    return module


def _package_of(folder: Path) -> str:
    """Make *folder* a package under a private name, which is returned."""
    name = f"_pod_functions_{_digest(str(folder))}"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return name


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _import_trouble(error: BaseException, path: Path, shown: str) -> str:
    said = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    where = f"{shown}, line {lines[-1]}" if lines else shown
    hint = ""
    if isinstance(error, ImportError) and error.name:
        sibling = error.name.partition(".")[0]
        if path.with_name(f"{sibling}.py").is_file():
            hint = f"\n{sibling}.py lies beside it: write `from . import {sibling}`"
        elif sibling in OURS:
            hint = (
                f"\n{sibling} is the name of a package of Pod's own: in a file of tools"
                " write `from . import …` for what lies beside it"
            )
    return f"{where}: {said}{hint}"


OURS = frozenset({"pod", "worker", "tools", "prompts"})
"""Names that a file of tools cannot import a package of its own by."""


def _no_such_function(file: str, name: str, module: types.ModuleType) -> str:
    names = [
        other
        for other, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    near = get_close_matches(name, names, n=1)
    if near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"it has {', '.join(names)}" if names else "it has no functions"
    return f"{file}: there is no function {name}; {hint}"
