"""Names of engines and number formats, from what tools call them to what this library does."""

from __future__ import annotations

from roofline.dtypes import format_named

__all__ = ["engine_named", "format_of"]

_ENGINES = (  # a part of the spelling, and the engine; the first that fits
    ("sglang", "sglang"),
    ("vllm", "vllm"),
    ("tensorrt-llm", "trtllm"),
    ("tensorrtllm", "trtllm"),
    ("trtllm", "trtllm"),
    ("trt-llm", "trtllm"),
    ("llama.cpp", "llama.cpp"),
    ("llama-cpp", "llama.cpp"),
    ("llamacpp", "llama.cpp"),
    ("llama-bench", "llama.cpp"),
    ("llama-server", "llama.cpp"),
    ("ggml", "llama.cpp"),
    ("mlx", "mlx"),
    ("gpt-fast", "gpt-fast"),
)
_FORMATS = {
    "fp4": "nvfp4", "modelopt": "fp8", "modelopt-fp8": "fp8", "modelopt-fp4": "nvfp4", "awq-marlin": "awq",
    "gptq-marlin": "gptq", "w8a8-int8": "w8a8", "w8a8-fp8": "fp8", "float8-e4m3fn": "fp8", "float8-e5m2": "fp8",
    "float8-e4m3fnuz": "fp8", "fp8-e4m3fn": "fp8",
}  # fmt: skip
_UNSAID = ("", "auto", "none", "null", "default", "unknown")


def engine_named(text: str | None) -> str | None:
    """The engine a backend or framework is, or none where the name does not tell ("openai" is a protocol).

    >>> engine_named("dynamo-trt"), engine_named("vllm-chat"), engine_named("openai")
    ('trtllm', 'vllm', None)
    """
    plain = (text or "").strip().lower().replace("_", "-").replace(" ", "-")
    found = next((engine for part, engine in _ENGINES if part in plain), None)
    return "trtllm" if found is None and "trt" in plain.split("-") else found


def format_of(text: str | None) -> str | None:
    """The number format a tool means, by our name; none where it says none. An unknown one is an `UnknownName`.

    >>> format_of("torch.bfloat16"), format_of("fp8_e4m3"), format_of("modelopt_fp4"), format_of("auto")
    ('bf16', 'fp8', 'nvfp4', None)
    """
    plain = (text or "").strip().lower().removeprefix("torch.").replace("_", "-")
    if plain in _UNSAID:
        return None
    return format_named(_FORMATS.get(plain, plain)).name
