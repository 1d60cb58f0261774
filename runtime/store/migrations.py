"""The tables of a store file, as a numbered list of steps that only grows.

`PRAGMA user_version` says how many steps a file has had, `PRAGMA application_id` that it is ours. A
released step is never edited: files exist that ran the old text. An event type that older versions
can't decode is a step too, even an empty one, so that they refuse the file by its number and not in the
middle of a session.

Every commit pays for an index, in CPU and in a page of the log. So the rounds of a turn touch none but the
keys: what changes with every event is indexed only while its session is idle, and most other indexes are
partial too. `tests/support/query_plans.py` fails a test that runs a statement which reads a growing table
from end to end, and lists the few that may.

Large texts are stored once. The rows of `messages` for calls and results hold the call's id; arguments
and result are in `tool_calls`. The whole of an output that was cut is in its event, and so are the words
of questions, answers, grants and memories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import apsw

from ..errors import StorageError
from .codec import add_check

if TYPE_CHECKING:
    from .tables.connection import SqlConnection

APPLICATION_ID = 0x63616C6C
"""`call` in ASCII, for `file` and other programs that read the header of a store file."""

NEW_EPOCH = "update meta set value = lower(hex(randomblob(16))) where key = 'epoch'"
"""Gives a copy of a store its own epoch, so that clients don't mistake it for the original."""

_FIRST = """
create table sessions (
  id integer primary key,
  session_id text not null unique,
  title text not null,
  agent text not null,
  kind text not null,
  workspace text not null,
  model text,
  parent_id text,
  message_count integer not null,
  last_message_preview text not null,
  is_active integer not null,
  head_seq integer not null,
  last_event integer not null,
  created_at_ms integer not null,
  updated_at_ms integer not null,
  deleted_at_ms integer
) strict;

create table events (
  id integer primary key,
  session integer not null references sessions (id),
  seq integer not null,
  at_ms integer not null,
  event blob not null,
  unique (session, seq)
) strict;

create table turns (
  id integer primary key,
  session integer not null references sessions (id),
  turn_id text not null,
  started_at_ms integer not null,
  ended_at_ms integer,
  unique (session, turn_id)
) strict;
create index turns_open on turns (id) where ended_at_ms is null;

create table messages (
  id integer primary key,
  session integer not null references sessions (id),
  position integer not null,
  message_id text not null,
  type text not null,
  content text not null,
  created_at_ms integer not null,
  turn_id text,
  thinking text,
  call_id text,
  input_tokens integer,
  output_tokens integer,
  model text,
  provider text,
  duration_ms integer,
  unique (session, position)
) strict;

create table tool_calls (
  id integer primary key,
  session integer not null references sessions (id),
  call_id text not null,
  turn_id text not null,
  name text not null,
  status text not null,
  arguments text not null,
  result text,
  display text not null,
  proposed_at_ms integer not null,
  started_at_ms integer,
  finished_at_ms integer,
  duration_ms integer,
  finished_seq integer,
  unique (session, call_id)
) strict;

create table usage (
  id integer primary key,
  session integer not null references sessions (id),
  turn_id text not null,
  message_id text not null,
  provider text not null,
  model text not null,
  input_tokens integer,
  output_tokens integer,
  cached_tokens integer,
  reasoning_tokens integer,
  created_at_ms integer not null
) strict;
create index usage_by_session on usage (session);
"""

_CACHE_WRITES = "alter table usage add column cache_write_tokens integer;"

_PERMISSIONS = """
alter table sessions add column is_tainted integer not null default 0;
alter table turns add column is_suspended integer not null default 0;

create table approvals (
  id integer primary key,
  session integer not null references sessions (id),
  approval_id text not null,
  turn_id text not null,
  call_id text not null,
  digest text not null,
  state text not null,
  asked_seq integer not null,
  answered_seq integer,
  asked_at_ms integer not null,
  ends_at_ms integer,
  unique (approval_id, session)
) strict;
create index approvals_open on approvals (session) where state in ('waiting', 'allowed');

create table grants (
  id integer primary key,
  session integer not null references sessions (id),
  grant_id text not null,
  scope text not null,
  turn_id text not null,
  given_seq integer not null,
  revoked_at_ms integer,
  unique (grant_id, session)
) strict;
"""

