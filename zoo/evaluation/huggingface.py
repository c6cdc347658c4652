"""Load a causal language model from a folder of Hugging Face files, to evaluate it like a trained cell.

transformers must be installed (extra `hf`); it reads only safetensors from the folder: nothing is downloaded,
no code from the folder is executed, no pickle is opened.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import one_line
from zoo.evaluation.forgetting.curve import Predict, most_likely

MISSING = "transformers is not installed: pip install 'zoo-recall[hf]'."


@dataclass(frozen=True)
class HuggingFace:
    """A loaded model.  bos, eos: tokens that open and end a text.  longest: its positions; None: unknown."""

    model: Any
    tokenizer: Any
    bos: int
    eos: int
    longest: int | None

    def ids(self, text: str) -> Int[Tensor, " N"]:
        """Return the text's token ids, without marks before or after."""
        return torch.tensor(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def load(folder: str | Path) -> HuggingFace:
    """Load the model in a folder.  ValueError, one line with the fix: no transformers, no such folder, files
    that are missing or broken, no token that opens or ends a text."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise ValueError(MISSING) from None
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise ValueError(f"hf names {path}, which has no config.json: download the whole model into it.")
    if not list(path.glob("*.safetensors")):
        raise ValueError(f"hf names {path}, which has no *.safetensors: save the model with save_pretrained.")
    # torch records its constructors at the first `with torch.device`; transformers replaces torch.linspace
    # while it loads, and if torch recorded them then, the true linspace would ignore the meta device
    with torch.device("cpu"):
        torch.empty(0)
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = AutoModelForCausalLM.from_pretrained(path, use_safetensors=True, **here).eval()
        tokenizer = AutoTokenizer.from_pretrained(path, **here)
    except Exception as error:  # a broken download can raise anything
        raise ValueError(f"hf names {path}, which cannot be loaded ({one_line(error)[:300]}).") from error
    eos = tokenizer.eos_token_id
    bos = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else eos
    if bos is None:
        raise ValueError(f"hf names {path}, whose tokenizer has no token that opens or ends a text.")
    longest = getattr(model.config, "max_position_embeddings", None)
    return HuggingFace(model, tokenizer, bos, eos if eos is not None else bos, longest)


def predictor(held: HuggingFace) -> Predict:
    """Return a function that predicts the model's most likely next tokens."""
    backbone, head = held.model.base_model, held.model.get_output_embeddings()

    @torch.no_grad()
    def predict(inputs: Int[Tensor, "B T"], positions: Int[Tensor, " A"]) -> Int[Tensor, "B A"]:
        """Return the most likely next token after each position."""
        device = head.weight.device
        hidden = backbone(inputs.to(device), use_cache=False).last_hidden_state[:, positions.to(device)]
        return most_likely(head, hidden)

    return predict
