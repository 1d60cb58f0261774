"""How much the store in a database holds: its rows, without the room that removed ones have left in its files.

The database gives that room to later rows, and almost never back to the disk. So what a purge removes shows in the
rows alone. They are counted where they lie: all pages of a small table, and the same share of a large one each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..lists import StoreSize
from ..queries import Queries

SAMPLE_PAGES = 1000
"""Pages of each table that are looked at, 8 MB: the sum of all tables is then right to some hundredths, and takes
less than a second."""
COUNTED_SECONDS = 30.0
"""How long a count holds: each session that begins asks for the size, where there is a limit."""
ROW_BYTES = 28
"""What each row has beside its columns: its header, and its entry in the page."""

_TABLES = (
    "select c.relname, pg_table_size(c.oid), pg_total_relation_size(c.oid),"
    " pg_relation_size(c.oid) / current_setting('block_size')::bigint,"
    " (select string_agg(format('coalesce(pg_column_size(%I), 0)', a.attname), '+') from pg_attribute a"
    "  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)"
    " from pg_class c where c.relkind in ('r', 'm') and pg_relation_size(c.oid) > 0"
    " and c.relnamespace = (select relnamespace from pg_class where oid = 'sessions'::regclass) order by 1"
)


class HeldSize:
    """The size of the store in one database.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counted: StoreSize | None = None
        self._until = 0.0

    def forget(self) -> None:
        """Count the rows the next time in any case: some have been removed."""
        self._counted = None

    def look(self, queries: Queries) -> StoreSize:
        """Return the size; the rows are those of the last count, and by how much files have grown since. Blocks."""
        tables = queries._rows(_TABLES, ())
        held = sum(all_bytes for _, _, all_bytes, _, _ in tables)
        counted = self._counted
        if counted is not None and self._clock() < self._until:
            grown = max(held - counted.file_bytes, 0)
            return StoreSize(min(counted.used_bytes + grown, held), held, can_shrink=False)
        used = 0
        for table, bytes_of_rows, all_bytes, pages, columns in tables:
            share = min(1.0, SAMPLE_PAGES / pages)
            # Seeded: two looks at the same rows give the same size. What lies outside of the row's page is counted, too.
            sample = "" if share == 1 else f"tablesample system ({100 * share:.6f}) repeatable (1)"
            sum_of = (
                f"select coalesce(sum({ROW_BYTES} + {columns}), 0)::bigint from {table} {sample}"
            )
            ((found,),) = queries._rows(sum_of, ())
            # Its indexes hold as large a share of their files as the table does.
            used += round(min(1.0, found / share / bytes_of_rows) * all_bytes)
        self._until = self._clock() + COUNTED_SECONDS
        self._counted = StoreSize(used, held, can_shrink=False)
        return self._counted
