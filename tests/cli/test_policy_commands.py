"""`callboard policy check` and `callboard policy lint`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard.__main__ import main
from callboard.cli.policy.lint import findings_about
from callboard.config.files import parse_settings
from support.tools.distributions import WEATHER, files_of, install

CONFIGURATION = """
[[rules]]
tool = "delete_file"
verdict = "deny"
reason = "Releases are kept."
arguments.path = { path = "releases/**" }

[[rules]]
tool = "write_file"
verdict = "allow"
arguments.path = { path = "notes/**" }

[agents.reader]
tools = ["read_file"]

[[agents.reader.rules]]
tool = "*"
channel = "web"
verdict = "deny"
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.md").write_text("a")
    (folder / "b.md").write_text("b")
    (tmp_path / "home" / "config").mkdir(parents=True)
    (tmp_path / "home" / "config" / "callboard.toml").write_text(CONFIGURATION)
    monkeypatch.chdir(folder)
    return folder


def checked(capsys: Captured, tool: str, *options: str, **arguments: Any) -> dict[str, Any]:
    assert main(["policy", "check", tool, json.dumps(arguments), "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("workspace")
def test_the_verdict_the_reason_and_the_rule(capsys: Captured) -> None:
    assert main(["policy", "check", "delete_file", '{"path": "releases/1.tar"}']) == 0
    out = capsys.readouterr().out
    version = checked(capsys, "read_file", path="b.md")["policy"]
    assert out == (
        'deny: delete_file {"path":"releases/1.tar"}\n'
        "  tier    workspace\n"
        "  reason  Releases are kept.\n"
        "  rule    rules[1] (callboard.toml, line 2)\n"
        f"  policy  {version[:12]} of agent general, main session\n"
    )


@pytest.mark.parametrize(
    ("path", "options", "verdict", "rule"),
    [
        ("new.md", (), "allow", "preset balanced"),
        ("b.md", (), "ask", "preset balanced"),
        ("b.md", ("--policy", "auto"), "allow", "preset auto"),
        ("new.md", ("--policy", "strict"), "ask", "preset strict"),
        ("notes/a.md", ("--policy", "strict"), "allow", "rules[2] (callboard.toml, line 8)"),
        ("new.md", ("--kind", "worker"), "deny", "worker sessions"),
        ("new.md", ("--agent", "reader"), "deny", "tools of agent reader"),
    ],
)
@pytest.mark.usefixtures("workspace")
def test_what_decides_about_a_write(
    capsys: Captured, path: str, options: tuple[str, ...], verdict: str, rule: str
) -> None:
    found = checked(capsys, "write_file", *options, path=path, content="x")
    assert (found["verdict"], found["rule"], found["tier"]) == (verdict, rule, "workspace")


def test_another_workspace_is_looked_at(capsys: Captured, workspace: Path) -> None:
    found = checked(
        capsys, "write_file", "--workspace", str(workspace / "notes"), path="a.md", content="x"
    )
    assert found["reason"] == "balanced asks: overwrites a.md (1 byte)"


@pytest.mark.usefixtures("workspace")
def test_a_channel_has_its_rules(capsys: Captured) -> None:
    options = ("--agent", "reader")
    assert checked(capsys, "read_file", *options, path="b.md")["verdict"] == "allow"
    found = checked(capsys, "read_file", *options, "--channel", "web", path="b.md")
    assert found["rule"] == "agents.reader.rules[1] (callboard.toml, line 16)"


@pytest.mark.usefixtures("workspace")
def test_arguments_that_want_to_decide_are_dropped(capsys: Captured) -> None:
    found = checked(capsys, "delete_file", path="b.md", approved=True, tier="read_only")
    assert found["arguments"] == '{"path":"b.md"}'
    assert (found["verdict"], found["tier"]) == ("ask", "workspace")


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(("tier", "verdict"), [("elevated", "ask"), ("workspace", "allow")])
def test_of_an_unknown_tool_the_tier_is_said(capsys: Captured, tier: str, verdict: str) -> None:
    call = ("policy", "check", "launch", '{"where": "moon"}', "--policy", "auto", "--json")
    assert main([*call, "--tier", tier]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["verdict"], found["tier"]) == (verdict, tier)
    assert "no tool 'launch': its arguments were not checked" in said.err


def test_the_tools_of_a_plugin_are_known(
    capsys: Captured, tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "weather_of_policy"
    install(tmp_path / "site", files_of(module, WEATHER, distribution="weather-of-policy"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    call = ("policy", "check", "make_rain")
    assert main([*call, '{"tonnes": 3}']) == 1  # not enabled
    assert "There is no tool 'make_rain'" in capsys.readouterr().err
    enabled = workspace / "enabled.toml"
    enabled.write_text(f"[plugins.{module}]\nenabled = true\n")
    config = ("--config", str(enabled))
    assert checked(capsys, "make_rain", *config, tonnes=3)["tier"] == "elevated"
    assert checked(capsys, "weather", *config, place="Oslo")["verdict"] == "ask"
    assert main([*call, '{"tonnes": "x"}', *config]) == 1
    assert "make_rain refuses this call itself" in capsys.readouterr().err
    sys.modules.pop(module)


@pytest.mark.parametrize(
    ("tokens", "code", "complaint"),
    [
        (("write_file", '{"path": 3}'), 1, "write_file refuses this call itself: write_file: "),
        (("write_file", "{"), 1, "write_file refuses this call itself: "),
        (("launch", "[1]", "--tier", "system"), 1, "the arguments are no JSON object"),
        (("launch", "{}"), 1, "There is no tool 'launch'."),
        (("writefile", "{}"), 1, "Did you mean write_file?"),
        (("write_file", "{}", "--tier", "system"), 1, "and it knows write_file: leave it out"),
        (("http_request", '{"url": "ftp://x.org"}'), 1, "refuses this call itself: ftp://x.org"),
        (("read_file", '{"path": "a"}', "--agent", "nobody"), 1, "There is no agent 'nobody'"),
        (("read_file", '{"path": "a"}', "--kind", "side"), 2, "side"),
        (("read_file",), 2, "requires an argument"),
    ],
)
@pytest.mark.usefixtures("workspace")
def test_what_can_not_be_checked_is_an_error(
    capsys: Captured, tokens: tuple[str, ...], code: int, complaint: str
) -> None:
    assert main(["policy", "check", *tokens]) == code
    assert complaint in capsys.readouterr().err


# ── lint ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("workspace")
def test_a_sound_configuration_has_no_findings(capsys: Captured) -> None:
    assert main(["policy", "lint"]) == 0
    assert capsys.readouterr().out == "3 rules, no findings\n"


def test_findings_are_printed_and_fail(capsys: Captured, workspace: Path) -> None:
    file = workspace / "rules.toml"
    file.write_text('[[rules]]\ntool = "mine"\nverdict = "deny"\n')
    assert main(["policy", "lint", "--config", str(file)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("rules[1] (rules.toml, line 1): there is no built-in tool 'mine'; if")
    assert out.endswith("1 rule, 1 finding\n")
    assert main(["policy", "lint", "--config", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["place"] == "rules[1] (rules.toml, line 1)"
    assert main(["policy", "lint", "--config", str(file), "--known", "mine"]) == 0


def test_a_wrong_example_is_named(capsys: Captured, workspace: Path) -> None:
    file = workspace / "rules.toml"
    text = CONFIGURATION.replace('"notes/**" }', '"notes/**" }\nmatch = [{ path = "a.md" }]')
    file.write_text(text)
    assert main(["policy", "lint", "--config", str(file)]) == 1
    err = capsys.readouterr().err
    assert "rules.toml, line 12: rules[2].match[1]: " in err
    assert '{"path":"a.md"} does not match the rule' in err


DENY_RELEASES = '[[rules]]\ntool = "delete_file"\nverdict = "deny"\n'


KEEPS_A_WAY = "agent general reads private things and keeps a way out: "


@pytest.mark.parametrize(
    ("rule", "problems"),
    [
        ('tool = "read_flie"\nverdict = "deny"', ["there is no built-in tool 'read_flie'"]),
        ('tool = "smtp_*"\nverdict = "deny"', ["no tool that is known here is named like"]),
        ('tool = "list_*"\nverdict = "deny"', []),
        ('tool = "read_file"\nagent = "ghost"\nverdict = "deny"', ["there is no agent 'ghost'"]),
        ('tool = "read_file"\nagent = "general"\nverdict = "deny"', []),
        (
            'tool = "write_file"\ntier = "read_only"\nverdict = "allow"',
            ["it never matches: calls of write_file have a higher tier"],
        ),
        ('tool = "write_file"\ntier = "workspace"\nverdict = "allow"', []),
        (
            'tool = "move_file"\nverdict = "deny"\narguments.path = { path = "a" }',
            ["it never matches: move_file has no argument 'path'"],
        ),
        ('tool = "move_file"\nverdict = "deny"\narguments.to = { path = "a" }', []),
        (
            'tool = "write_file"\nkind = "worker"\nverdict = "deny"',
            ["it never matches: workers don't have write_file"],
        ),
        ('tool = "read_file"\nkind = "worker"\nverdict = "deny"', []),
        (
            'tool = "write_file"\nagent = "reader"\nverdict = "deny"',
            ["it never matches: reader may not use write_file"],
        ),
        ('tool = "read_file"\nagent = "reader"\nverdict = "deny"', []),
        ('tool = "read_file"\nverdict = "allow"', ["it never decides: no preset asks"]),
        ('tool = "web_fetch"\nverdict = "allow"', ["it lets web_fetch reach every new host"]),
        ('tool = "web_fetch"\nverdict = "allow"\narguments.url = { host = "a.example" }', []),
        ('tool = "web_fetch"\nverdict = "ask"', []),
        ('tool = "web_search"\nverdict = "allow"', ["it lets web_search run without a question"]),
        ('tool = "edit_file"\nverdict = "allow"', []),
        (
            'tool = "*"\ntier = "system"\nverdict = "deny"',
            ["it leaves elevated calls alone", KEEPS_A_WAY],
        ),
        (
            'tool = "*"\ntier = ["workspace", "elevated"]\nverdict = "ask"',
            ["it leaves system calls alone"],
        ),
        ('tool = "*"\nmin_tier = "system"\nverdict = "deny"', [KEEPS_A_WAY]),
        ('network = "out"\nverdict = "deny"', []),
        ('needs = "network"\nverdict = "deny"', []),
        ('needs = ["network", "processes"]\nmin_tier = "system"\nverdict = "deny"', [KEEPS_A_WAY]),
        ('min_tier = "system"\nagent = "reader"\nverdict = "deny"', []),  # which has no way out
        (
            'tool = "http_request"\nverdict = "deny"',
            ["agent general reads private things and keeps a way out: git_push, "],
        ),
        ('tool = "http_request"\nverdict = "deny"\narguments.method = { is = "POST" }', []),
        (
            'tool = "read_file"\nnetwork = "out"\nverdict = "deny"',
            ["it never matches: nothing leaves the machine by"],
        ),
        (
            'tool = "read_file"\nneeds = "network"\nverdict = "deny"',
            ["it never matches: read_file needs none of network"],
        ),
        (
            'tool = "*"\ntier = "elevated"\nverdict = "allow"',
            ["it never decides: an elevated call runs without a question only when"],
        ),
        (
            'tool = "shell"\nverdict = "allow"\narguments.command = { argv = ["/bin/Bash", "x"] }',
            ["command begins with Bash, which runs whatever its arguments say"],
        ),
        (
            'tool = "shell"\nverdict = "allow"\narguments.command = { is = [["env", "ls"]] }',
            ["command begins with env"],
        ),
        (
            'tool = "shell"\nverdict = "allow"\narguments.command = { argv = ["git", "status"] }',
            [],
        ),
        ('tool = "shell"\nverdict = "deny"\narguments.command = { argv = ["bash"] }', []),
        ('tool = "shell"\nverdict = "allow"', ["it lets every command of shell run"]),
        (
            'tool = "delete_file"\nverdict = "allow"\narguments.path = { path = "a/**" }',
            ["it never decides: rules[1] (callboard.toml, line 1) covers it"],
        ),
        ('tool = "delete_file"\nverdict = "deny"', ["it never decides: rules[1]"]),
        ('tool = "move_file"\nverdict = "deny"', []),
    ],
)
def test_lint_finds_rules_that_do_not_do_what_they_seem_to(rule: str, problems: list[str]) -> None:
    text = f'{DENY_RELEASES}\n[[rules]]\n{rule}\n\n[agents.reader]\ntools = ["read_file"]\n'
    settings = parse_settings(text, Path("callboard.toml"))
    found = [finding.problem for finding in findings_about(settings, ["shell"])]
    assert len(found) == len(problems), found
    for problem, expected in zip(found, problems, strict=True):
        assert problem.startswith(expected)


def test_a_rule_that_denies_everything_makes_the_others_useless() -> None:
    text = DENY_RELEASES + '[[rules]]\ntool = "*"\nverdict = "deny"\n'
    settings = parse_settings(text, Path("callboard.toml"))
    found = [(finding.place, finding.problem) for finding in findings_about(settings)]
    assert found == [
        (
            "rules[1] (callboard.toml, line 1)",
            "it never decides: rules[2] (callboard.toml, line 4) covers it",
        )
    ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "balanced asks for each new host: a.test is new to it, and not under [network] auto"),
        (("--tainted",), "balanced asks for each new host: a.test is new to it"),
        (("--private",), "balanced asks for each new host: a.test is new to it"),
        (
            ("--tainted", "--private"),
            "balanced asks: the session has read untrusted content and private data, and a.test is",
        ),
        (("--tainted", "--private", "--policy", "auto"), "auto lets system calls run"),
    ],
)
@pytest.mark.usefixtures("workspace")
def test_what_the_session_has_read(capsys: Captured, options: tuple[str, ...], reason: str) -> None:
    found = checked(capsys, "http_request", *options, url="https://a.test/")
    assert found["reason"].startswith(reason)
    assert found["verdict"] == ("allow" if "auto" in options else "ask")
