"""Source text, captured values and the dependency hash of kernels (LANGUAGE 7, 11.1)."""

import importlib.util
import itertools
import textwrap

import pytest

from tritium.language.source.function import Source, constexpr_function, device, must_use_result

numbers = itertools.count()


def load(path, text, name="f"):
    """Import `text` as a module of its own and give one of its functions."""
    file = path / f"kernels_{next(numbers)}.py"
    file.write_text("from tritium.language.source.function import *\nimport math\n" + textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name) if name else module


def test_text_starts_at_def_and_is_dedented():
    @must_use_result
    @device
    def inner(x):
        return x

    assert inner.src == "def inner(x):\n    return x\n"
    assert inner.raw_src[0].strip() == "@must_use_result"
    assert inner.def_line == inner.starting_line_number + 2
    assert inner.parse() is inner.parse()


def test_span_names_file_position_and_compatible_position():
    @device
    def inner(x):
        return x + 1

    span = inner.span(inner.parse().body[0].body[0].value)
    assert span.position == (2, 11)
    assert span.line == inner.def_line + 1 and str(span).endswith(f":{span.line}:16 (at 2:11: in inner)")


def test_a_function_without_a_file_is_refused():
    scope = {}
    exec(compile("def f(x):\n    pass", "<nowhere>", "exec"), scope)
    with pytest.raises(ValueError, match="should be defined in a Python file"):
        Source(scope["f"]).src


def test_something_else_than_a_function_is_refused():
    with pytest.raises(TypeError, match="a kernel is a function written with `def`"):
        Source(len)


