"""CommonMark for every platform: one parser, cutting on the tree, and mending what a model has not finished."""

from adapters.markdown.heal import heal
from adapters.markdown.split import Fits, split
from adapters.markdown.table import table_text
from adapters.markdown.text import cut_text, units_utf16
from adapters.markdown.tree import escape, fence, parse, text_of

__all__ = ["Fits", "cut_text", "escape", "fence", "heal", "parse", "split", "table_text", "text_of", "units_utf16"]
