"""Each numbered case of the security design has its tests; `test_case_NN_…` names what it is about.

A case that was there before it had a number, or that several tests make up, is listed in `ELSEWHERE`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

CASES: dict[int, str] = {
    1: "a path that leads out, there or not",
    2: "a sibling whose name begins alike",
    3: "a link that leads out",
    4: "a chain of links, and a folder's link on the way",
    5: "a link that stays inside works",
    6: "a folder that is swapped for a link without a pause",
    7: "the magic links of /proc and /dev/fd",
    8: "a hard link to what lies outside",
    9: "a FIFO, a socket, a device",
    10: "a file of 5 GB, a folder of 200,000 entries",
    11: "names that deceive, and what can be no name",
    12: "bits of a file that is written, whatever the umask is",
    13: "a change between reading and editing; a crash between two steps",
    14: "names in /tmp that somebody else made first",
    15: "spellings of this machine's own address",
    16: "addresses inside, of clouds, of many",
    17: "a name with a public address and one inside",
    18: "a name that changes its address",
    19: "redirects",
    20: "proxies, passwords and key logs of the environment",
    21: "bombs, answers without end, drips",
    22: "entries of the list of hosts, and what looks like one",
    23: "what the way out of a sandbox is asked to connect",
    24: "a call above what is allowed waits, and is denied by silence",
    25: "arguments that change after they were approved",
    26: "claims in the arguments",
    27: "a script that changes while it waits",
    28: "arguments that a person edited",
    29: "one answer, given many times",
    30: "a child has no more than its parent; the narrower policy counts",
    31: "every way in passes the gate",
    32: "names that a daemon is called by",
    33: "pages of other origins",
    34: "what a page can send without being asked",
    35: "methods before a token and a hello",
    # Without a token the daemon starts, says how one is made, and lets nobody in but its own user's
    # commands, by the token in a file of theirs: the first one is made while it runs.
    36: "what is no token; no tokens at all",
    37: "a token that was changed while somebody is connected",
    38: "a thousand wrong tokens",
    41: "who breaks the rules of the wire, floods, or fails",
    42: "what a model says about its sandbox",
    43: "what a sandboxed program can read",
    44: "where a sandboxed program can connect",
    45: "what a sandboxed program can use up",
    46: "what left its group and ignores signals",
    47: "a cancel at any moment of the start",
    48: "a sandbox outlives the threads that were used before",
    49: "where there is no sandbox, nothing runs",
    50: "how a line for a shell hides a second command",
    51: "arguments that make a program run another",
    52: "names of files that look like options and commands",
    53: "a provider that asks to wait",
    54: "an answer that is cut anywhere",
    55: "an answer that stalls, or ends without its end",
    56: "arguments that are none",
    57: "a kill at any moment loses nothing that was acknowledged",
    58: "a call that was killed is not repeated",
    59: "a full disk",
    60: "text that looks like a query",
    61: "two runtimes on one folder",
    62: "who never reads",
    63: "who sends without end",
    64: "a key in a refusal, an exception, a header",
    65: "a key that a tool prints",
    66: "who may read what is on disk",
    67: "a page that wants something sent",
    68: "a result that imitates messages",
    69: "what a workspace holds configures nothing",
    70: "what runs another day can't be planted",
    71: "what was approved changes under its name",
    73: "what a program leaves lends nobody rights, and lies in its workspace alone",
    74: "what is mounted in a workspace",
}

FOR_THE_CONSOLE = frozenset({39, 40, 72})
"""Cases of a page that shows sessions, and of a configuration over a websocket: there is none yet."""

ELSEWHERE: dict[int, tuple[str, ...]] = {
    13: ("tools/test_file_edit.py::test_a_change_made_meanwhile_is_not_lost",),
    15: ("runtime/test_address_guard.py::test_no_spelling_of_an_address_gets_around_the_table",),
    16: ("runtime/test_address_guard.py::test_an_address_of_a_special_range_is_not_public",),
    53: (
        "flows/test_retry_flow.py::test_the_wait_that_a_provider_asks_for",
        "flows/test_retry_flow.py::test_a_wait_that_is_too_long_is_not_begun",
    ),
    54: (
        "flows/test_hostile_server.py::test_an_answer_that_breaks_at_any_byte_runs_whole_or_not_at_all",
        "flows/test_format_faults.py::test_an_answer_that_is_cut_behind_any_event_never_runs",
    ),
    55: (
        "flows/test_hostile_server.py::test_a_stall_in_any_phase_has_its_deadline",
        "flows/test_model_fault_flow.py::test_a_model_that_stalls_is_stopped",
    ),
    56: (
        "flows/test_bad_input_flow.py::test_a_bad_call_gets_an_error_result_and_its_sibling_runs",
        "flows/test_bad_input_flow.py::test_arguments_are_cut_while_they_stream",
    ),
    57: (
        "flows/test_kill_flow.py::test_a_kill_anywhere_in_a_turn_loses_and_doubles_nothing",
        "runtime/test_store_crash.py::test_every_acknowledged_event_outlives_a_kill",
    ),
    58: ("flows/test_interrupted_calls.py::test_kill",),
    59: (
        "flows/test_store_flow.py::test_a_full_disk_ends_the_turn_and_the_next_one_works",
        "flows/test_full_disk.py::test_nothing_begins_and_a_deletion_and_a_purge_are_done",
        "flows/test_full_disk.py::test_what_runs_ends_on_record_and_its_next_call_does_not_start",
        "flows/test_full_disk.py::test_only_a_failed_fsync_ends_the_runtime_at_once",
    ),
    61: (
        "flows/test_store_flow.py::test_a_second_writer_is_refused_with_the_pid_of_the_first",
        "flows/test_store_flow.py::test_a_second_writer_in_the_same_process_is_refused_too",
    ),
    62: (
        "flows/test_following.py::test_who_reads_too_slowly_is_cut_off_and_no_turn_waits",
        "flows/test_limit_flow.py::test_a_slow_consumer_pauses_its_own_stream_and_nobody_else",
    ),
    63: (
        "flows/test_limit_flow.py::test_inputs_that_wait_are_bounded",
        "flows/test_delegate_flow.py::test_sessions_go_three_deep",
        "flows/test_delegate_flow.py::test_so_many_run_at_once_below_one",
    ),
    64: ("flows/test_secret_flow.py::test_a_key_is_in_the_request_and_in_no_log_record_or_result",),
    66: (
        "config/test_key_store.py::test_nothing_readable_is_on_disk_and_everything_is_the_owners_alone",
        "config/test_key_store.py::test_a_row_that_was_swapped_or_changed_does_not_open",
        "config/test_key_store.py::test_one_providers_ciphertext_does_not_open_as_anothers",
        "runtime/test_sqlite_store.py::test_folder_and_files_are_the_owners_alone",
    ),
}

NAMED = re.compile(r"test_cases?_([0-9]{2}(?:_[0-9]{2})*)_[a-z]")


@cache
def functions_of(module: Path) -> frozenset[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@cache
def numbered() -> dict[int, list[str]]:
    """The tests that say of which case they are."""
    found: dict[int, list[str]] = {}
    for module in sorted(TESTS.rglob("test_*.py")):
        if NAMED.search(module.read_text(encoding="utf-8")) is None:
            continue  # to look for a name is quicker than to read a tree
        for name in sorted(functions_of(module)):
            if named := NAMED.match(name):
                for number in named[1].split("_"):
                    found.setdefault(int(number), []).append(f"{module.name}::{name}")
    return found


@pytest.mark.parametrize("number", CASES)
def test_a_case_has_its_tests(number: int) -> None:
    for node in ELSEWHERE.get(number, ()):
        module, _, name = node.partition("::")
        assert name in functions_of(TESTS / module), f"{node} is gone"
    assert numbered().get(number) or ELSEWHERE.get(number), CASES[number]


def test_every_number_is_a_case_of_the_design() -> None:
    assert sorted([*CASES, *FOR_THE_CONSOLE]) == list(range(1, 75))
    assert set(numbered()) <= set(CASES)
    assert set(ELSEWHERE) <= set(CASES)
