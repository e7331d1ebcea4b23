"""Go's text/template, the language in which users write messages, with Go's results and error messages."""

from haulout.base.gotemplate.execute import render
from haulout.base.gotemplate.tree import TemplateError
from haulout.base.gotemplate.values import Func, Map, Nil, Object, Slice, Word

__all__ = ["Func", "Map", "Nil", "Object", "Slice", "TemplateError", "Word", "render"]
