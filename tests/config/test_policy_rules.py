"""Rules in TOML: what they may say, and how a wrong one is named."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from callboard.config.files import load_settings, parse_settings
from callboard.config.policy.rules import Condition, Rule
from callboard.runtime.definitions import SessionKind, Tier, Verdict
from callboard.runtime.errors import ValidationError

FILE = Path("/etc/callboard/callboard.toml")


def rules(text: str) -> dict[str, Rule]:
    settings = parse_settings(dedent(text), FILE)
    return {placed.place: placed.rule for placed in settings.rules}


def test_a_rule_says_everything_that_it_may() -> None:
    found = rules(
        """
        [[rules]]
        tool = ["write_file", "edit_*"]
        tier = ["workspace", "system"]
        agent = "gardener"
        channel = ["web", "terminal"]
        kind = ["main", "branch"]
        verdict = "ask"
        reason = "The notes are read by others."
        arguments.path = { path = ["notes/**", "*.md"] }
        match = [{ path = "notes/a.md" }]
        not_match = [{ path = "src/a.py" }]
        """
    )
    assert list(found) == ["rules[1] (callboard.toml, line 2)"]
    (rule,) = found.values()
    assert rule.tools == ("write_file", "edit_*")
    assert rule.tiers == frozenset({Tier.WORKSPACE, Tier.SYSTEM})
    assert (rule.agents, rule.channels) == (("gardener",), ("web", "terminal"))
    assert rule.kinds == (SessionKind.MAIN, SessionKind.BRANCH)
    assert rule.verdict is Verdict.ASK
    assert rule.arguments["path"].paths == ("notes/**", "*.md")


def test_rules_of_an_agent_stand_with_the_agent() -> None:
    found = rules(
        """
        [[rules]]
        tool = "delete_file"
        verdict = "deny"

        [agents.gardener]
        policy = "auto"

        [[agents.gardener.rules]]
        min_tier = "system"
        verdict = "deny"

        [[agents.gardener.rules]]
        tool = "move_file"
        verdict = "ask"
        """
    )
    assert list(found) == [
        "rules[1] (callboard.toml, line 2)",
        "agents.gardener.rules[1] (callboard.toml, line 9)",
        "agents.gardener.rules[2] (callboard.toml, line 13)",
    ]
    assert [rule.agents for rule in found.values()] == [(), ("gardener",), ("gardener",)]
    assert list(found.values())[1].tiers == frozenset({Tier.SYSTEM, Tier.ELEVATED})


def test_rules_leave_the_agents_as_they_are() -> None:
    text = '[agents.a]\nprompt = "p"\n[[agents.a.rules]]\ntool = "x"\nverdict = "deny"\n'
    assert parse_settings(text, FILE).agents["a"].prompt == "p"


def test_hosts_are_read_as_urls_read_them() -> None:
    condition = Condition(host=("API.Example.COM.", ".b\u00fccher.example", "::1"))
    assert condition.hosts == ("api.example.com", ".xn--bcher-kva.example", "::1")


def test_one_command_and_several() -> None:
    assert Condition(argv=("git", "status")).argvs == (("git", "status"),)
    assert Condition(argv=(["git", "log"], ["ls"])).argvs == (("git", "log"), ("ls",))


RULE = """\
policy = "auto"

[[rules]]
tool = "read_file"
verdict = "allow"

