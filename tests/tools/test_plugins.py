"""Plugins: off until enabled, elevated until somebody vouches for them, never in the way."""

from __future__ import annotations

import importlib
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.__main__ import main
from callboard.config.files import parse_settings
from callboard.config.sections import PluginSettings
from callboard.config.settings import Settings
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ValidationError
from callboard.tools import plugins as plugins_module
from callboard.tools.plugins import LoadedPlugins, Plugin, load_plugins, unused_plugins
from support.stage import open_local_stage, play, read_result
from support.tools.distributions import WEATHER, files_of, install, wheel

ON = "enabled = true"


class Shelf:
    """A folder on the interpreter's path, into which distributions are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: set[str] = set()

    def add(self, module: str, code: str = WEATHER, version: str = "1.0", **more: Any) -> None:
        """Installs a distribution; the one of that name before it is gone."""
        distribution = more.pop("distribution", f"{module}-plugin")
        for old in self.folder.glob(f"{distribution.replace('-', '_')}-*"):
            shutil.rmtree(old)
        code = code.replace("VERSION", version)
        files = files_of(module, code, distribution=distribution, version=version, **more)
        install(self.folder, files)
        self.modules.add(module)
        self.forget()

    def forget(self) -> None:
        """What a new process would not have imported either."""
        for module in self.modules:
            sys.modules.pop(module, None)
        for compiled in self.folder.rglob("*.pyc"):
            compiled.unlink()
        importlib.invalidate_caches()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    shelf = Shelf(folder)
    yield shelf
    shelf.forget()


def enabled(toml: str) -> Settings:
    return parse_settings(toml, Path("callboard.toml"))


async def load(toml: str, *taken: str) -> LoadedPlugins:
    return await load_plugins(enabled(toml).plugins, taken)


async def problem_of(toml: str, *taken: str) -> str:
    """What is wrong with the one plugin, of which nothing is used then."""
    loaded = await load(toml, *taken)
    [plugin] = loaded.plugins
    assert (plugin.state, plugin.tools, loaded.tools) == ("broken", (), ())
    return plugin.problem


# ── off until enabled ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("toml", "is_used"),
    [("", False), ("[plugins.sky]", False), ("[plugins.sky]\nenabled = false", False),
     (f"[plugins.sky]\n{ON}", True)],
)  # fmt: skip
async def test_a_plugin_is_not_even_imported_until_it_is_enabled(
    toml: str, is_used: bool, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.add("sky")
    steps = [reply(calls=[("make_rain", {})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, settings=enabled(toml), on_approval="allow") as (
        runtime,
        model,
    ):
        played = await play(await runtime.create_session(), "Go.")
        names = [tool.name for tool in runtime.tools()]
        assert [plugin.name for plugin in runtime.plugins()] == (["sky"] if is_used else [])
    assert ("sky" in sys.modules) is is_used
    assert {"weather", "make_rain"}.issubset(names) is is_used
    offered = {tool.name for tool in model.requests[0].tools}
    assert ("make_rain" in offered) is is_used
    result = read_result(played.results[0])
    if is_used:
        assert result == {"status": "success", "result": "1 t"}
    else:
        assert result["error_type"] == "tool_not_found"


async def test_one_tool_and_a_function_are_plugins_too(shelf: Shelf) -> None:
    points = {"one": "sky:weather", "made": "sky:make", "pair": "sky:pair"}
    code = WEATHER + "\ndef make():\n    return make_rain\n\npair = (weather, make_rain)\n"
    shelf.add("sky", code, points=points)
    for name, tools in {"one": ("weather",), "made": ("make_rain",)}.items():
        [plugin] = (await load(f"[plugins.{name}]\n{ON}")).plugins
        assert (plugin.state, plugin.tools) == ("used", tools)
    [plugin] = (await load(f"[plugins.pair]\n{ON}")).plugins
    assert plugin == Plugin(
        name="pair", state="used", distribution="sky-plugin", version="1.0",
        tools=("weather", "make_rain"),
    )  # fmt: skip


async def test_where_none_is_enabled_nothing_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, shelf: Shelf
) -> None:
    monkeypatch.setattr(plugins_module, "_found", lambda: pytest.fail("it was looked for"))
    assert await load("[plugins.sky]") == LoadedPlugins()


# ── tiers ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("more", "tiers"),
    [("", ["elevated", "elevated"]),
     ('tier = "system"', ["system", "system"]),
     ('tier = "workspace"\ntiers = { make_rain = "elevated" }', ["workspace", "elevated"]),
     ('tiers = { weather = "read_only" }', ["read_only", "elevated"])],
)  # fmt: skip
async def test_tools_are_elevated_until_the_operator_says_otherwise(
    more: str, tiers: list[str], shelf: Shelf
) -> None:
    shelf.add("sky")
    loaded = await load(f"[plugins.sky]\n{ON}\n{more}")
    assert [tool.definition.tier for tool in loaded.tools] == tiers
    assert sys.modules["sky"].weather.definition.tier == "read_only"  # its own is left alone


@pytest.mark.parametrize(("tier", "tonnes", "asks"), [("elevated", 1, True), ("system", 1, False),
                                                      ("system", 2, True)])  # fmt: skip
async def test_each_call_of_an_elevated_one_asks(
    tier: str, tonnes: int, asks: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """A tool may still raise the tier of a call, and never lower it."""
    shelf.add("sky")
    settings = enabled(f'[plugins.sky]\n{ON}\ntier = "{tier}"')
    steps = [reply(calls=[("make_rain", {"tonnes": tonnes})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, settings=settings, on_approval="deny") as (
        runtime,
        _,
    ):
        played = await play(await runtime.create_session(), "Go.")
    assert played.statuses == [("make_rain", "denied" if asks else "success")]


async def test_an_own_kind_of_tool_cannot_lower_its_tier(shelf: Shelf, tmp_path: Path) -> None:
    code = WEATHER + (
        "\nfrom callboard.tools.tool import FunctionTool\n"
        "class Humble(FunctionTool):\n"
        "    def tier(self, arguments):\n"
        "        return callboard.Tier.READ_ONLY\n"
        "def bow() -> str:\n"
        "    return 'bowed'\n"
        "humble = Humble(bow)\n"
    )
    shelf.add("sky", code, points={"sky": "sky:humble"})
    for more, status in (("", "denied"), ('tier = "system"', "success")):
        settings = enabled(f"[plugins.sky]\n{ON}\n{more}")
        steps = [reply(calls=[("bow", {})]), reply("Done.")]
        async with open_local_stage(tmp_path, steps, settings=settings, on_approval="deny") as (
            runtime,
            _,
        ):
            played = await play(await runtime.create_session(), "Go.")
        assert played.statuses == [("bow", status)]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_case_71_a_remembered_answer_ends_with_an_update(
    version: str, shelf: Shelf, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def allow_always(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        await trio.lowlevel.checkpoint()
        asked.append(request.tool)
        return callboard.ApprovalAnswer(decision="allow", remember="always")

    settings = enabled(f'[plugins.sky]\n{ON}\ntier = "system"')
    for installed in ("1.0", version):
        shelf.add("sky", version=installed)
        steps = [reply(calls=[("weather", {"place": "Oslo"})]), reply("Done.")]
        async with open_local_stage(
            tmp_path, steps, settings=settings, on_approval=allow_always, data=tmp_path / "data"
        ) as (runtime, _):
            played = await play(await runtime.create_session(), "Go.")
        assert read_result(played.results[0])["result"] == f"Oslo: {installed}"
    assert asked == ["weather"] * (1 if version == "1.0" else 2)


async def test_a_version_that_was_not_enabled_is_not_imported(shelf: Shelf) -> None:
    shelf.add("sky", version="1.1")
    problem = await problem_of(f'[plugins.sky]\n{ON}\nversion = "1.0"')
    assert problem.startswith("version 1.1 is installed, and callboard.toml enables 1.0;")
    assert "sky" not in sys.modules
    [plugin] = (await load(f'[plugins.sky]\n{ON}\nversion = "1.1"')).plugins
    assert plugin.state == "used"


# ── what is wrong with one ───────────────────────────────────────────────────────────────────────

BROKEN = {
    "raise RuntimeError('no sky')": "sky:tools can't be imported: RuntimeError: no sky",
    "raise SystemExit(3)": "sky:tools can't be imported: SystemExit: 3",
    "raise KeyboardInterrupt": "sky:tools can't be imported: KeyboardInterrupt",
    "import no_such_module": "No module named 'no_such_module'",
    "this is no Python": "SyntaxError",
    "": "has no attribute 'tools'",
    "tools = []": "sky:tools has no tools",
    "tools = 5": "'int' object is not iterable",
    "tools = [print]": "gives <built-in function print>, which is not a tool",
    "def tools():\n    raise ValueError('clouds')": "ValueError: clouds",
    "import itertools\ntools = itertools.count()": "has more than 256 tools",
    "import callboard\n@callboard.tool\ndef tools(sky): ...": "has no annotation",
    "from callboard.tools.tool import Tool\nclass Odd(Tool):\n    decode = execute = None\n"
    "tools = Odd()": "one of its tools can't be used: 'Odd' object has no attribute 'definition'",
    WEATHER.replace("make_rain]", "weather]"): "there is a tool weather already",
    WEATHER.replace("def weather", "def read_file").replace("[weather", "[read_file"): (
        "there is a tool read_file already"
    ),
}


@pytest.mark.parametrize(("code", "problem"), BROKEN.items(), ids=range(len(BROKEN)))
async def test_a_broken_plugin_stops_nothing_and_is_reported(
    code: str, problem: str, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.add("sky", code)
    shelf.add("sea", WEATHER.replace("weather", "tide").replace("make_rain", "make_waves"))
    settings = enabled(f"[plugins.sky]\n{ON}\n[plugins.sea]\n{ON}")
    with caplog.at_level(logging.WARNING):
        async with open_local_stage(tmp_path, [reply("Hello.")], settings=settings) as (runtime, _):
            played = await play(await runtime.create_session(), "Hello.")
            sea, sky = runtime.plugins()
            names = {tool.name for tool in runtime.tools()}
    assert played.ended.outcome == "answered"
    assert (sea.state, sea.tools, sea.problem) == ("used", ("tide", "make_waves"), "")
    assert (sky.state, sky.tools) == ("broken", ())
    assert problem in sky.problem
    assert not {"weather", "make_rain"} & names
    [line] = [record.getMessage() for record in caplog.records if "plugin" in record.getMessage()]
    assert line == f"the plugin sky is not used: {sky.problem}"


async def test_one_that_hangs_is_left_behind(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins_module, "PLUGIN_SECONDS", 0.2)
    monkeypatch.setattr(sys, "gate", gate := threading.Event(), raising=False)
    shelf.add("sky", "import sys\nsys.gate.wait()\n")
    shelf.add("sea", WEATHER)
    loaded = await load(f"[plugins.sky]\n{ON}\n[plugins.sea]\n{ON}")
    gate.set()
    assert [plugin.state for plugin in loaded.plugins] == ["used", "broken"]
    assert loaded.plugins[1].problem == "sky:tools took longer than 0.2 s to be imported"


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        (f"[plugins.sea]\n{ON}", "no installed distribution has an entry point sea"),
        (
            f'[plugins.sky]\n{ON}\ntiers = {{ wether = "system" }}',
            "names wether, which it does not",
        ),
    ],
)
async def test_settings_that_fit_nothing_installed(shelf: Shelf, toml: str, problem: str) -> None:
    shelf.add("sky")
    assert problem in await problem_of(toml)


async def test_two_distributions_cannot_share_a_name(shelf: Shelf) -> None:
    shelf.add("sky")
    shelf.add("other", points={"sky": "other:tools"})
    problem = await problem_of(f"[plugins.sky]\n{ON}")
    assert (
        problem
        == "other-plugin and sky-plugin both have a plugin of this name; uninstall one of them"
    )
    assert not {"sky", "other"} & set(sys.modules)


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_folder_that_one_works_in_brings_no_plugin(
    is_here: bool, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` looks there first, and a stranger may have filled it."""
    shelf.add("sky")
    monkeypatch.chdir(shelf.folder if is_here else tmp_path)
    [plugin] = (await load(f"[plugins.sky]\n{ON}")).plugins
    assert plugin.state == ("broken" if is_here else "used")
    assert ("sky" in sys.modules) is not is_here


