"""What the command line of a run says to the daemon: options for the turn, or why there can be none."""

from __future__ import annotations

from ..runtime.definitions import Preset, ThinkingEffort
from ..runtime.errors import ConflictError, ValidationError
from ..runtime.store import SessionRow
from ..runtime.turn_options import TurnOptions
from .choice import RunOptions

OTHERWISE = (
    "Leave it out, stop the daemon with `callboard stop`, or use another data folder with --data."
)

_NOT_THERE = {
    "--base-url": "name the place first, `callboard providers add NAME --base-url URL`, and then "
    "--model NAME/MODEL",
    "callboard record": "a daemon's network is everybody's, and a recording holds one run: record "
    "with a data folder of its own, --data DIR",
}
"""What a run in the daemon can't have, and what does the same."""


def check_options(options: RunOptions) -> None:
    """Raises `ConflictError` for what a run can't choose of a runtime that is there already."""
    given = {
        "--base-url": options.base_url is not None,
        "callboard record": options.is_recorded,
    }
    for name, is_given in given.items():
        if is_given:
            raise ConflictError(
                f"{name} is not for a run in the daemon: {_NOT_THERE[name]}. {OTHERWISE}"
            )
    if options.prompt is None and _of_turn(options, None) != TurnOptions():
        raise ConflictError(
            "--model, --policy, --fallback, --thinking, --temperature and --max-tokens are for the "
            "turn of a prompt; what was left goes on in the daemon as it was begun. Give a prompt, "
            "or leave them out."
        )


def turn_options(options: RunOptions, session: SessionRow | None) -> TurnOptions | None:
    """What the turn of the prompt has in the place of its agent's own.

    Raises:
        ValidationError: There is no such policy.
    """
    found = _of_turn(options, session)
    return None if found == TurnOptions() else found


def _of_turn(options: RunOptions, session: SessionRow | None) -> TurnOptions:
    tuning = options.tuning
    # A new session is begun with its model, and keeps it.
    is_other = session is not None and session.model is None
    return TurnOptions(
        model=options.model if is_other or options.prompt is None else None,
        fallbacks=tuning.fallback or None,
        thinking=None if tuning.thinking is None else ThinkingEffort(tuning.thinking),
        temperature=tuning.temperature,
        max_output_tokens=tuning.max_tokens,
        policy=None if options.policy is None else _preset(options.policy),
    )


def _preset(name: str) -> Preset:
    try:
        return Preset(name)
    except ValueError:
        known = ", ".join(Preset)
        raise ValidationError(
            f"there is no policy {name!r}; there are: {known}", field="policy"
        ) from None
