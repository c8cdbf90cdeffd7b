"""Models out of GGUF files: the header read with care, its tensors turned into the records a config would give."""

from roofline.specs.gguf.reader import read_gguf

__all__ = ["read_gguf"]