PAIRS = {
    "text": ("@device\ndef f(x): return x", "@device\ndef f(x): return -x"),
    "line": ("@device\ndef f(x): return x", "\n@device\ndef f(x): return x"),
    "callee": ("@device\ndef g(x): return x\n@device\ndef f(x): return g(x)",
               "@device\ndef g(x): return 2\n@device\ndef f(x): return g(x)"),
    "callee of callee": ("@device\ndef h(x): return 1\n@device\ndef g(x): return h(x)\n@device\ndef f(x): return g(x)",
                         "@device\ndef h(x): return 2\n@device\ndef g(x): return h(x)\n@device\ndef f(x): return g(x)"),
    "constant": ("N = 1\n@device\ndef f(x): return x + N", "N = 2\n@device\ndef f(x): return x + N"),
    "type of a constant": ("N = 1\n@device\ndef f(x): return x + N", "N = True\n@device\ndef f(x): return x + N"),
    "sign of zero": ("N = 0.0\n@device\ndef f(x): return x + N", "N = -0.0\n@device\ndef f(x): return x + N"),
    "default of a callee": ("D = 1\n@device\ndef g(x, n=D): return n\n@device\ndef f(x): return g(x)",
                            "D = 2\n@device\ndef g(x, n=D): return n\n@device\ndef f(x): return g(x)"),
    "constexpr function": ("@constexpr_function\ndef g(x): return x\n@device\ndef f(x): return g(x)",
                           "@constexpr_function\ndef g(x): return 2\n@device\ndef f(x): return g(x)"),
    "dtype": ("from tritium.language.types.dtypes import *\nT = float32\n@device\ndef f(x): return x.to(T)",
              "from tritium.language.types.dtypes import *\nT = float16\n@device\ndef f(x): return x.to(T)"),
    "alias of a builtin": (
        "from tritium.language.source.function import cdiv as g\n@device\ndef f(x): return g(x, 2)",
        "from tritium.language.source.function import device as g\n@device\ndef f(x): return g(x, 2)"),
    "recursion": ("@device\ndef g(x): return f(x) + 1\n@device\ndef f(x): return g(x)",
                  "@device\ndef g(x): return f(x) + 2\n@device\ndef f(x): return g(x)"),
    "named tuple": ("import collections\nP = collections.namedtuple('P', 'a b')\n@device\ndef f(x): return P(x, x)",
                    "import collections\nP = collections.namedtuple('P', 'a c')\n@device\ndef f(x): return P(x, x)"),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_hash_changes_with(tmp_path, pair):
    first, second = (load(tmp_path, text) for text in pair)
    assert load(tmp_path, pair[0]).cache_key == first.cache_key != second.cache_key


def test_hash_of_mutual_recursion_does_not_depend_on_who_is_asked_first(tmp_path):
    text = "@device\ndef g(x): return f(x)\n@device\ndef f(x): return g(x)"
    one, two = load(tmp_path, text, None), load(tmp_path, text, None)
    assert (one.f.cache_key, one.g.cache_key) == (two.g.cache_key, two.f.cache_key)[::-1]


def test_local_names_are_not_captured(tmp_path):
    f = load(tmp_path, "N = 1\n@device\ndef f(x):\n    N = x\n    return N")
    assert f.cache_key and not f.used_global_vals


def test_defaults_are_not_captured(tmp_path):
    f = load(tmp_path, "N = 1\n@device\ndef f(x, n=N):\n    return n")
    assert f.cache_key and not f.used_global_vals


def test_closure_variables_are_captured():
    def make(block):
        @device
        def f(x):
            return x + block

        return f

    f = make(8)
    assert f.cache_key != make(9).cache_key and f.cache_key == make(8).cache_key
    assert f.get_capture_scope()["block"] == 8
    assert [value for value, _ in f.used_global_vals.values()] == [8]


def test_changed_global_is_refused(tmp_path):
    module = load(tmp_path, "N = [1]\n@device\ndef f(x): return x + N", None)
    assert module.f.cache_key
    module.f.check_globals()
    module.N.append(2)
    with pytest.raises(RuntimeError, match=r"Global variable N has changed since we compiled this kernel"):
        module.f.check_globals()


def test_changed_attribute_of_a_module_is_refused(tmp_path):
    config = load(tmp_path, "BLOCK = 8", None)
    f = load(tmp_path, "config = None\n@device\ndef f(x): return x + config.BLOCK")
    f.__globals__["config"] = config
    key = f.cache_key
    config.BLOCK = 16
    with pytest.raises(RuntimeError, match="BLOCK has changed"):
        f.check_globals()
    f.hash = None
    assert f.cache_key != key
    f.check_globals()


def test_conflicting_global_of_an_inner_function(tmp_path):
    module = load(tmp_path, """
        N = 1
        @device
        def g(x): return x + N
        @device
        def f(x): return g(x) + N
        """, None)
    assert module.g.cache_key
    module.N = 2
    with pytest.raises(RuntimeError, match="Global variable N has value 2"):
        module.f.cache_key


def test_plain_python_function_is_refused_where_it_is_named(tmp_path):
    f = load(tmp_path, "def helper(x): return x\n@device\ndef f(x):\n    return helper(x)")
    with pytest.raises(RuntimeError, match=r"Unsupported function referenced[\s\S]*at 2:11:[\s\S]*constexpr_function"):
        f.cache_key


def test_plain_function_of_another_module_is_refused(tmp_path):
    f = load(tmp_path, "import textwrap\n@device\ndef f(x): return textwrap.dedent(x)")
    with pytest.raises(RuntimeError, match="Unsupported function referenced"):
        f.cache_key


def test_math_and_python_builtins_are_allowed(tmp_path):
    f = load(tmp_path, "@device\ndef f(x):\n    print(len(x))\n    return math.exp(math.pi)")
    assert f.cache_key
    assert not f.used_global_vals  # math.pi stays what it is


def test_multiple_assignment_is_refused(tmp_path):
    f = load(tmp_path, "@device\ndef f(x):\n    a = b = x")
    with pytest.raises(TypeError, match="Simultaneous multiple assignment is not supported"):
        f.cache_key


def test_update_src_changes_the_hash_and_the_tree():
    @device
    def f(x):
        return x

    before = f.cache_key
    f._unsafe_update_src(f.src.replace("return x", "return -x"))
    assert f.cache_key != before and "USub" in __import__("ast").dump(f.parse())
    with pytest.raises(AttributeError):
        f.src = "text"


def test_constexpr_function_runs_on_the_host():
    @constexpr_function
    def double(x, *, plus=0):
        return 2 * x + plus

    assert double(4, plus=1) == 9


@pytest.mark.parametrize(("n", "power"), [(0, 0), (1, 1), (2, 2), (3, 4), (2**40 - 1, 2**40), (2**40 + 1, 2**41)])
def test_next_power_of_2(n, power):
    from tritium.language.source.function import next_power_of_2

    assert next_power_of_2(n) == power


def test_calling_a_source_outside_a_kernel():
    @device
    def f(x):
        return x

    with pytest.raises(RuntimeError, match=r"Cannot call @triton\.jit'd outside of the scope of a kernel"):
        Source(f.fn)(1)
