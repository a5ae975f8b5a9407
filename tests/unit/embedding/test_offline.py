"""The packaged model needs no network: a process that may open no socket embeds with it."""

import subprocess
import sys

CODE = """
import sys

def guard(event, arguments):
    if event.startswith("socket."):
        raise PermissionError(event)

sys.addaudithook(guard)
from cortex.embedding.onnx_model import OnnxModel
from cortex.embedding.weights import packaged_model

model = OnnxModel(packaged_model(), max_tokens=128, batch_size=16, threads=1)
near, far, asked = model.embed(
    ["def store_cookie(jar): keep the cookie", "parse the date of a log line", "cookies"], "query"
)
assert near.shape == (384,)
assert float(near @ asked) > float(far @ asked) + 0.1
assert "huggingface_hub" not in sys.modules
"""


def test_the_packaged_model_embeds_without_the_network() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
