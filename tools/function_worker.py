"""The other end of `function_process`: finds the function, runs it, and writes its answer."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from functools import partial
from types import ModuleType
from typing import NoReturn

import msgspec

from ..runtime.definitions import ErrorType, ToolFailure
from .processes.function_keeper import keep
from .processes.function_process import Failed, FunctionPlace, Returned, Work
from .schema.validation import result_of
from .tool import FunctionTool, ToolContext


def main() -> NoReturn:
    """Serves one call and ends, with whatever the function has left running."""
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=Work)
    keep(work.parent_pid, partial(_serve, work))


def _serve(work: Work) -> NoReturn:
    os.set_inheritable(work.answer_fd, False)
    answer = msgspec.json.encode(_answer(work))
    stream = open(work.answer_fd, "wb")  # ruff: ignore[open-file-with-context-handler] the process ends
    stream.write(answer)
    stream.flush()
    sys.stdout.flush()
    os._exit(0)


def _answer(work: Work) -> Returned | Failed:
    try:
        tool = _tool(work)
        arguments = tool.decode(work.arguments)
        context = ToolContext(**msgspec.structs.asdict(work.context), on_progress=print)
        result = result_of(work.tool_name, tool.call(arguments, context), None)
    except ToolFailure as failure:
        details = msgspec.to_builtins(failure.details, enc_hook=repr, str_keys=True)
        return Failed(error_type=failure.error_type, message=str(failure), details=details)
    except (Exception, SystemExit) as crash:
        traceback.print_exc()
        text = " ".join(str(crash).split())[:500]
        said = f"{type(crash).__name__}: {text}" if text else type(crash).__name__
        return Failed(
            error_type=ErrorType.EXECUTION_ERROR,
            message=f"{work.tool_name} failed: {said}",
            details={},
        )
    return Returned(
        output=result.output,
        display=result.display,
        artifacts=result.artifacts,
        both_ends=result.both_ends,
    )


def _tool(work: Work) -> FunctionTool:
    found = getattr(_module(work.place), work.place.name)
    # Decorated, the name is the tool's; made with tool(…)(function), it is still the function's.
    return found if isinstance(found, FunctionTool) else FunctionTool(found, name=work.tool_name)


def _module(place: FunctionPlace) -> ModuleType:
    if place.file is None:
        return importlib.import_module(place.module)
    # A script: its `if __name__ == "__main__"` part must not run again.
    spec = importlib.util.spec_from_file_location(place.module, place.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[place.module] = module
    spec.loader.exec_module(module)
    return module