_TREE = """
alter table sessions add column has_private integer not null default 0;
alter table sessions add column parent_call_id text not null default '';
alter table sessions add column is_detached integer not null default 0;
alter table sessions add column runs_apart integer not null default 0;
alter table approvals add column is_deferred integer not null default 0;
alter table sessions add column budget text;
alter table turns add column ran_ms integer not null default 0;
alter table turns add column resumed_at_ms integer;
alter table turns add column failed_calls integer not null default 0;
alter table usage add column estimated_input integer;
alter table usage add column estimated_output integer;
create index sessions_by_parent on sessions (parent_id) where parent_id is not null;

create table inputs (
  id integer primary key,
  session integer not null references sessions (id),
  input_id text not null,
  source text not null,
  call_id text,
  approval_id text,
  turn_id text,
  unique (session, input_id)
) strict;

create table marked_files (path text primary key) strict, without rowid;
"""

_MEMORY = """
create table memories (
  id integer primary key,
  session integer not null references sessions (id),
  memory_id text not null unique,
  agent text not null,
  stored_seq integer not null,
  is_untrusted integer not null
) strict;
create index memories_by_agent on memories (agent);

create virtual table memory_words using fts5 (
  text, tags, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
"""

_WIRE = """
create table meta (key text primary key, value text not null) strict, without rowid;
insert into meta values ('epoch', lower(hex(randomblob(16))));

create table topic_log (
  id integer primary key autoincrement,
  topic text not null,
  session integer not null,
  seq integer not null
) strict;

create table requests (
  id integer primary key,
  sender text not null,
  method text not null,
  key text not null,
  digest text not null,
  session integer not null,
  seq integer not null,
  unique (sender, key, method)
) strict;
"""

_SEARCH = """
alter table sessions add column is_named integer not null default 0;
update sessions set is_named = 1 where exists (
  select 1 from events e where e.session = sessions.id and e.seq = 1
  and coalesce(json_extract(cast(e.event as text), '$.title'), '') <> '');

create virtual table message_words using fts5 (
  text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
"""

_PURGED = """
create table purged (
  id integer primary key,
  session_id text not null,
  agent text not null,
  seq integer not null,
  at_ms integer not null,
  event blob not null
) strict;
"""

_SET_ASIDE = """
alter table messages add column is_set_aside integer not null default 0;
"""

_GROWTH = """
create index sessions_idle on sessions (last_event) where is_active = 0;
create index sessions_by_workspace on sessions (workspace, last_event) where is_active = 0;
create index sessions_unused on sessions (updated_at_ms)
  where is_active = 0 and deleted_at_ms is null and parent_id is null;
create index sessions_detached on sessions (id) where is_detached = 1;
create index sessions_deleted on sessions (deleted_at_ms) where deleted_at_ms is not null;
create index sessions_deleted_latest on sessions (last_event) where deleted_at_ms is not null;

-- Sessions whose turn runs are found by their open turns.
update sessions set is_active = 0 where is_active = 1
  and not exists (select 1 from turns t where t.session = sessions.id and t.ended_at_ms is null);

drop index turns_open;
create index turns_open on turns (session) where ended_at_ms is null;

create index approvals_by_session on approvals (session);
create index grants_by_session on grants (session);
create index grants_lasting on grants (id) where revoked_at_ms is null and scope <> 'turn';
create index memories_by_session on memories (session);

create table usage_days (day integer primary key, first_id integer not null) strict;
insert into usage_days select created_at_ms / 86400000, min(id) from usage group by 1;
create trigger usage_of_a_day after insert on usage
  when not exists (select 1 from usage_days
    where day = new.created_at_ms / 86400000 and first_id <= new.id)
begin
  insert into usage_days values (new.created_at_ms / 86400000, new.id)
    on conflict do update set first_id = excluded.first_id;
end;
"""

_CHECKSUMS = """
alter table events add column checksum integer;
"""

_MESSAGES = """
alter table messages add column stop_reason text;
alter table messages add column cached_tokens integer;
alter table messages add column cache_write_tokens integer;
alter table messages add column is_deleted integer not null default 0;
create index messages_deleted on messages (session) where is_deleted = 1;
alter table sessions add column forked_from text not null default '';
"""

