"""The plain half of the portal is generated from the asyncio half, and is up to date."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "plain-portal"


def test_the_plain_half_is_as_generated() -> None:
    assert runpy.run_path(str(SCRIPT))["main"](["--check"]) == 0


def test_a_stale_half_and_a_changed_source_are_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = runpy.run_path(str(SCRIPT))
    main = script["main"]
    stale = tmp_path / "plain_handles.py"
    stale.write_text(script["TARGET"].read_text().replace("def close", "def end"))
    main.__globals__["TARGET"] = stale
    assert main(["--check"]) == 1
    assert "run scripts/plain-portal" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0
    with pytest.raises(SystemExit, match="aclose"):
        script["plain"](script["SOURCE"].read_text().replace("aclose", "finish"))
