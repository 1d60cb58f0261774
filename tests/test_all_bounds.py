"""Every bound of callboard stands in one table: it is in a pair that is tested at its edge, or composes with nothing.

A pair is one of `PAIRS` in test_composed_bounds.py, or a test that `TESTED` names. `ALONE` has the others, by the
reason why they need none. A rule of thumb for a new bound: if what it lets through is written into something
that has a bound too (a result, an event, a frame, a file that is read whole), it is a pair.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from callboard.config.sections import SandboxSettings, ServerSettings, SessionSettings
from callboard.config.settings import Limits

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "callboard"

BOUND = re.compile(
    r"_?(MAX|MOST)_|\w+_(BYTES|CHARS|CHARACTERS|ITEMS|ROWS|LINES|CAPACITY|SIZE|DEPTH|COUNT|ENTRIES|FILES"
    r"|LENGTH|TOKENS|PAGES|PIECE|PARTS|EVENTS|AHEAD|BATCH|LIMIT)$"
)
A_TIME = re.compile(r"(SECONDS|_MS|_NS|_HOURS|_MINUTES|_DAYS)(_|$)")
"""Deadlines are another matter: they are tested with the clock of their part."""
CONSTANT = re.compile(r"^([A-Z_][A-Z0-9_]*)(?:: [^=\n]+)? = ([^\n\"'\[{]+)$", re.MULTILINE)
NUMBER = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Name, ast.Attribute)
PART_OF_ONE = (ast.operator, ast.unaryop, ast.expr_context)

SETTINGS = (Limits, SandboxSettings, ServerSettings, SessionSettings)

TESTED = {
    "gateway/test_asked_parameters.py::test_a_schema_that_makes_no_form_is_left_out": """
        gateway/methods/approvals: MAX_PARAMETERS_BYTES MAX_PARAMETERS_DEPTH
    """,
    "runtime/test_tickets.py::test_a_ticket_of_nodes_with_the_longest_names_is_read": """
        runtime/cluster/tickets: MAX_TICKET_CHARS
    """,
    "gateway/test_relayed_servers.py::test_clients_that_have_something_at_another_node_are_bounded_at_both": """
        gateway/relays/accepted: MAX_KEPT_CLIENTS
    """,
    "flows/test_calls_below_flow.py::test_what_a_call_is_about_is_one_bounded_line_whatever_it_is_given": """
        actors/delegation/calls_below: MAX_LINE_CHARS MAX_READ_CHARS
    """,
    "flows/test_calls_below_flow.py::test_who_joins_late_hears_what_runs_below_and_not_more_than_has_room": """
        runtime/turns/live_state: MAX_BELOW
    """,
    "gateway/test_turn_and_log_methods.py::test_the_end_of_the_log_is_bounded_and_says_what_is_lost": """
        gateway/shared/log_end: MAX_RECORD_CHARS
    """,
    "gateway/test_request_sizes.py::test_a_request_has_room_for_all_that_its_method_takes": """
        actors/people/user_questions: MAX_ANSWER_CHARACTERS
        actors/permissions/asking: MAX_REASON_CHARACTERS
        actors/permissions/question: MAX_PATTERN_CHARACTERS
        actors/upkeep/keeping: MAX_BATCH
        config/base_url: MAX_URL_LENGTH
        config/policy/path_pattern: MAX_PATH_CHARS
        gateway/shared/pages: MAX_PAGE
        providers/catalog/keys: MAX_KEY_LENGTH
        runtime/memory/memories: MAX_MEMORY_CHARS
        runtime/wire/fields: MAX_ITEMS MAX_LINE_CHARS MAX_SECRET_CHARS MAX_TEXT_CHARS
    """,
    "test_composed_bounds.py::test_a_file_is_never_written_larger_than_it_is_read": """
        config/files: MAX_FILE_BYTES
        config/keys/tokens: MAX_FILE_BYTES
        config/mcp/pins: MAX_PINS_BYTES
        config/skill_approvals: MAX_FILE_BYTES
    """,
    "flows/test_mcp_tasks.py::test_the_most_and_longest_tasks_are_read_back": """
        tools/mcp/tasks/book: MAX_BYTES MAX_TASKS
        tools/mcp/tasks/handle: MAX_ID_CHARS
    """,
    "test_composed_bounds.py::test_the_longest_that_schedules_settle_is_read_back": """
        embedding/unattended/settled: MAX_BYTES MAX_WHY_CHARS
        runtime/schedules/schedule: MAX_SCHEDULES
        runtime/schedules/times: MAX_FIELD_CHARS
    """,
    "actors/test_conversation.py::test_what_a_failed_turn_was_asked_is_cut_later_and_whole_in_a_retry": """
        actors/conversation/unanswered: MAX_CHARS
    """,
    "gateway/test_console_logins.py::test_the_browser_that_was_away_longest_gives_its_place": """
        config/keys/console_logins: MAX_FILE_BYTES MAX_LOGINS
    """,
    "test_limits.py::test_the_defaults_are_those_of_the_design": """
        Limits: max_calls_per_session max_calls_per_runtime max_calls_per_response max_arguments_bytes
            max_result_bytes model_retries max_session_depth max_child_sessions max_repeats
    """,
}

ALONE: dict[str, str] = {
    "the size of a piece or a batch; the whole has a bound of its own": """
        cli/acp/bridge: LIST_LIMIT
        cli/acp/connection: CHUNK_BYTES
        actors/handles/memory_search: FILL_BATCH
        actors/journal: MAX_GROUP
        actors/model/stream: MAX_WAITING_BATCHES
        cli/mcp/serve: READ_BYTES
        client/stream: PIECE_BYTES
        config/usage_sums: PAGE_ROWS
        embedding/models: LENT_BYTES
        embedding/unattended/scheduler: MAX_OVERLAPPING MAX_TURNS
        gateway/connection/frame_budget: PIECE_BYTES
        gateway/door/http: BODY_READ_BYTES CHUNK_BYTES LINGER_BYTES LINGER_READ_BYTES SMALL_READ_BYTES
            MAX_SMALL_CHUNKS MAX_SMALL_READS READ_BYTES
        gateway/agui/api: PAGE_EVENTS
        gateway/feeds/outbox: MERGE_SIZE SEND_SIZE
        gateway/feeds/session_feed: PAGE_EVENTS
        gateway/feeds/topic_feed: PAGE_EVENTS
        gateway/session_events: PAGE_EVENTS
        gateway/recorded_turn: PAGE_EVENTS
        gateway/mcp/resources: PAGE_ROWS
        gateway/methods/session_files: FILE_PART_BYTES PAGE_EVENTS
        gateway/shared/pages: STEP_ROWS
        gateway/shared/turn_record: STEP_EVENTS
        providers/anthropic/models: PAGE_SIZE
        providers/replay: PIECE_BYTES
        runtime/backup/salvage: _BLOCK_BYTES
        runtime/backup/store_copy: BATCH_EVENTS
        runtime/changes/version_log: CHUNK_BYTES
        runtime/cluster/adoption: MAX_ADOPTED
        runtime/cluster/registry: MAX_CLAIM
        runtime/http/connection: READ_BYTES
        runtime/http/transport: MAX_PIECES_LEFT
        runtime/store/file: CHECKPOINT_PAGES LOG_BLOCK_BYTES
        tools/mcp/streams: PIECE_BYTES
        tools/sandbox/network/proxy: CHUNK_BYTES
        tools/sandbox/running/capture: MAX_LINES_AT_ONCE
        tools/sandbox/running/process: READ_BYTES
        tools/sandbox/tiers/landlock_exec: CHUNK_BYTES
    """,
    "what is remembered; beyond it something is forgotten, or found again": """
        gateway/console/logins: MAX_TICKETS
        actors/people/user_questions: MAX_REMEMBERED
        actors/permissions/decisions: MAX_CACHED_POLICIES MAX_GRANTS MAX_KEPT_DECISIONS
        actors/upkeep/titles: MAX_SEEN
        config/in_force: MAX_KNOWN_GONE
        config/policy/grant_binding: MAX_CACHED_ARGUMENTS MAX_CACHED_PATTERNS
        config/policy/policy: MAX_CACHED_LAYERS MAX_CACHED_TOOLS
        config/prices: MAX_FOUND
        embedding/unattended/schedules: MAX_LATELY
        gateway/connection/subscriptions: MAX_SUBSCRIPTIONS
        gateway/door/rate_limits: MAX_REMEMBERED
        gateway/mcp/tools: MAX_OWN_SESSIONS
        client/address: MAX_LEARNED_NODES
        gateway/relays/relays: MAX_PLACES
        runtime/changes/shared_versions: MAX_PLACED
        gateway/shared/idempotency: MAX_ANSWERS
        gateway/shared/log_end: MAX_RECORDS
        providers/catalog/cache: MAX_FILE_BYTES
        providers/tool_sets: MAX_KEPT_TOOL_SETS
        runtime/http/http1: _KNOWN_BYTES _MAX_KNOWN_CHUNKS
        runtime/http/pool: MAX_IDLE_CONNECTIONS
        runtime/http/request: MAX_KEPT_TARGETS
        runtime/kernel/supervisor: MAX_REMEMBERED
        runtime/store/tables/requests: MAX_REQUESTS
        runtime/store/postgres/connection: MAX_KNOWN_SESSIONS MAX_STATEMENTS
        runtime/taint/marked_files: MAX_KNOWN_FOREIGN MAX_KNOWN_WORKSPACES
        runtime/taint/origins: MAX_KNOWN_CONFIGS
        runtime/taint/writers: MAX_CLEAN MAX_KNOWN_FOLDERS
        tools/processes/unreaped: MAX_TURNS
        tools/registry: MAX_CACHED_QUERIES
        tools/sandbox/background: MAX_ENDS MAX_KEPT_PER_SESSION
        tools/sandbox/changes/snapshot: MAX_TREES
        tools/sandbox/sandbox: MAX_REMEMBERED
        tools/sandbox/selftest/kept_result: MAX_FILE_BYTES
        tools/sandbox/selftest/self_test: MAX_KEPT_TESTS
        tools/sandbox/stale_stubs: MAX_FILE_BYTES MAX_NOTED
        tools/skills/shelf: MAX_SAID
        tools/workspace/protected_places: MAX_HELD
    """,
    "a count of what runs, waits or is open at once; each has its own size": """
        cli/acp/bridge: MAX_OPEN
        cli/acp/connection: MAX_REQUESTS
        actors/calls/dispatcher: MAILBOX_CAPACITY
        actors/directory: MAILBOX_CAPACITY MAX_STOPPING MAX_WAKING
        actors/handles/open_handles: MAX_OPEN_WORKSPACES
        actors/model/stream: MAILBOX_CAPACITY
        actors/conversation/inputs: MAX_COMMANDS MAX_INPUTS MAX_LATE
        actors/permissions/broker: MAILBOX_CAPACITY
        actors/permissions/record: MAX_LEFT
        actors/session/session: MAILBOX_CAPACITY MAX_WAITING_INPUTS
        actors/session/subscribers: MAX_FOLLOWER_UPDATES MAX_WAITING_PROGRESS
        actors/upkeep/titles: MAX_AT_ONCE MAX_WAITING
        client/subscriptions: MAX_WAITING_EVENTS
        embedding/models: MAX_LENT
        embedding/unattended/scheduler: MAILBOX_CAPACITY MAX_FIRING
        gateway/connection/connection: MAX_RUNNING_REQUESTS
        gateway/connection/subscriptions: MAX_CATCHING_UP
        gateway/door/not_ready: MAX_WAITING
        gateway/door/server: MAX_REQUESTS
        gateway/feeds/webhooks: MAX_WAITING
        gateway/mcp/http_app: MAX_SESSIONS
        gateway/mcp/listening: MAX_LISTENED MAX_LISTENERS
        gateway/mcp/server: MAX_CALLS
        gateway/quotas: MAX_TOKEN_REQUESTS
        gateway/relays/accepted: MAX_ACCEPTED_REQUESTS MAX_RELAYED_SESSIONS
        gateway/relays/peer: MAX_RELAYED_REQUESTS MAX_WAITING_UPDATES
        gateway/shared/uploads: MAX_UPLOADS
        portals/threads: MAX_APPROVAL_THREADS
        providers/recording: MAX_WRITERS
        runtime/kernel/delivery: MAX_HELD_UPDATES MAX_WAITING_UPDATES
        runtime/store/memory_store: MAX_WAITING_BYTES MAX_WAITING_EVENTS
        runtime/store/sqlite_store: MAX_READERS
        runtime/store/postgres/store: MAX_READERS
        tools/context: MAX_WAITING_LINES
        tools/mcp/server: MAILBOX_CAPACITY
        tools/mcp/servers: MAX_LOOKS MAX_OFFERS MAX_WORKSPACES
        tools/mcp/session_servers: MAX_OWN_NAME MAX_SESSIONS
        gateway/logins: MAX_LOGINS
        tools/mcp/streams: CUT_BYTES MAX_LISTED MAX_WRITERS
        tools/processes/function_process: MAX_FUNCTION_PROCESSES
        tools/processes/process_tree: MAX_PROCESSES
        tools/sandbox/piped: MAX_AWAKE MAX_ROUNDS
        tools/mcp/work: MAX_SESSIONS
        tools/processes/threads: MAX_FILE_THREADS MAX_FUNCTION_THREADS
        tools/sandbox/background: MAX_RUNNING MAX_RUNNING_PER_SESSION
        tools/sandbox/box/start_gate: MAX_OPEN_FILES
        tools/sandbox/network/sockets: MAX_CONNECTIONS
        tools/sandbox/sandbox: MAX_PROGRAMS
        tools/search/search_process: MAX_MATCHERS
        tools/web/fetch: MAX_FETCHES
        tools/web/page_text: MAX_READERS
    """,
    "what is sent to a collector; what is more is cut, or dropped and counted": """
        runtime/telemetry/content: MAX_BYTES MAX_HEARD MAX_MESSAGE
        runtime/telemetry/context: MAX_TURNS
        runtime/telemetry/metrics: MAX_KNOWN MAX_LABEL MAX_SERIES MAX_VALUES
        runtime/telemetry/protobuf: MAX_KEPT
        runtime/telemetry/spans: MAX_ID MAX_OPEN MAX_SESSIONS
        runtime/telemetry/templates: MAX_DESCRIPTION MAX_TEMPLATES
        runtime/telemetry/telemetry: FOLD_EVENTS MAX_CONTENT_BYTES MAX_EARLIER MAX_EVENTS
            MAX_KNOWN MAX_SENT MAX_SENT_BYTES MAX_SPANS SPAN_BYTES
    """,
    "a count of tries": """
        actors/calls/outcome: MAX_ATTEMPTS
        runtime/store/postgres/ledger: MAX_ACKNOWLEDGED MAX_ATTEMPTS MAX_NAMED
        actors/model/choice: MOST_DOUBLINGS MOST_RETRIES_AFTER_SILENCE MOST_RETRIES_AFTER_TEXT
        actors/turn/structured: MAX_REJECTED
        gateway/connection/connection: MAX_MISSED_PINGS
        gateway/door/rate_limits: MAX_BAD_TOKENS
        tools/mcp/server: MAX_FAILURES
        tools/mcp/streams: MAX_BAD_LINES
        tools/mcp/tasks/handle: MAX_ROUNDS
        tools/sandbox/box/stubs: MAX_TRIES
        tools/web/client: MAX_REDIRECTS
        tools/workspace/openat2: _MAX_EAGAIN
    """,
    "shown to a person or a model, cut; what is more is counted, or on record": """
        cli/cluster/keeper: MAX_LINE_BYTES MAX_SAID_CHARS MAX_SAID_LINES
        config/skill_approvals: MAX_KEPT_BYTES
        actors/permissions/question: MAX_SHOWN_CHARACTERS
        actors/upkeep/replay: MAX_SHOWN
        actors/upkeep/titles: MAX_SAID_CHARS MAX_TITLE_CHARS
        actors/upkeep/undo: MAX_TOLD
        client/address: MAX_SAID_CHARS MAX_SHOWN_CHARS
        client/client: MAX_APPROVALS
        config/policy/new_hosts: MAX_NAMED
        embedding/status: MAX_SESSION_ACTORS
        gateway/door/monitoring: MAX_NAMED
        gateway/mcp/resources: MAX_CALL_CHARS MAX_TRANSCRIPT_CHARS
        gateway/mcp/server: MAX_SHOWN
        gateway/mcp/turn: MAX_LINE
        gateway/shared/stall_watch: MAX_FRAMES
        gateway/shared/turn_record: MAX_BEGINNING_CHARS
        providers/catalog/catalog: MAX_LISTED_MODELS
        providers/error_answer: MAX_MESSAGE_CHARS
        runtime/changes/undo_report: MAX_PATHS
        runtime/http/http1: MAX_QUOTED_CHARS
        runtime/http/url: MAX_SHOWN_CHARS
        runtime/store/projection: MAX_PREVIEW_LENGTH MAX_TITLE_LENGTH
        runtime/store/tables/search: SNIPPET_CHARS
        tools/agent/memories: MAX_FOUND
        tools/development/format_worker: MAX_SAID
        tools/development/packages: MAX_TAIL_CHARACTERS
        tools/development/run_tests: MAX_SUMMARY_CHARACTERS MAX_TAIL_CHARACTERS _LAST_LINES
        tools/files/file_edit: MAX_NEAREST
        tools/files/files: MAX_LISTED_ENTRIES MAX_NAMED_DELETIONS
        tools/files/preview: MAX_NAMED_ENTRIES MAX_SHOWN_END_BYTES
        tools/files/text_diff: CONTEXT_LINES
        tools/git/command: MAX_SAID_CHARACTERS
        tools/git/push: MAX_SHOWN_COMMITS MAX_SHOWN_NOTED
        tools/mcp/connection: MAX_ERROR_CHARS
        tools/mcp/http: MAX_REASON_CHARS
        tools/mcp/login: MAX_PROBLEM_CHARS
        config/mcp/wire: MAX_NAMED
        tools/mcp/result: MAX_DISPLAY_CHARS
        tools/mcp/server: MAX_SAID
        tools/mcp/streams: MAX_SHOWN
        tools/mcp/tasks/handle: MAX_ERROR_CHARS
        tools/plugins: MAX_PROBLEM_CHARS
        tools/programs/program_result: MAX_REASON_CHARACTERS MAX_TITLE_CHARACTERS
        tools/sandbox/box/user: MAX_NAMED
        tools/sandbox/changes/change_tracker: MAX_PATHS_PER_REASON
        tools/sandbox/changes/scan: MAX_NAMED
        tools/sandbox/named_programs: MAX_SHOWN_BYTES
        tools/sandbox/piped: MAX_ERROR_BYTES
        tools/schema/complaint: MAX_CHOICES MAX_GIVEN
        tools/schema/foreign_validator: _MAX_SHOWN
        tools/schema/validation: MAX_DISPLAY_BYTES MAX_DISPLAY_CHARACTERS MAX_NOTED
        tools/search/search_files: MAX_SHOWN_CHARACTERS
        tools/skills/shelf: MAX_LISTED_FILES
        tools/undo/previews: MAX_COMPARED_BYTES MAX_LINE_CHARS MAX_SHOWN_FILES MAX_SHOWN_LINES
        tools/undo/recorded_files: MAX_TOLD
        tools/undo/undo: MAX_TOLD
        tools/web/fetch: MAX_TITLE_CHARS
        tools/web/markdown: MAX_COLUMNS
        tools/web/search_engines: MAX_SNIPPET_CHARS MAX_TITLE_CHARS
        tools/workspace/workspace: MAX_NAMED_LEFTOVERS
    """,
    "how far is looked; beyond it the answer says so, or the stricter case holds": """
        gateway/console/pages: MAX_TABLE_BYTES
        gateway/door/monitoring: MAX_COUNTED
        gateway/lifecycle: MAX_QUESTIONS
        gateway/methods/approvals: MAX_DEPTH
        providers/catalog/windows: MAX_SHOWN
        providers/error_answer: _MAX_DEPTH
        runtime/http/address_guard: MAX_ADDRESSES
        runtime/store/postgres/size: SAMPLE_PAGES ROW_BYTES
        runtime/store/tables/requests: MAX_TURNS_BETWEEN
        runtime/store/tables/search: MAX_INDEXED_CHARS MAX_MATCHES
        runtime/taint/named_places: MAX_FOLDERS MAX_TRIED
        runtime/taint/origins: MAX_ABOVE MAX_LOOKED_INTO
        tools/files/file_edit: MAX_COMPARED_CHARACTERS MAX_COMPARED_LINES
        tools/files/preview: MAX_COMPARED_BYTES MAX_COUNTED_ENTRIES
        tools/git/reading: MAX_ENTRIES
        tools/sandbox/box/kernel_files: MAX_DEPTH MAX_LOOKED_AT
        tools/sandbox/box/protected: MAX_DEPTH
        tools/sandbox/box/roots: INSTALLATION_DEPTH MAX_PATH_FOLDERS
        tools/sandbox/changes/scan: MAX_ENTRIES MAX_LOOKED_AT MAX_WRITTEN_ENTRIES
        tools/sandbox/named_programs: MAX_FOLDERS
        tools/schema/foreign_schema: MAX_SCHEMA_DEPTH
        tools/schema/foreign_validator: MAX_UNCOUNTED
        tools/schema/validation: MAX_DEPTH
        tools/search/search_files: MAX_DIRECTORY_ENTRIES MAX_SEARCHED_BYTES
        tools/search/search_pattern: MAX_STEPS
        tools/skills/instructions: MAX_FOLDERS
        tools/skills/shelf: MAX_ENTRIES
        tools/web/page_tree: MAX_DEPTH
        tools/web/text: MAX_LOOKED_AT
        tools/workspace/atomic_write: MAX_SWEPT_ENTRIES
        tools/workspace/resolver: MAX_LINKS
        tools/workspace/roots: MAX_LINKS
        tools/workspace/workspace: MAX_REMOVED_ENTRIES
    """,
    "what a command reads, holds or shows of one screen; the record has all of it": """
        cli/acp/calls: MAX_DIFF_BYTES MAX_SHOWN_CHARS
        cli/acp/content: MAX_FILE_BYTES
        cli/acp/options: MAX_MODELS
        cli/acp/slash: MAX_LIKE
        cli/approvals/answers: MAX_ALSO_WAITING MAX_DEPTH
        cli/approvals/list: MAX_ARGUMENT_CHARS MAX_LISTED
        cli/ask/dialogue: KEY_ROWS
        cli/ask/edit_form: MIN_LONG_CHARS
        cli/ask/editing: MAX_EDITED_BYTES
        cli/ask/parameter_lines: MAX_LINES MAX_LINE_CHARS MAX_NAME_CHARS MAX_OPTIONS MAX_STEPS MAX_VALUE_CHARS
        cli/ask/read_ahead: MAX_READ_AHEAD
        cli/ask/skills: MAX_ASKED MAX_SHOWN_LINES
        cli/run/attachments: LARGE_BYTES
        cli/chat/attach: PAGE_EVENTS
        cli/chat/input_aids: MAX_ENTRIES MAX_ENTRY_CHARS MAX_FILE_BYTES MAX_FOLDED_CHARS MAX_LOOKED_AT
            MAX_OFFERED SHOWN_CHARS SHOWN_LINES
        cli/chat/prompt: MENU_ROWS
        cli/chat/shell_line: MAX_KEPT_CHARS MAX_SHOWN_LINES READ_BYTES
        cli/chat/shown_session: PAST_EVENTS
        cli/chat/slash_commands: MAX_COPIED_CHARS MAX_LISTED MAX_TITLE_CHARS MAX_VALUES
        cli/chat/status_line: SHORT_FOLDER_CHARS
        cli/chat/talk: MAX_MADE MAX_SHOWN_CHARS
        cli/chat/view: MAX_PROMPTS MAX_SHOWN_CALLS MAX_SHOWN_INPUTS MAX_TAIL_CHARS MAX_TAIL_LINES
        cli/completion: MAX_OFFERED MAX_SAID_CHARS
        cli/show/ended_calls: MAX_ENDED_CALLS MAX_ENDED_CHARS MAX_ENDED_LINES
        cli/daemon/logs: MAX_LINES
        cli/daemon/serve_log: MAX_QUEUED MAX_SERVE_LOG_BYTES
        cli/daemon/stop: MAX_ANSWER_BYTES
        gateway/hooks/passed_on: MAX_ANSWER_BYTES
        cli/doctor/files: LITTLE_BYTES MAX_NAMED NO_BYTES
        cli/doctor/nodes: MAX_AT_ONCE
        cli/help_page: MAX_LABEL MAX_WIDTH
        cli/log_file: MAX_LOG_BYTES
        cli/mcp/commands: MAX_ERROR_CHARS
        cli/mcp/importing: MAX_FILE_BYTES
        cli/mcp/login: MAX_BROWSERS MAX_HEAD_BYTES
        tools/mcp/state: MAX_LOGIN_CHARS MAX_LOGIN_FIELDS
        cli/record_names: MAX_DELETED MAX_LOOKED_AT MAX_MATCHES MAX_SEARCHED MAX_SEARCHED_SESSIONS
        cli/run/choice: MAX_UNANSWERED PAGE_EVENTS
        cli/run/pending: LAST_EVENTS MAX_CALLS MAX_DEPTH MAX_NAMED MAX_WAITING
        cli/run/stdin: _CHUNK_BYTES
        cli/setup/agents: MAX_SHOWN_TOOLS
        cli/setup/models: MAX_TITLE_CHARS
        cli/setup/schedules: MAX_COUNT
        cli/sharing/background: MAX_LINE_BYTES
        cli/show/below: MAX_SHOWN_LINES
        cli/show/call_text: MAX_CODE_LINES MAX_FIRST_LINES MAX_LAST_LINES MAX_OUTPUT_CHARS
            MAX_SUBJECT_CHARS
        cli/show/inputs: MAX_PROMPT_ROWS
        cli/show/live_pieces: MAX_EVENTS
        cli/show/sessions: MAX_BELOW MAX_TITLE_CHARS PAGE_EVENTS
        cli/show/transcript: MAX_FOLDER_CHARS MAX_LINE_CHARS
        cli/store/replay: MAX_INPUT_CHARS
        cli/store/sessions: MAX_FILE_BYTES MAX_MESSAGE_CHARS MAX_TITLE_CHARS _MAX_ROWS
        cli/store/undo: MAX_SHOWN_PATHS
        cli/terminal/escaping: MAX_PATH_CHARS
        cli/terminal/highlight: MAX_CONTEXT_CHARS MAX_LINE_CHARS
        cli/terminal/keyboard: MAX_LINE_BYTES
        cli/terminal/markdown_inline: MAX_HELD_CHARS
        cli/terminal/markdown_live: MAX_LINE_CHARS MAX_OPEN_ROWS
        cli/terminal/output: MAX_WAITING_CHARS
        cli/terminal/tables: MAX_HELD_ROWS
    """,
    "of models that play a part, and of servers for tests": """
        providers/rehearsal/clauses: MAX_TEXT_CHARS MAX_WORDS
        providers/rehearsal/model: MAX_BRIEF_CHARS MAX_MEMORY_ITEMS MAX_NOTED_LINES MAX_TEXT_DELTAS
        providers/rehearsal/places: MAX_PLACE_WORDS
        providers/rehearsal/report: MAX_SHOWN_CHARS
        providers/rehearsal/requests: MAX_STEPS
        providers/testing/script: ARGUMENT_PIECE_CHARS MAX_PIECES
        providers/testing/scripted_server: MAX_BODY_BYTES MAX_HEAD_BYTES
    """,
    "what a provider takes or sends; a decoder refuses or leaves out the rest, and an answer has its own bound": """
        actors/model/stream: MAX_ERROR_BODY_BYTES
        providers/answer_body: MAX_ANSWER_BYTES MAX_CALLS MAX_HEAD_BYTES
        providers/anthropic/blocks: MAX_BLOCKS
        providers/anthropic/dialect: MAX_TEMPERATURE
        providers/anthropic/families: MIN_BUDGET_TOKENS
        providers/anthropic/history: MAX_IMAGE_BYTES MAX_PDF_BYTES MAX_TITLE_CHARS
        providers/anthropic/models: MAX_ID_CHARS MAX_TOKENS
        providers/anthropic/schema: MAX_NODES
        providers/catalog/completion: MAX_ERROR_BODY_BYTES MAX_TEXT_CHARS
        providers/catalog/connection_test: MAX_OUTPUT_TOKENS
        providers/catalog/lists: MAX_PAGES MAX_PAGE_BYTES
        providers/catalog/windows: MAX_ASIDE_BYTES
        providers/error_answer: MAX_READ_CHARS
        providers/gemini/calls: MAX_LIST_GAP MAX_PATH_STEPS MAX_PIECE_BYTES
        providers/gemini/decoder: MAX_DOCUMENT_BYTES
        providers/gemini/dialect: MAX_STOP_SEQUENCES
        providers/gemini/history: MAX_DEPTH
        providers/gemini/schema: MAX_NOTE_CHARS
        providers/lenient_json: MAX_COUNT MAX_ODD_BYTES
        providers/openai/models: MAX_MODELS MAX_TOKENS
        providers/openai/strict_schema: MAX_CHARS MAX_DEPTH MAX_OBJECTS MAX_PROPERTIES MAX_VALUES
        providers/openai_chat/calls: MAX_KEPT_BYTES
        providers/openai_chat/decoder: MAX_COMPARED_CHARS
        providers/openai_chat/dialect: MAX_STOPS
        providers/openai_responses/dialect: MIN_OUTPUT_TOKENS
        providers/openai_responses/items: MAX_CONTENT MAX_ITEMS
        providers/openai_responses/wire: MAX_ANNOTATION_BYTES
        providers/recording: MAX_RECORDED_BYTES MAX_REQUEST_BYTES MAX_SECRET_BYTES
        providers/sse: MAX_EVENT_BYTES MAX_STRAY_BYTES
        providers/tool_names: _KEPT_CHARS
        providers/tool_schema: MAX_DEPTH MAX_INLINED_BYTES MAX_KEPT_DESCRIPTION_CHARS
    """,
    "what an operator, a program or a client sets; refused at once, before anything else sees it": """
        cli/cluster/file: MAX_FILE_BYTES MAX_REPLICAS
        actors/upkeep/keeping: MAX_TITLE_CHARS
        config/daemon_file: MAX_FILE_BYTES
        config/keys/master: MAX_FILE_BYTES
        config/mcp/settings: MAX_NAMED MAX_SERVERS MAX_TEXT MAX_WORDS
        config/policy/path_pattern: MAX_WILDCARDS
        config/policy/rules: MAX_PATTERNS MAX_REASON_CHARS
        config/sections: MAX_AMOUNT MAX_STORE_MIB MAX_URL_CHARS MAX_WORDS MAX_CAPACITY MAX_NODE_CHARS MAX_ROOTS MAX_ROOT_CHARS
        config/settings: MAX_COUNT MAX_DEPTH MAX_RETRIES
        embedding/access: MAX_CERTIFICATE_BYTES
        gateway/shared/state: MAX_ADDED_ROOTS
        runtime/backup/session_file: MAX_FILE_EVENTS
        runtime/budget: MAX_AMOUNT
        runtime/definitions: MAX_AGENT_SKILLS MAX_DESCRIPTION_CHARS MAX_FALLBACKS MAX_OUTPUT_TOKENS
            MAX_TEMPERATURE
        runtime/history: MAX_ATTACHMENTS MAX_NAME_CHARS
        runtime/hooks/hook: MAX_PER_MINUTE
        runtime/http/url: MAX_URL_CHARS
        runtime/identity: MAX_TRACESTATE MAX_TRACE_CHARS
        runtime/memory/memories: MAX_MEMORIES MAX_QUERY_WORDS MAX_TAGS MAX_TAG_CHARS
        runtime/memory/static_embedding: MAX_HEAD_BYTES
        runtime/text: MAX_HOSTS
        runtime/turn_options: MAX_GIVEN_CALLS MAX_SCHEMA_CHARS MAX_TOOLS
        runtime/wire/fields: MAX_PROMPT_CHARS
        runtime/wire/sessions: MAX_LEFT
        runtime/wire/rpc: MAX_ID_LENGTH
    """,
    "what comes in through a socket; refused before anything else sees it": """
        gateway/console/logins: MAX_BODY_BYTES
        cli/acp/connection: MAX_LINE_BYTES
        client/stream: HANDSHAKE_BYTES
        gateway/door/authentication: MAX_TOKEN_LENGTH
        gateway/door/http: MAX_HEADERS MAX_HEAD_BYTES
        gateway/mcp/endpoint: MAX_BODY_BYTES MAX_VALUES
        gateway/mcp/server: MAX_CURSOR_CHARS ROUNDS_STATE_BYTES
        gateway/quotas: OWN_BYTES
        runtime/hooks/signatures: MAX_SIGNATURES
        runtime/http/http1: MAX_CHUNK_LINE_BYTES MAX_HEAD_BYTES MAX_INFORMATIONAL
        runtime/http/response: MAX_DECOMPRESSED_BYTES MAX_FRUITLESS_BYTES
    """,
    "a fact of a format, of a kernel or of arithmetic, and no choice": """
        config/keys/console_logins: HALF_BYTES
        gateway/console/logins: TICKET_BYTES
        actors/budget/budgets: _PROBE_TOKENS
        client/address: MAX_PORT
        config/keys/sealing: KEY_BYTES NONCE_BYTES
        config/sections: MAX_PATH_BYTES
        gateway/connection/frame_budget: MAX_HEAD
        gateway/door/rules: KEY_BYTES
        providers/gemini/dialect: MAX_SEED
        providers/gemini/schema: _MAX_INTEGER
        runtime/backup/salvage: _MAX_ID
        runtime/disk/data_lock: MAX_PID_BYTES
        runtime/http/http1: _LONE_BYTES _MAX_HEX_DIGITS
        runtime/store/file: _FRAME_BYTES _LOG_HEADER_BYTES
        runtime/store/queries: MAX_POSITION
        runtime/taint/named_places: MAX_PATH
        runtime/text: MAX_EXACT
        runtime/wire/daemon: MAX_NUMBER
        tools/files/file_pages: MAX_CHARACTER_BYTES MAX_OFFSET MAX_PACKED
        tools/sandbox/box/start_gate: MAX_KEY_BYTES
        tools/sandbox/changes/git_files: _FACTS_BYTES
        tools/sandbox/named_programs: MAX_PATH
        tools/sandbox/tiers/landlock_exec: MAX_FILTER_BYTES _OF_FILES
        tools/schema/validation: _MAX_EXACT
        tools/web/page_text: MAX_CHAR_BYTES
        tools/workspace/paths: MAX_NAME_BYTES MAX_PATH_BYTES
    """,
    "room on a disk; checked where it is used": """
        runtime/changes/file_versions: MAX_MEMORY_BYTES MAX_SESSION_BYTES
        runtime/changes/version_log: END_ROOM_BYTES
        runtime/store/health/disk_room: BALLAST_BYTES NEEDED_BYTES ROOM_FOR_BALLAST_BYTES START_BYTES
        runtime/store/file: MAX_CHECKED_FIRST_BYTES MAX_IDLE_LOG_BYTES _MAX_LOG_GROWTH_BYTES
        tools/sandbox/box/recipe: SHARED_MEMORY_BYTES SOCKETS_BYTES
        tools/undo/file_states: MAX_READ_BYTES
    """,
    "an argument of a tool; refused, and the model is told what to do": """
        tools/agent/clock: MAX_ZONE_CHARACTERS
        tools/agent/memories: MAX_QUERY_CHARS
        tools/agent/people: MAX_OPTIONS MAX_OPTION_CHARACTERS
        tools/development/packages: MAX_PACKAGES
        tools/development/run_tests: MAX_WORDS
        tools/files/file_edit: MAX_EDITS
        tools/git/command: MAX_PATHS
        tools/programs/run: MAX_ARGUMENTS MAX_WORDS
        tools/sandbox/session_processes: MAX_COMMAND_BYTES MAX_WORD_BYTES
        tools/schema/foreign_schema: MAX_BRANCHES MAX_CHECKS MAX_SCHEMA_BYTES
        tools/schema/foreign_validator: MAX_EXPLAINED MAX_REGEX_BYTES
        tools/schema/validation: MAX_KEY_LENGTH
        tools/search/ignore_rules: MAX_DEEP_STARS MAX_GLOB_CHARACTERS MAX_STARS
        tools/search/search_pattern: MAX_PATTERN_CHARACTERS _HOPELESS_LENGTH
        tools/web/search: MAX_QUERY_CHARS
    """,
    "what a tool takes from files, programs and servers; the rest is left out, and the result has its own bound": """
        tools/development/format_worker: MAX_CHANGED MAX_FILES
        tools/files/file_pages: MAX_IMAGE_BYTES
        tools/files/text_diff: MAX_DIFF_LINES
        tools/git/commit: MAX_CHANGES MAX_FILES
        tools/git/credential: MAX_ANSWER_BYTES
        tools/git/reading: MAX_COMMITS
        tools/mcp/connection: MAX_NAME_CHARS MAX_PAGES
        config/mcp/wire: MAX_ARGUMENTS MAX_SESSION_SERVERS MAX_TOOLS MAX_VALUES
        tools/mcp/definition: MAX_DEFINITIONS_BYTES MAX_ORIGINAL MAX_PROMPTS MAX_PROMPT_CHARS MAX_TEXTS_BYTES MAX_TEXT_BYTES MAX_TOOL_NAME
        tools/mcp/launch: MAX_STATE_BYTES MAX_STATE_FILES
        tools/mcp/asking/model: MAX_MESSAGES MAX_SHOWN_CHARS MAX_STOPS MAX_STOP_CHARS
        tools/mcp/asking/questions: MAX_FORM_BYTES MAX_MESSAGE_CHARS MAX_OPTIONS MAX_QUESTIONS MAX_TEXT_CHARS MAX_URL_CHARS
        runtime/event_types/form: MAX_FIELDS MAX_VALUE_CHARACTERS
        tools/mcp/result: MAX_FILES MAX_PARTS MAX_PROMPT_TEXT MAX_ROWS MAX_ROW_CHARS
        tools/mcp/tool: MAX_CODE MAX_URI_CHARS
        tools/mcp/connection: MAX_FOLLOWED MAX_RESOURCES
        tools/mcp/servers: MAX_VALUE MAX_VALUES
        tools/mcp/tool: MAX_PROGRESS_CHARS
        tools/client_tool: MAX_EARLY
        tools/plugins: MAX_PLUGIN_TOOLS
        tools/processes/function_process: MAX_LINE_BYTES MAX_LOG_BYTES
        tools/sandbox/changes/change_tracker: MAX_PATHS
        tools/sandbox/changes/git_files: MAX_INDEX_BYTES
        tools/sandbox/changes/scan: MAX_LENDING MAX_WRITTEN
        tools/sandbox/changes/snapshot: MAX_FILE_BYTES MAX_TREE_BYTES
        tools/sandbox/network/proxy: MAX_HOSTS MAX_REFUSED
        tools/sandbox/network/proxy_head: MAX_HEADERS MAX_HEAD_BYTES
        tools/sandbox/network/sockets: MAX_ANSWERED MAX_ASKED_BYTES
        tools/sandbox/running/capture: MAX_LINE_CHARACTERS
        tools/sandbox/running/process: MAX_INFO_BYTES
        tools/sandbox/selftest/self_test: MAX_COPIED_BYTES
        tools/sandbox/tiers/landlock_exec: MAX_PLAN_BYTES
        tools/search/ignore_rules: MAX_IGNORE_BYTES MAX_PATH_CHARACTERS MAX_PATTERNS
        tools/search/search_files: MAX_PENDING_DIRECTORIES MAX_RESULTS _PROBE_BYTES
        tools/search/search_pattern: MAX_LINE_CHARACTERS
        tools/search/search_worker: MAX_MEMORY_BYTES
        tools/skills/front_matter: MAX_FRONT_CHARS
        tools/skills/shelf: MAX_BYTES MAX_FILES MAX_LINE_CHARS
        tools/web/client: MAX_FOLLOWED_BYTES
        tools/web/markdown: MAX_ALT_CHARS MAX_INDENTS MAX_LINK_CHARS
        tools/web/page_text: MAX_PAGE_BYTES
        tools/web/page_tree: MAX_ELEMENTS
        tools/web/page_worker: MAX_HTML_CHARS MAX_MEMORY_BYTES MAX_PDF_PAGES
        tools/web/search: MAX_ANSWER_BYTES MAX_RESULTS
        tools/web/text: MAX_TYPE_CHARS
    """,
    "a part of an answer or of a request to a model, cut before it is made": """
        actors/budget/budgets: MAX_TOKENS_AHEAD SHARE_AHEAD
        actors/calls/outcome: MIN_TEXT_BYTES _ARTIFACT_CHARS _NOTE_BYTES
        actors/conversation/inputs: MAX_SOURCE_CHARACTERS
        actors/model/answer: MAX_ID_CHARS MAX_NAME_CHARS MAX_PARTS
        actors/model/compaction: ATTACHMENT_CHARS MAX_SUMMARY_CHARS MAX_WISH_CHARS
        actors/permissions/asking: MAX_NAME_CHARACTERS _RESULT_BYTES
        actors/permissions/record: MAX_FOLLOWERS
        actors/permissions/resolution: MAX_DEFERRED
        actors/turn/model_caller: LEAST_ROOM_TOKENS
        actors/turn/structured: MAX_REFUSAL
        actors/upkeep/titles: MAX_EVENTS MAX_OUTPUT_TOKENS
        actors/upkeep/undo: MAX_CALLS
        gateway/agui/interrupts: MAX_PREVIEW_CHARS
        gateway/agui/run_fold: MAX_TASK_CHARS
        gateway/agui/run_input: MAX_CONTEXTS MAX_RESUMED
        gateway/openai/chat_answer: MAX_SHOWN
        gateway/openai/chat_request: MAX_MESSAGES MAX_METADATA
        gateway/openai/content: MAX_TOOLS_CHARS MAX_VALUES
        gateway/openai/responses/fold: MAX_OUTPUT_CHARS
        runtime/turn_options: MAX_CLIENT_TOOLS
        runtime/turns/live_state: MIN_EVENTS
    """,
    "a setting of an amount that nothing else counts": """
        SandboxSettings: file_bytes memory_bytes network_bytes processes temporary_bytes
            temporary_files
        gateway/http_turns: MAX_OWN_TURNS
        ServerSettings: max_connections max_http_turns max_peer_connections max_token_connections port
        SessionSettings: max_store_mib
    """,
    "how much of a text is judged; beyond it the stricter case holds": """
        embedding/unattended/scheduler: MAX_EPOCH_BYTES
        runtime/redaction: MIN_SECRET_CHARS
        runtime/taint/marked_files: MAX_MARKED_FILES
        runtime/taint/marks: MAX_HOSTS
        runtime/taint/named_places: MAX_LISTED MAX_PATTERNS MAX_SHELL_LINE MAX_WORDS
        runtime/taint/origins: MAX_CONFIG_BYTES
        tools/git/command: MAX_DRIVERS
        tools/sandbox/box/mounts: MAX_COVERED
        tools/sandbox/box/protected: MAX_REPOSITORIES
        tools/sandbox/box/roots: MAX_INSTALLATIONS
        tools/sandbox/named_programs: MAX_FOLDER_NAMES MAX_HASHED_BYTES MAX_LISTED MAX_NAMED_FILES
            MAX_NAMES MAX_READ_LINE
        tools/workspace/protected_places: MAX_FILES MAX_LINES MAX_SETTINGS_BYTES
    """,
}


def in_table(text: str) -> Iterator[str]:
    """`PLACE: NAME NAME` in lines, which may go on in further ones, as `PLACE.NAME`."""
    place = ""
    for word in text.split():
        if word.endswith(":"):
            place = word[:-1]
        else:
            yield f"{place}.{word}"


def is_number(text: str) -> bool:
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except SyntaxError:  # it goes on in the next line, as no number does
        return False
    return all(
        isinstance(node, NUMBER + PART_OF_ONE)
        and (not isinstance(node, ast.Constant) or type(node.value) in {int, float})
        for node in nodes
    )


def in_code() -> Iterator[str]:
    """Constants of modules by their names, and the numbers of settings that have a largest value."""
    folders = [PACKAGE, *(path.resolve() for path in PACKAGE.iterdir() if path.is_symlink())]
    for folder in folders:
        for path in folder.rglob("*.py"):
            inside = path.relative_to(folder if folder == PACKAGE else folder.parent)
            place = str(inside.with_suffix(""))
            # Trees of all modules would take three seconds.
            for name, value in CONSTANT.findall(path.read_text(encoding="utf-8")):
                if (
                    BOUND.match(name)
                    and not A_TIME.search(name)
                    and is_number(value.split("  #")[0])
                ):
                    yield f"{place}.{name}"
    for kind in SETTINGS:
        for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]
            if getattr(field.type, "le", None) is not None and not A_TIME.search(
                field.name.upper()
            ):
                yield f"{kind.__name__}.{field.name}"


def in_pairs() -> Iterator[str]:
    """What `PAIRS` computes with."""
    tree = ast.parse((TESTS / "test_composed_bounds.py").read_text(encoding="utf-8"))
    places = {"SERVER": "ServerSettings", "LIMITS": "Limits", "SANDBOX": "SandboxSettings"}
    names: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("callboard."):
            module = (node.module or "").removeprefix("callboard.").replace(".", "/")
            for alias in node.names:
                shown = alias.asname or alias.name
                places[shown] = f"{module}/{alias.name}"
                names[shown] = f"{module}.{alias.name}"
    for node in tree.body:
        target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
        if isinstance(target, ast.Name) and target.id in {"PAIRS", "OPAQUE"}:
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                    if part.value.id in places:
                        yield f"{places[part.value.id]}.{part.attr}"
                elif isinstance(part, ast.Name) and part.id in names:
                    yield names[part.id]


OPAQUE_OF = "anthropic/blocks gemini/decoder openai_chat/extras openai_responses/items"
"""The modules of `OPAQUE`, which takes the largest."""


def test_every_bound_is_in_a_pair_or_composes_with_nothing() -> None:
    code = set(in_code())
    assert len(code) > 600  # so many were there when this was written
    paired = set(in_pairs())
    paired |= {f"providers/{place}.MAX_OPAQUE_BYTES" for place in OPAQUE_OF.split()}
    assert len(paired & code) > 40
    alone = Counter(name for text in ALONE.values() for name in in_table(text))
    tested = {name for text in TESTED.values() for name in in_table(text)}
    assert sorted(code - paired - tested - alone.keys()) == [], (
        "say for each whether what it lets through is written into something that has a bound too: then add "
        "the two to PAIRS in test_composed_bounds.py (or name the test of their edge in TESTED), else to the "
        "reason in ALONE why it composes with nothing"
    )
    assert sorted((alone.keys() | tested) - code) == [], "there are no such bounds: remove them"
    assert sorted(alone.keys() & (paired | tested)) == [], "it has a pair: remove it from ALONE"
    assert [name for name, count in alone.items() if count > 1] == [], "one reason is enough"


def test_the_tests_of_edges_are_there_and_speak_of_their_bounds() -> None:
    for test, text in TESTED.items():
        file, _, name = test.partition("::")
        source = (TESTS / file).read_text(encoding="utf-8")
        assert f"def {name}(" in source
        missing = [each for each in in_table(text) if each.rpartition(".")[2] not in source]
        assert missing == [], test