_FILES = """
alter table messages add column files text;
create index messages_with_files on messages (session) where files is not null;
-- What events of older releases had beside them; `tables.files` says what the column holds.
with found as materialized (
  select session, seq, cast(event as text) as text from events
  where (substr(event, 1, 24) = cast('{"type":"input_accepted"' as blob)
    or substr(event, 1, 23) = cast('{"type":"call_finished"' as blob))
  and instr(event, cast('"attachments":[{' as blob)) > 0 and json_valid(cast(event as text))
), told as materialized (
  select session, coalesce(text ->> '$.input_id', 'result:' || (text ->> '$.call_id')) as message_id,
    (select json_object('seq', found.seq, 'files', json_group_array(json_object(
      'name', coalesce(a.value ->> '$.name', ''), 'media_type', a.value ->> '$.media_type',
      'size_bytes', length(a.value ->> '$.data') / 4 * 3 - length(a.value ->> '$.data')
        + length(rtrim(a.value ->> '$.data', '=')))))
    from json_each(found.text, '$.attachments') a) as files
  from found
)
update messages set files = told.files from told
where messages.session = told.session and messages.message_id = told.message_id and messages.is_deleted = 0;
"""

_TURN_STARTS = """
alter table turns add column started_seq integer;
with found as materialized (
  select session, seq, cast(event as text) as text from events
  where substr(event, 1, 22) = cast('{"type":"turn_started"' as blob) and json_valid(cast(event as text))
)
update turns set started_seq = found.seq from found
where turns.session = found.session and turns.turn_id = found.text ->> '$.turn_id';
"""

_VIA = """
alter table sessions add column via text not null default '';
update sessions set via = coalesce((
  select case when text ->> '$.request.sender' like 'schedule:%' then 'schedule'
    when text ->> '$.request.sender' like 'hook:%' then 'hook' else text ->> '$.via' end
  from (select cast(event as text) as text from events where session = sessions.id and seq = 1
    and substr(event, 1, 25) = cast('{"type":"session_created"' as blob))
  where json_valid(text)), '');
"""

MIGRATIONS: tuple[str, ...] = (
    _FIRST,
    _CACHE_WRITES,
    _PERMISSIONS,
    _TREE,
    _MEMORY,
    _WIRE,
    _SEARCH,
    _PURGED,
    _SET_ASIDE,
    _GROWTH,
    _CHECKSUMS,
    _MESSAGES,
    _FILES,
    _TURN_STARTS,
    _VIA,
)
"""Step N brings a file from version N-1 to N."""


def check_version(
    connection: apsw.Connection, name: str, *, steps: Sequence[str] = MIGRATIONS
) -> int:
    """Return the version of an existing file; raise `StorageError` if it is not ours or newer."""
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StorageError(
            f"{name} is not a callboard store; it was left as it is. Move it away, or choose "
            "another data directory."
        )
    version = connection.pragma("user_version")
    if version > len(steps):
        raise StorageError(
            f"{name} was written by a newer callboard (format {version}, this one knows "
            f"{len(steps)}); it was left as it is. Upgrade callboard to open it."
        )
    return int(version)


def migrate(
    connection: apsw.Connection, name: str, *, steps: Sequence[str] = MIGRATIONS
) -> tuple[int, int]:
    """Bring an empty or older database up to date, wholly or not at all; let it read its events.

    Args:
        connection: A writable connection outside a transaction.
        name: How errors call the database.
        steps: The whole list.

    Returns:
        The versions before and after; equal if there was nothing to do.
    """
    add_check(connection)
    connection.execute("begin immediate")
    try:
        is_empty = connection.execute("select count(*) from sqlite_schema").get == 0
        before = 0 if is_empty else check_version(connection, name, steps=steps)
        for step in steps[before:]:
            connection.execute(step)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(steps))
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return before, len(steps)


_MARKED = "select value from meta where key = 'copied_from'"
"""The mark of a store that is being copied: until every session was compared, it is no record to work with."""


def note_copy(source: str | None, connection: SqlConnection) -> None:
    """Mark a store as a copy that has begun; `None` takes the mark away."""
    if source is None:
        connection.execute("delete from meta where key = 'copied_from'")
    else:
        connection.execute("insert into meta values ('copied_from', ?)", (source,))


def check_whole(connection: SqlConnection, name: str) -> None:
    """Raise `StorageError` if a store is a copy that was not brought to its end."""
    if (found := connection.execute(_MARKED).fetchone()) is not None:
        raise StorageError(
            f"{name} holds a part of {found[0]}: copying that to it did not come to its end. Remove {name}, or "
            "choose another place, and copy again; what was copied is as it was."
        )