@pytest.mark.parametrize(
    ("toml", "problem"),
    [('[plugins.sky]\ntier = "low"', "plugins.sky.tier: invalid enum value 'low'"),
     ("[plugins.sky]\nenable = true", "did you mean 'enabled'?"),
     ("[plugins]\nsky = true", "expected a table [plugins.NAME]")],
)  # fmt: skip
def test_wrong_settings(toml: str, problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        enabled(toml)
    assert problem in str(raised.value)
    assert enabled("[plugins.sky]").plugins == {"sky": PluginSettings(name="sky")}


# ── the commands ─────────────────────────────────────────────────────────────────────────────────


def run(*arguments: str, path: Path, config: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", *arguments, "--config", str(config)],
        capture_output=True, text=True, env=environ, cwd="/", check=False,
    )  # fmt: skip


def test_what_pip_installs_is_listed_with_how_to_enable_it(tmp_path: Path) -> None:
    files = files_of("sky", WEATHER, distribution="sky-plugin", version="2.0")
    made = wheel(tmp_path, files, distribution="sky-plugin", version="2.0")
    site = tmp_path / "site"
    pip = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site), str(made)]
    subprocess.run([sys.executable, "-m", *pip], check=True, capture_output=True)
    config = tmp_path / "callboard.toml"
    config.write_text("")
    off = run("callboard", "tools", path=site, config=config)
    assert off.stdout.splitlines()[-1] == (
        "plugin sky (sky-plugin 2.0): off; enabled = true in the table [plugins.sky] of "
        "callboard.toml enables it"
    )
    assert "weather" not in off.stdout
    config.write_text(f"[plugins.sky]\n{ON}\n")
    on = run("callboard", "tools", path=site, config=config)
    assert "plugin sky (" not in on.stdout.replace("\n", " ")
    [line] = [line for line in on.stdout.splitlines() if line.startswith("weather")]
    assert line.split()[1] == "elevated"
    assert "(plugin sky of sky-plugin 2.0)" in " ".join(on.stdout.split())


def test_commands_report_a_broken_one(
    tmp_path: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf.add("sky", "raise RuntimeError('\\x1b[2J')")
    config = tmp_path / "callboard.toml"
    config.write_text(f"[plugins.sky]\n{ON}\n")
    said = "plugin sky (sky-plugin 1.0): not used: sky:tools can't be imported: RuntimeError: "
    assert main(["tools", "--config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{said}\\x1b[2J"
    assert main(["tools", "--json", "--config", str(config)]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["name"], last["state"]) == ("sky", "broken")
    assert main(["doctor", "--config", str(config)]) == 1
    assert said in capsys.readouterr().out
    assert main(["doctor", "--json", "--config", str(config)]) == 1
    [plugin] = json.loads(capsys.readouterr().out)["plugins"]
    assert plugin["state"] == "broken"


def test_a_name_that_no_table_can_have_is_shown_and_stays_off(shelf: Shelf) -> None:
    shelf.add("sky", points={"a b\x1b": "sky:tools"})
    assert [plugin.name for plugin in unused_plugins({}) if plugin.state == "off"] == ["a b\x1b"]
