"""Find out which packages and devices this machine has to run kernels."""

import functools
import importlib
import importlib.util
import os
import warnings

from zoo.common.checks import one_line

# implementation -> the module that it needs
MODULES = {"triton": "triton", "flash_attn": "flash_attn", "mamba_ssm": "mamba_ssm", "fla": "fla"}
COMPILED = {"mamba_ssm": "selective_scan_cuda"}  # mamba_ssm imports even where this module is missing


@functools.cache
def absent(name: str) -> str | None:
    """Return why implementation `name` ("triton" or a package) cannot be imported; None: it can."""
    module = MODULES[name]
    try:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
        with warnings.catch_warnings():  # a package may complain of a machine without its device
            warnings.simplefilter("ignore")
            importlib.import_module(module)
            if module in COMPILED:
                importlib.import_module(COMPILED[module])
    except (ImportError, OSError) as error:  # compiled for another torch, or a library that is not there
        return f"{module} cannot be imported: {one_line(error)}"
    return None


def no_device() -> str | None:
    """Return why this machine has no device for compiled kernels; None: it has one."""
    from torch import cuda

    return None if cuda.is_available() or interpreted() else "no CUDA device"


def interpreted() -> bool:
    """Return whether Triton interprets kernels on the CPU (TRITON_INTERPRET=1, set before its import)."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"
