"""The options of `approvals`, `approve`, `deny` and `grants`; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ..parameters import Config, Data, Json, data_path

if TYPE_CHECKING:
    from .answers import AnswerOptions, ApprovalCommand

Asked = Annotated[
    str | None,
    Parameter(
        name="NAME",
        help="A question, to see it whole, or a session, to see its own: an id, or its beginning.",
    ),
]
QuestionName = Annotated[
    str, Parameter(name="ID", help="The question's id, or the beginning of it.")
]
GrantName = Annotated[
    str, Parameter(name="ID", help="The remembered answer's id, or the beginning of it.")
]
AllQuestions = Annotated[
    bool, Parameter(name="--all", help="Those that have their answer too.", negative=())
]
AllGrants = Annotated[
    bool, Parameter(name="--all", help="Those that hold no longer too.", negative=())
]
Edit = Annotated[
    bool, Parameter(help="Change the arguments first, in $VISUAL or $EDITOR.", negative=())
]
Arguments = Annotated[str | None, Parameter(help="Other arguments, all of them, as a JSON object.")]
Reason = Annotated[str, Parameter(help="Why; the model sees it.", show_default=False)]
Remember = Annotated[
    Literal["turn", "session", "agent", "always"] | None,
    Parameter(help="Answer such calls in the same way, for so long."),
]
Pattern = Annotated[
    str | None,
    Parameter(help="With --remember: for the paths that this matches, such as notes/**."),
]


def approvals(
    asked: Asked = None,
    /,
    *,
    everything: AllQuestions = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """List the questions that wait for a person, or show one with all that there is to it."""
    import trio

    from .list import show_approvals

    return trio.run(show_approvals, data_path(data), asked, everything, json)


def approve(
    question: QuestionName,
    /,
    *,
    edit: Edit = False,
    arguments: Arguments = None,
    remember: Remember = None,
    pattern: Pattern = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Let a call run that waits for it, as it was asked about or with other arguments.

    With a daemon the session goes on with it at once. Without one, nothing runs by this: `callboard
    run --continue` goes on; and no other process may work with the data folder.
    """
    from .answers import AnswerOptions

    options = AnswerOptions(
        decision="allow", edits=edit, arguments=arguments, remember=remember, pattern=pattern
    )
    return _say(question, options, config, data)


def deny(
    question: QuestionName,
    /,
    *,
    reason: Reason = "",
    remember: Remember = None,
    pattern: Pattern = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Refuse a call that waits; --remember makes it "don't ask again".

    With a daemon the model hears of it at once. Without one, when `callboard run --continue` goes on
    with the session; and no other process may work with the data folder.
    """
    from .answers import AnswerOptions

    options = AnswerOptions(decision="deny", reason=reason, remember=remember, pattern=pattern)
    return _say(question, options, config, data)


grants = App(name="grants", help="List the answers that are remembered, and take them back.")


@grants.default
def list_grants(*, everything: AllGrants = False, json: Json = False, data: Data = None) -> int:
    """List the remembered answers that hold: such calls are not asked about."""
    import trio

    from .list import show_grants

    return trio.run(show_grants, data_path(data), everything, json)


@grants.command
def revoke(grant: GrantName, /, *, config: Config = None, data: Data = None) -> int:
    """Take a remembered answer back; only while no other process works with the data folder."""
    import trio

    return trio.run(_desk(config, data).revoke, grant)


def _say(question: str, options: AnswerOptions, config: Path | None, data: Path | None) -> int:
    import trio

    from ..exit_codes import USAGE
    from ..terminal.complaint import complain

    if mistake := options.mistake():
        complain(f"{mistake}. See: callboard {options.command} --help")
        return USAGE
    return trio.run(_desk(config, data).say, question, options)


def _desk(config: Path | None, data: Path | None) -> ApprovalCommand:
    from ...config.files import load_settings
    from .answers import ApprovalCommand, options_for

    return ApprovalCommand(data_path(data), load_settings(config), options_for(config, data))
