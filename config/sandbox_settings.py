"""What programs that a model asks for may see and use up: the settings of the sandbox."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

MIB = 1024 * 1024

MAX_AMOUNT = 1024 * 1024 * MIB
"""A TiB: more than a machine has for one program; it catches a slipped finger."""

Amount = Annotated[int, msgspec.Meta(ge=MIB, le=MAX_AMOUNT)]


class Strength(enum.StrEnum):
    """How much a sandbox holds, as its own test found at the start."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"

    @property
    def rank(self) -> int:
        """0 for none."""
        return (Strength.NONE, Strength.PARTIAL, Strength.FULL).index(self)


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sandbox of `run_code` and `shell`.

    Attributes:
        minimum: How much it must hold (`full` or `partial`); below it those tools are not offered.
        read_only: Folders that programs may read besides the system's own and those of the tools
            on PATH, as absolute paths.
        cpu_seconds: Of processor time, all processes of a program together. 600: as long as a call
            may take, on one processor.
        memory_bytes: Of memory, all processes together. 2 GiB: a compiler or a test suite fits.
        processes: At once, of one program. 256: a parallel build fits, a fork bomb does not.
        file_bytes: Of one file that a program writes. 1 GiB.
        temporary_bytes: Of /tmp, which is in memory and goes with the program. 256 MiB.
        temporary_files: In /tmp and /dev/shm, which are in memory. 100,000: an archive is unpacked
            there, and the kernel's memory is not filled with names.
        output_bytes: Of each of stdout and stderr, how much is kept: beginning and end. 1 MiB.
        network: Whether programs that models write may ask to reach hosts, through a guarded proxy
            (`run_code` and `shell` with `network`). Off: a program can send away what it reads.
        network_bytes: What one program may move over it, both ways together. 1 GiB: the packages
            of a large installation fit.
        run_as: The ordinary user that runs sandboxes when callboard runs as root.
        macos_untested: Whether programs run on macOS under `sandbox-exec`, which nobody has tried; it
            is `partial` at most, and `minimum` must say so too. On other systems it means nothing.
        self_test_hours: After how many hours the sandbox is tested again. 6: an update of the
            system is noticed on the same day.

    Example:
        sandbox = callboard.SandboxSettings(read_only=("/usr/share",), network=True, processes=64)
        async with callboard.open_runtime(settings=callboard.Settings(sandbox=sandbox)) as runtime:
            session = await runtime.create_session()  # run_code and shell work with these bounds
    """

    minimum: Strength = Strength.FULL
    read_only: tuple[str, ...] = ()
    cpu_seconds: Annotated[int, msgspec.Meta(ge=1, le=7 * 24 * 3600)] = 600
    memory_bytes: Amount = 2048 * MIB
    processes: Annotated[int, msgspec.Meta(ge=8, le=100_000)] = 256
    file_bytes: Amount = 1024 * MIB
    temporary_bytes: Amount = 256 * MIB
    temporary_files: Annotated[int, msgspec.Meta(ge=100, le=100_000_000)] = 100_000
    output_bytes: Annotated[int, msgspec.Meta(ge=1024, le=256 * MIB)] = MIB
    network: bool = False
    network_bytes: Amount = 1024 * MIB
    run_as: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    macos_untested: bool = False
    self_test_hours: Annotated[int, msgspec.Meta(ge=1, le=24 * 365)] = 6

    def __post_init__(self) -> None:
        if self.minimum is Strength.NONE:
            raise ValueError(
                "minimum is full or partial: nothing that a model asks for runs without a sandbox"
            )
        for path in self.read_only:
            if not path.startswith("/") or path.rstrip("/") == "" or "\0" in path:
                raise ValueError(f"read_only: {path!r} is not an absolute path below /")
