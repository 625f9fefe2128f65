"""The road from kernel to binary: stages, files, dumps, overrides, defects (LANGUAGE 11 to 13)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tritium
from tritium import cache, knobs
from tritium.backends import backends
from tritium.backends.compiler import BaseBackend, GPUTarget, Language, Options
from tritium.compiler import ASTSource, CompileTimes, IRSource, LazyDict, compile, get_cache_key, make_backend
from tritium.errors import CompilationError, InternalError
from tritium.language.types.constants import constexpr
from tritium.runtime.jit import jit

TARGET = GPUTarget("fake", "paper", 1)


@jit
def scale(x, n, BLOCK: constexpr):
    pass


@jit
def unwritable(x):
    pass


def source(fn=scale, block=8):
    if fn is unwritable:
        return ASTSource(fn, {"x": "*fp32"})
    signature = {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    return ASTSource(fn, signature, {"BLOCK": block}, {(0,): [["tt.divisibility", 16]]})


# -- stages ------------------------------------------------------------------------------------------------------------


def test_every_stage_can_be_read(fake):
    kernel = compile(source(), TARGET)
    assert list(kernel.asm) == ["source", "ttir", "note", "paper"]
    assert kernel.asm["source"].startswith("kernel @scale(%x: ptr<f32>, %n: i32)")
    assert kernel.asm["note"] == "note scale 2"
    assert json.loads(kernel.asm["paper"]) == {"text": "note scale 2", "num_warps": 4}
    assert kernel.kernel == kernel.asm["paper"]
    assert "upper" in kernel.asm and kernel.asm["upper"] == "NOTE SCALE 2"
    with pytest.raises(KeyError):
        kernel.asm["sass"]


def test_module_carries_target_and_options(fake):
    text = compile(source(), TARGET, {"num_warps": 8}).asm["ttir"]
    assert 'target="fake:paper:1"' in text and "num_warps=8" in text
    assert 'target="fake:card:1"' in compile(source(), TARGET, {"arch": "card"}).asm["ttir"]
    hopper = GPUTarget("cuda", 90, 32)
    assert [hopper.with_arch(arch).arch for arch in ("sm80", "sm_100a", "89", None)] == [80, 100, 89, 90]


def test_metadata(fake):
    kernel = compile(source(), TARGET, {"num_warps": 8})
    metadata = kernel.metadata
    assert (metadata.name, metadata.num_warps, metadata.num_stages, metadata.num_ctas) == ("scale", 8, 2, 1)
    assert (metadata.shared, metadata.target, metadata.triton_version) == (16, TARGET, "3.6.0")
    assert metadata.hash == kernel.hash and metadata.warp_size == 1 and isinstance(metadata.supported_fp8_dtypes, tuple)


@pytest.mark.parametrize("ext", ["source", "ttir", "note", "paper"])
def test_a_file_of_any_stage_can_be_compiled(fake, tmp_path, ext):
    kernel = compile(source(), TARGET, {"num_warps": 8})
    path = tmp_path / f"scale.{ext}"
    path.write_bytes(kernel.asm[ext] if ext == "paper" else kernel.asm[ext].encode())
    again = compile(str(path), TARGET)
    assert json.loads(again.kernel)["text"] == "note scale 2" and isinstance(again.kernel, bytes)
    assert again.metadata.num_warps == (4 if ext in ("note", "paper") else 8)
    assert again.name == "scale" and next(iter(again.asm)) == ext


def test_a_file_can_be_launched(fake, tmp_path):
    (tmp_path / "scale.ttir").write_text(compile(source(), TARGET).asm["ttir"])
    compile(tmp_path / "scale.ttir", TARGET)[(2, 1, 1)](None, 5)
    assert fake.launches == [("scale", (2, 1, 1), [0, 5])]


def test_a_file_of_another_machine(fake, tmp_path):
    (tmp_path / "k.ptx").write_text(".visible .entry k(")
    assert IRSource(tmp_path / "k.ptx").name == "k"
    with pytest.raises(ValueError, match="not a stage of fake:paper:1: it has source, ttir, note, paper"):
        compile(tmp_path / "k.ptx", TARGET)


def test_target_must_be_a_target(fake):
    with pytest.raises(AssertionError, match="target must be of GPUTarget type"):
        compile(source(), 90)
    with pytest.raises(ValueError, match="'cuda' is not a target"):
        compile(source(), "cuda")
    assert compile(source(), "fake:paper:1").metadata.target == TARGET  # by its name
    assert compile(source()).metadata.target == TARGET  # the active driver's


def test_unknown_option(fake):
    with pytest.raises(KeyError, match=r"was specified but unrecognised\nhint: did you mean num_warps\?"):
        compile(source(), TARGET, {"num_wraps": 4})


# -- sources -----------------------------------------------------------------------------------------------------------


def test_source_hash_depends_on_all_parts():
    base = ("x", "n", "BLOCK")
    hashes = {
        source().hash(), source(block=16).hash(), source(block=True).hash(),
        ASTSource(scale, {"x": "*fp16", "n": "i32"}, {"BLOCK": 8}, {(0,): [["tt.divisibility", 16]]}).hash(),
        ASTSource(scale, {"x": "*fp32", "n": "i32"}, {"BLOCK": 8}).hash(),
        ASTSource(scale, {"x": "*fp32"}, {"BLOCK": 8, "n": 1}).hash(),
    }  # fmt: skip
    assert len(hashes) == 6 and source().hash() == source().hash() and scale.arg_names == list(base)


def test_constants_by_name_index_and_path():
    for key in ("BLOCK", 2, (2,)):
        made = ASTSource(scale, {"x": "*fp32", "n": "i32"}, {key: 8})
        assert made.constants == {(2,): 8} and made.constant_names == {"BLOCK": 8}
        assert made.signature == {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    nested = ASTSource(scale, {"x": ("i32", "constexpr"), "n": "i32"}, {(0, 1): None, "BLOCK": 8})
    assert nested.constant_names == {(0, 1): None, "BLOCK": 8}


def test_wrong_sources():
    with pytest.raises(TypeError, match="Signature keys must be string"):
        ASTSource(scale, {0: "*fp32"})
    with pytest.raises(ValueError, match="the signature of scale lacks n, BLOCK"):
        ASTSource(scale, {"x": "*fp32"})
    with pytest.raises(ValueError, match="there is no parameter 'B'"):
        ASTSource(scale, {"x": "*fp32", "n": "i32"}, {"B": 8})


# -- options and targets -----------------------------------------------------------------------------------------------


def test_options(fake, monkeypatch):
    backend = make_backend(TARGET)
    given = {"num_warps": 8, "num_stages": None, "waves_per_eu": 3, "extern_libs": {"b": 1, "a": 2}}
    options = backend.parse_options(given)
    assert (options.num_warps, options.num_stages, options.backend_name) == (8, 2, "fake")
    assert options.extern_libs == (("a", 2), ("b", 1)) and options.arch == "paper" and options.enable_fp_fusion
    assert options.hash() != Options().hash()
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    options = backend.parse_options({})
    assert options.enable_fp_fusion is False and options.default_dot_input_precision == "ieee"
    with pytest.raises(ValueError, match="num_ctas must be an integer of at least 1"):
        backend.parse_options({"num_ctas": 0})


def test_backend_lists_its_stages(fake):
    backend = make_backend(TARGET)
    stages = {}
    backend.add_stages(stages, backend.parse_options({}))
    assert list(stages) == ["note", "paper"] and backend.binary_ext == "paper" and "pen 1.0" in backend.hash()
    assert BaseBackend.supports_target(TARGET) and not BaseBackend.supports_target(GPUTarget("abacus", 1, 1))
    with pytest.raises(ValueError, match="not Gluon"):
        backend.add_stages({}, backend.parse_options({}), Language.GLUON)
    with pytest.raises(RuntimeError, match="there is no backend 'abacus'"):
        make_backend(GPUTarget("abacus", 1, 1))


def test_registry_of_backends(fake):
    assert "fake" in backends and backends["fake"].compiler is BaseBackend and backends["fake"].driver is type(fake)
    with pytest.raises(KeyError):
        backends["abacus"]
    assert backends["nvidia"].driver is backends["cuda"].driver, "Triton's name for it"
    assert "nvidia" in list(backends) and "cuda" not in list(backends)


def test_targets():
    for text in ("cuda:90:32", "hip:gfx942:64", "cpu:host:1"):
        assert str(GPUTarget.parse(text)) == text
    assert GPUTarget.parse("cuda:90:32") == GPUTarget.parse("cuda:90") == GPUTarget("cuda", 90, 32)
    for text, size in (("cuda:90a", 32), ("hip:gfx90a", 64), ("hip:gfx1100", 32), ("cpu:x86-64-v3", 1)):
        assert GPUTarget.parse(text).warp_size == size
    with pytest.raises(ValueError, match="'cuda' is not a target"):
        GPUTarget.parse("cuda")


@pytest.mark.parametrize(("name", "target"), [
    ("cpu", "cpu:host:1"), ("host", "cpu:host:1"), ("x86-64-v3", "cpu:x86-64-v3:1"), ("aarch64", "cpu:aarch64:1"),
    ("x86-64-v2,+avx2", "cpu:x86-64-v2,+avx2:1"), ("sm_90", "cuda:90:32"), ("sm90a", "cuda:90a:32"),
    ("cuda:sm_90a", "cuda:90a:32"), ("nvidia:120", "cuda:120:32"), ("gfx942", "hip:gfx942:64"),
    ("gfx1100", "hip:gfx1100:32"), ("amd:gfx90a", "hip:gfx90a:64"), ("gfx90a:sramecc+:xnack-", "hip:gfx90a:64"),
    ("hip:gfx1100:64", "hip:gfx1100:64"), ("abacus:9:4", "abacus:9:4"),
])
def test_names_of_targets(name, target):
    assert str(GPUTarget.parse(name)) == str(GPUTarget.of(name)) == target
    assert GPUTarget.parse(target) == GPUTarget.parse(name)


@pytest.mark.parametrize(("name", "why"), [
    ("gfx924", "did you mean 'gfx942'"), ("hip:gfx924", "did you mean 'hip:gfx942'"), ("sm_9O", "did you mean 'sm_90'"),
    ("cuda:91", "did you mean 'cuda:90'.* names sm_70, sm_72, .*sm_121$"), ("x86-64-v9", "did you mean 'x86-64"),
    ("cpu:arm64", "unknown CPU target 'arm64'; use one of: host, x86-64.*did you mean 'cpu:aarch64'"),
    ("gpu", "the names cpu, x86-64, .*sm_90, .*gfx942"), ("", "is not a target"), ("cuda:90:32:1", "is not a targ"),
])
def test_unknown_names_list_the_known(name, why):
    with pytest.raises(ValueError, match=f"(?s){why}"):
        GPUTarget.parse(name)


def test_lazy_dict():
    lazy = LazyDict({"a": 1})
    lazy.add(lambda x: {"b": x}, (2,))
    assert lazy.data == {"a": 1} and lazy.get() == {"a": 1, "b": 2}


# -- the cache ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("long", [False, True])
def test_files_on_disk(fake, tmp_path, monkeypatch, long):
    """The same, whether they are written after the last stage or beside it."""
    package = sys.modules["fake_backend"]
    monkeypatch.setattr(package, "BACKEND", package.BACKEND._replace(long=long))
    kernel = compile(source(), TARGET)
    directory = tmp_path / "cache" / cache.base32(kernel.hash)
    names = {"scale.ttir", "scale.note", "scale.paper", "scale.json"}
    assert set(os.listdir(directory)) == names | {"__grp__scale.json", "scale.json.sum"}
    assert set(kernel.metadata_group) == names
    group = json.loads((directory / "__grp__scale.json").read_text())["child_paths"]
    assert group["scale.paper"] == str(directory / "scale.paper")


def test_second_compilation_comes_from_disk(fake):
    cache.reset_stats()
    first = compile(source(), TARGET, {"num_warps": 2})
    second = compile(source(), TARGET, {"num_warps": 2})
    assert len(fake.lowered) == 1 and cache.stats() == cache.CacheStats(hits=1, misses=1, stores=1)
    assert second.metadata == first.metadata and second.hash == first.hash
    assert [(ext, second.asm[ext]) for ext in second.asm] == [(ext, first.asm[ext]) for ext in first.asm]
    assert second.asm["upper"] == "NOTE SCALE 2" and isinstance(second.kernel, bytes)


@pytest.mark.parametrize("change", [
    lambda patch: patch.setenv("TRITON_F32_DEFAULT", "ieee"),
    lambda patch: patch.setenv("DISABLE_LLVM_OPT", "1"),
    lambda patch: patch.setattr(cache, "fingerprint", lambda: "another compiler"),
    lambda patch: patch.setattr(BaseBackend, "hash", lambda self: "another pen"),
])
def test_what_changes_the_key(fake, monkeypatch, change):
    first = compile(source(), TARGET)
    change(monkeypatch)
    assert compile(source(), TARGET).hash != first.hash and len(fake.lowered) == 2


def test_cache_key_is_the_same_for_explicit_defaults(fake):
    backend = make_backend(TARGET)
    keys = {get_cache_key(source(), backend, backend.parse_options(given), {}) for given in ({}, {"num_warps": 4})}
    assert len(keys) == 1


def test_always_compile(fake):
    compile(source(), TARGET)
    knobs.compilation.always_compile = True
    compile(source(), TARGET)
    assert len(fake.lowered) == 2


def test_store_binary_only(fake):
    knobs.compilation.store_binary_only = True
    first = compile(source(), TARGET)
    assert set(first.metadata_group) == {"scale.paper", "scale.json"} and "ttir" in first.asm
    second = compile(source(), TARGET)
    assert list(second.asm) == ["paper"] and len(fake.lowered) == 1


def test_broken_entries_are_compiled_again(fake, tmp_path):
    kernel = compile(source(), TARGET)
    group = Path(kernel.metadata_group["scale.json"]).parent / "__grp__scale.json"
    group.write_text('{"child_paths": {"sca')
    compile(source(), TARGET)
    os.unlink(kernel.metadata_group["scale.paper"])
    compile(source(), TARGET)
    assert len(fake.lowered) == 3


def test_long_names_are_cut(fake):
    @jit(repr=lambda spec: "k" * 300)
    def kernel(x):
        pass

    made = compile(ASTSource(kernel, {"x": "*fp32"}), TARGET)
    (file,) = [name for name in made.metadata_group if name.endswith(".paper")]
    assert made.name == "k" * 300 and file.startswith("k" * 150) and len(file) < 220
    assert compile(ASTSource(kernel, {"x": "*fp32"}), TARGET).name == "k" * 300 and len(fake.lowered) == 1


def test_listener_is_told_of_hits_and_times(fake):
    told = []
    knobs.compilation.listener = lambda **what: told.append(what)
    compile(source(), TARGET)
    compile(source(), TARGET)
    assert [what["cache_hit"] for what in told] == [False, True]
    times = told[0]["times"]
    assert isinstance(times, CompileTimes) and [ext for ext, _ in times.lowering_stages] == ["ttir", "note", "paper"]
    assert times.total == times.ir_initialization + times.total_lowering + times.store_results >= 0
    assert told[1]["metadata"]["name"] == "scale" and "scale.json" in told[1]["metadata_group"]


def test_what_is_no_source(fake):
    with pytest.raises(TypeError, match=r"compile takes an ASTSource or the path of a file, not JITFunction\("):
        compile(scale, TARGET)
    with pytest.raises(TypeError, match=r"decorated with @triton.jit, not <built-in function len>"):
        ASTSource(len, {})
    with pytest.raises(TypeError, match=r"the type of n must be text, such as '\*fp32' or 'i32', not <class 'int'>"):
        ASTSource(scale, {"x": "*fp32", "n": int}, {"BLOCK": 8})


# -- dump and override -------------------------------------------------------------------------------------------------


def test_dump(fake, tmp_path):
    knobs.cache.dump_dir = str(tmp_path / "dump")
    compile(source(), TARGET)
    knobs.compilation.dump_ir = True
    compile(source(), TARGET)
    directory = tmp_path / "dump" / cache.base32(source().hash())
    assert set(os.listdir(directory)) == {"scale.source", "scale.ttir", "scale.note", "scale.paper", "scale.json"}
    again = compile(directory / "scale.note", TARGET)
    assert again.metadata.shared == 16  # found out by an earlier stage, kept beside the file


def test_override_replaces_a_stage_and_is_not_cached(fake, tmp_path, capsys):
    knobs.cache.override_dir = str(tmp_path / "override")
    knobs.compilation.override = True
    directory = tmp_path / "override" / cache.base32(source().hash())
    directory.mkdir(parents=True)
    (directory / "scale.note").write_text("by hand")
    assert json.loads(compile(source(), TARGET).asm["paper"])["text"] == "by hand"
    assert "Overriding kernel with file" in capsys.readouterr().err
    knobs.compilation.override = False
    assert json.loads(compile(source(), TARGET).asm["paper"])["text"] == "note scale 2"


def test_ir_override_replaces_the_stage_with_its_extension(fake, tmp_path):
    text = compile(source(), TARGET).asm["ttir"].replace("@scale(%x: ptr<f32>, %n: i32)", "@scale(%x: ptr<f32>)")
    (tmp_path / "mine.ttir").write_text(text)
    kernel = compile(source(), TARGET, {"ir_override": str(tmp_path / "mine.ttir")})
    assert kernel.asm["note"] == "note scale 1"
    with pytest.raises(ValueError, match="replaces no stage: the file's ending must be one of ttir, note, paper"):
        compile(source(), TARGET, {"ir_override": "mine.ptx"})


# -- defects -----------------------------------------------------------------------------------------------------------


def test_a_defect_leaves_a_file_that_shows_it_again(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITIUM_REPRODUCER_PATH", str(tmp_path / "defects"))
    with pytest.raises(InternalError, match="paper stage: ZeroDivisionError: the pen broke") as caught:
        compile(source(unwritable), TARGET)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.reproducer == str(tmp_path / "defects" / "unwritable.note")
    assert f"tritium.compile({caught.value.reproducer!r}, " in str(caught.value)
    with pytest.raises(InternalError, match="the pen broke"):
        tritium.compile(caught.value.reproducer, TARGET)


def test_the_command_that_shows_a_defect_again_can_be_run(tmp_path, monkeypatch):
    """In another process, for the machine the kernel was compiled for."""
    monkeypatch.setenv("TRITIUM_REPRODUCER_PATH", str(tmp_path))
    file = tmp_path / "k.ttir"
    file.write_text("kernel @k(%x: ptr<f32>) {\n  %0 = load %x : f32\n  store %x, %0\n}\n")
    target = GPUTarget("cuda", 80, 32)
    assert compile(file, target).metadata.target == target
    said = str(InternalError("gone", str(file), target)).partition("reproduce with: python -c ")[2].strip('"')
    code = f"{said.replace('; tritium', '; k = tritium')}; print(k.metadata.target)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "cuda:80:32", done.stderr


def test_a_module_that_cannot_be_printed_does_not_hide_its_defect(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITIUM_REPRODUCER_PATH", str(tmp_path))

    class Unprintable(str):
        def __str__(self):
            raise KeyError(1)

    monkeypatch.setattr("tritium.passes.run", lambda module, pipeline, watch=None: Unprintable())
    with pytest.raises(InternalError, match="note stage") as caught:
        compile(source(), TARGET)
    assert caught.value.reproducer == str(tmp_path / "scale.source") and str(caught.value.target) == "fake:paper:1"


def test_a_defect_found_by_the_verifier_gets_a_file(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITIUM_REPRODUCER_PATH", str(tmp_path))

    def broken(module, pipeline, watch=None):
        raise InternalError("lost a store", module)

    monkeypatch.setattr("tritium.passes.run", broken)
    with pytest.raises(InternalError, match="lost a store") as caught:
        compile(source(), TARGET)
    assert Path(caught.value.reproducer).read_text().startswith("kernel @scale")


def test_the_users_errors_lose_the_compilers_frames(fake, monkeypatch):
    def deep(*args):
        raise CompilationError(None, None, "outer") from ValueError("inner")

    monkeypatch.setattr("tritium.frontend.lower", deep)

    def frames(error):
        trace, found = error.__traceback__, []
        while trace:
            found.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        return found

    with pytest.raises(CompilationError, match="outer") as caught:
        compile(source(), TARGET)
    assert frames(caught.value)[1:] == ["deep"] and str(caught.value.__cause__) == "inner"
    knobs.compilation.front_end_debugging = True
    with pytest.raises(CompilationError) as caught:
        compile(source(), TARGET)
    assert "make_ir" in frames(caught.value)


def test_stages_can_be_inspected(fake):
    def hook(*args):
        if not args:
            return "key", "hash"
        _, stages, *_ = args
        note = stages["note"]
        stages["note"] = lambda value, metadata: note(value, metadata) + " inspected"

    first = compile(source(), TARGET)
    knobs.runtime.add_stages_inspection_hook = hook
    second = compile(source(), TARGET)
    assert second.asm["note"] == "note scale 2 inspected" and second.hash != first.hash
