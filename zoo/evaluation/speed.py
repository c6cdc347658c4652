"""How fast a trained model reads a prompt and decodes after it, on this machine as busy as it is."""

import pandas as pd

from zoo.checks import at_least
from zoo.evaluation.base import Evaluation
from zoo.evaluation.decode_speed import BATCH, decode_tokens_per_second, prefill_tokens_per_second
from zoo.evaluation.trained import Trained


class Speed(Evaluation):
    """One row for `prefill`, and one for `decode` where the model has exact decoding: tokens_per_second of
    `batch` sequences of seq_len tokens, by the median (`zoo.evaluation.decode_speed`), on `device`.

    seq_len: tokens; None: the longest test sequence of the task.
    """

    def __init__(self, *, seq_len: int | None) -> None:
        if seq_len is not None:
            at_least("evaluation.seq_len", seq_len, 1)
        self.seq_len = seq_len

    def table(self, trained: Trained) -> pd.DataFrame:
        length = self.seq_len or max(segment.seq_len for segment in trained.task.segments("test"))
        trained.model.check_length(length)
        with trained.at_work():
            speeds = {
                "prefill": prefill_tokens_per_second(trained.model, length, trained.device),
                "decode": decode_tokens_per_second(trained.model, length, trained.device),
            }
        shape = {"seq_len": length, "batch": BATCH, "device": str(trained.device)}
        rows = [{"what": what, "tokens_per_second": speed} | shape for what, speed in speeds.items() if speed]
        return pd.DataFrame(rows)
