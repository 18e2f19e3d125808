"""Which weights are known, and what a server that cannot start says."""

import pytest

from harness.errors import UsageError
from harness.testing.local_model import LocalModel, Weights, find_weights


def test_a_folder_without_weights_has_none(tmp_path):
    assert find_weights(tmp_path) is None


def test_weights_with_another_digest_are_refused(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF, but not one that we know")
    with pytest.raises(UsageError, match="unknown digest"):
        find_weights(tmp_path)


def test_a_file_that_is_no_model_is_one_clear_error(tmp_path):
    pytest.importorskip("xllamacpp")
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model")
    weights = Weights(path=path, alias="broken", sha256="")
    with pytest.raises(UsageError, match=r"did not start on 'broken\.gguf'"), LocalModel(weights):
        pass
