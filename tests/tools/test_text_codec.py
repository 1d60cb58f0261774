from __future__ import annotations

import pytest

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.tools.files.text_codec import codec_name


@pytest.mark.parametrize("encoding", ["punycode", "IDNA"])
def test_a_codec_for_host_names_is_refused_since_it_would_stop_the_runtime(encoding: str) -> None:
    with pytest.raises(ToolFailure) as failed:
        codec_name(encoding)
    assert failed.value.error_type is ErrorType.VALIDATION_ERROR
