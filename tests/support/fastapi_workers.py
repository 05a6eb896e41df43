"""The example over FastAPI as its test starts it: with a model that can be kept waiting."""

import os
import sys
from pathlib import Path

from web_client import SlowModel

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import fastapi_app


class WaitingModel(SlowModel):
    """Counts to three when asked to count for ever, and then says nothing more."""

    cue: str = "Count for ever."
    words: tuple[str, ...] = ("One, ", "two, ", "three")


fastapi_app.model = WaitingModel()
app = fastapi_app.app
app.get("/worker")(os.getpid)
