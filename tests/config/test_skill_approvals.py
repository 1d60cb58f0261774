"""Approvals of workspace skills: kept for one content of one folder, and nothing else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from callboard.config.skill_approvals import FILE_NAME, SkillApprovals
from callboard.runtime.errors import StorageError


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_an_approval_is_kept_for_its_workspace_alone(tmp_path: Path, work: Path) -> None:
    approvals = SkillApprovals(tmp_path / "data")
    assert not approvals.has_any
    approvals.allow(work, "skills/a", "d1")
    approvals.allow(work, "skills/b", "d2")
    approvals.allow(work, "skills/a", "d3")
    again = SkillApprovals(tmp_path / "data")
    assert again.has_any
    assert again.of(work) == {"skills/a": "d3", "skills/b": "d2"}
    assert again.of(tmp_path) == {}
    assert stat.S_IMODE((tmp_path / "data" / FILE_NAME).stat().st_mode) == 0o600


def test_another_way_to_the_folder_is_the_same_workspace(tmp_path: Path, work: Path) -> None:
    (tmp_path / "link").symlink_to(work)
    approvals = SkillApprovals(tmp_path / "data")
    approvals.allow(tmp_path / "link", "skills/a", "d1")
    assert approvals.of(work) == {"skills/a": "d1"}


def test_an_approval_is_taken_back_once(tmp_path: Path, work: Path) -> None:
    approvals = SkillApprovals(tmp_path / "data")
    approvals.allow(work, "skills/a", "d1")
    assert approvals.revoke(work, "skills/a")
    assert not approvals.revoke(work, "skills/a")
    assert approvals.of(work) == {}


@pytest.mark.parametrize("content", [b"{", b'{"workspaces": 1}', b'{"other": {}}', b"\xff"])
def test_a_file_that_is_none_of_ours_approves_nothing(
    tmp_path: Path, work: Path, content: bytes
) -> None:
    approvals = SkillApprovals(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(content)
    (tmp_path / FILE_NAME).chmod(0o600)
    with pytest.raises(StorageError, match=r"skills\.json is not what callboard writes"):
        approvals.of(work)


def test_a_file_that_others_can_write_approves_nothing(tmp_path: Path, work: Path) -> None:
    approvals = SkillApprovals(tmp_path)
    approvals.allow(work, "skills/a", "d1")
    (tmp_path / FILE_NAME).chmod(0o666)
    with pytest.raises(StorageError, match="open to others"):
        approvals.of(work)
