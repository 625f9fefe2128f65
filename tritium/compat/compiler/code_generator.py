"""The frontend's entry, where Triton's users look for it."""

from tritium.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "ast_to_ttir"]


def ast_to_ttir(fn, src, context=None, options=None, codegen_fns=None, module_map=None, module=None):
    """The module of an `ASTSource` before any pass; the arguments after `options` have no meaning here.

    >>> ast_to_ttir.__name__
    'ast_to_ttir'
    """
    from tritium.backends.driver import driver
    from tritium.compiler import make_backend

    target = driver.active.get_current_target()
    return src.make_ir(target, options or make_backend(target).parse_options({}))
