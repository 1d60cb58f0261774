"""callboard under asyncio, for `import callboard.aio`: the module itself is `portals.aio`, which `callboard.aio` names as well."""

import sys

from .portals import aio
from .portals.aio import Following as Following
from .portals.aio import Opening as Opening
from .portals.aio import Records as Records
from .portals.aio import Runtime as Runtime
from .portals.aio import Session as Session
from .portals.aio import Turn as Turn
from .portals.aio import open_runtime as open_runtime

sys.modules[__name__] = aio