[[rules]]
tool = "write_file"
verdict = "deny"
arguments.path = { path = "a/**" }
match = [{ path = "a/b" }, { path = "a" }]
not_match = [{ path = "b" }]
"""


def test_the_rule_that_is_spoiled_below_is_right() -> None:
    assert len(rules(RULE)) == 2


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"deny"', '"never"', "line 9: rules[2].verdict: invalid enum value 'never'; choices: "),
        ('verdict = "deny"', "", "line 7: rules[2].verdict: it is required"),
        ("not_match", "not_macth", "line 12: rules[2].not_macth: there is no such setting; did"),
        ('tool = "write_file"', "", "line 7: rules[2].tool: say which tool, a tier, needs"),
        ('"write_file"', '""', "line 8: rules[2].tool: say which tool"),
        ('"write_file"', '["a", ""]', "line 8: rules[2].tool: a name is empty"),
        ('"write_file"', '"w"\ntier = "high"', "line 9: rules[2].tier: invalid enum value 'high'"),
        (
            '"write_file"',
            '"w"\ntier = "system"\nmin_tier = "system"',
            "line 10: rules[2].min_tier: tier says it already",
        ),
        ('"write_file"', '"w"\nkind = "side"', "line 9: rules[2].kind: invalid enum value 'side'"),
        ('"a/**"', '"/a"', "line 10: rules[2].arguments.path.path: '/a' is absolute"),
        ('"a/**"', '"a/../b"', "line 10: rules[2].arguments.path.path: 'a/../b' holds '..'"),
        ('{ path = "a/**" }', '"a"', "line 10: rules[2].arguments.path: expected a table like"),
        ('{ path = "a/**" }', "{ glob = 1 }", "rules[2].arguments.path.glob: there is no such"),
        ('{ path = "a/**" }', "{}", "rules[2].arguments.path: a condition says exactly one of"),
        ('{ path = "a/**" }', '{ path = "a", is = 1 }', "a condition says exactly one of"),
        ('{ path = "a/**" }', "{ is = [] }", "rules[2].arguments.path.is: an empty list"),
        (
            '{ path = "a/**" }',
            '{ host = "*.x.org" }',
            "arguments.path.host: '*.x.org' is neither a host",
        ),
        (
            '{ path = "a/**" }',
            '{ host = "x.org:80" }',
            "arguments.path.host: 'x.org:80' is neither",
        ),
        ('{ path = "a/**" }', '{ argv = "git status" }', "arguments.path.argv: expected array"),
        ('{ path = "a/**" }', '{ argv = ["git", 1] }', "arguments.path.argv: ('git', 1) is no"),
        ('{ path = "a/**" }', '{ argv = [["git"], "ls"] }', "arguments.path.argv: 'ls' stands"),
        ('{ path = "a" }', '{ path = "c" }', 'line 11: rules[2].match[2]: {"path":"c"} does not'),
        ('{ path = "b" }', '{ path = "a/c" }', 'line 12: rules[2].not_match[1]: {"path":"a/c"} '),
        ('[[rules]]\ntool = "r', '[[rule]]\ntool = "r', "rule: there is no such setting; did you"),
    ],
)
def test_a_wrong_rule_is_named_with_its_line(old: str, new: str, complaint: str) -> None:
    assert old in RULE
    with pytest.raises(ValidationError) as caught:
        rules(RULE.replace(old, new, 1))
    assert complaint in str(caught.value)


def test_one_table_where_several_are_meant() -> None:
    with pytest.raises(
        ValidationError, match=r"line 1: rules: expected tables that begin with \[\["
    ):
        parse_settings('[rules]\ntool = "a"\nverdict = "deny"\n', FILE)


def test_a_rule_of_an_agent_says_no_agent() -> None:
    text = '[[agents.a.rules]]\ntool = "x"\nagent = "b"\nverdict = "deny"\n'
    with pytest.raises(ValidationError, match=r"line 3: agents.a.rules\[1\].agent: the table says"):
        parse_settings(text, FILE)


def test_commands_write_no_rules(tmp_path: Path) -> None:
    (tmp_path / "managed.toml").write_text('[[rules]]\ntool = "*"\nverdict = "allow"\n')
    with pytest.raises(ValidationError, match="rules: there is no such setting"):
        load_settings(_file(tmp_path))


def _file(folder: Path) -> Path:
    (folder / "callboard.toml").write_text("")
    return folder / "callboard.toml"


CHANNEL_RULES = """
[[channels.web.rules]]
min_tier = "workspace"
verdict = "deny"
reason = "Others read along."

[[channels.web.rules]]
tool = "read_file"
verdict = "ask"
agent = "gardener"
"""


def test_rules_of_a_channel() -> None:
    found = rules(CHANNEL_RULES)
    assert list(found) == [
        "channels.web.rules[1] (callboard.toml, line 2)",
        "channels.web.rules[2] (callboard.toml, line 7)",
    ]
    assert [rule.channels for rule in found.values()] == [("web",), ("web",)]
    assert [rule.agents for rule in found.values()] == [(), ("gardener",)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[[channels.web.rules]]\ntool = "x"\nchannel = "b"\nverdict = "deny"\n',
            r"line 3: channels.web.rules\[1\].channel: the table says",
        ),
        ('[channels.web]\npolicy = "strict"\n', r"line 2: channels.web.policy: a channel has no"),
        ("[channels]\nweb = 1\n", r"line 2: channels.web: expected tables that begin with \[\["),
        ("channels = 1\n", r"line 1: channels: expected tables that begin with \[\["),
        ("[channels.web]\nrules = 1\n", r"line 2: channels.web.rules: expected tables that"),
        ('[[channels."".rules]]\ntool = "x"\nverdict = "deny"\n', "a name is empty"),
    ],
)
def test_what_a_channels_table_can_not_hold(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        parse_settings(text, FILE)
