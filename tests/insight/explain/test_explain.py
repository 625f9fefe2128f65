"""Findings, the report, the page as a text, and the public function."""

import dataclasses
import json
import re
import sys

import numpy as np
import pytest

import tritium
import tritium as triton
import tritium.language as tl
from tests import beside_a_gpu
from tests.insight import kernels as K
from tests.insight import slow_kernels
from tritium import testing
from tritium.backends.occupancy import occupancy_of
from tritium.insight.explain import charts
from tritium.insight.explain import text as reports
from tritium.insight.facts.stages import Stage
from tritium.kernels.matmul import tuned_kernel
from tritium.kernels.softmax import softmax_kernel
from tritium.kernels.vector_add import add_kernel


def explained(kernel, grid, *args, target="cuda:80", **meta):
    return tritium.explain(kernel, grid, *args, target=target, **meta)


def rules(found):
    return [f.rule for f in found.findings]


def of_product(target="cuda:80", size=256, **meta):
    a = K.floats(size, size, dtype=meta.pop("dtype", np.float16))
    blocks = dict(M=64, N=64, BK=32) | meta
    grid = size // blocks["M"], size // blocks["N"]
    return explained(K.product, grid, a, a, K.floats(size, size), size, size, size, size, target=target, **blocks)


# -- findings ----------------------------------------------------------------------------------------------------------


def test_mistakes_come_first():
    found = explained(K.unmasked, (4,), K.floats(100), K.floats(100), BLOCK=32)
    first = found.findings[0]
    assert (first.kind, first.rule) == ("error", "out of bounds") and "element 100 of `x_ptr`" in first.title
    assert first.line == found.accesses.sites[0].line and "mask" in first.remedy
    kinds = [f.kind for f in found.findings]
    assert kinds == sorted(kinds, key=["error", "warning", "note"].index)


def test_stored_by_two_programs():
    found = explained(K.overlapping, (4,), K.floats(64), K.floats(64), 64, BLOCK=32, target="cpu")
    assert "stored twice" in rules(found)


def test_stored_in_turn():
    """A lock may order the stores: no mistake then, and the sanitizer knows."""
    lock = np.zeros(1, np.int32)
    found = explained(K.under_a_lock, (4,), K.floats(4, 64), lock, K.floats(64), N=64)
    finding = next(f for f in found.findings if f.rule == "stored twice")
    lines = dict(found.launch.text)
    assert finding.kind == "note" and "tl.store(out_ptr" in lines[finding.line] and "sanitize" in finding.remedy
    assert "atomic_cas" in lines[int(finding.title.rsplit(" ", 1)[1])]


def test_one_finding_for_one_reason():
    x = np.zeros((4096, 64), np.float32)
    found = explained(K.four_columns, (32,), x, x.copy(), K.floats(4096), 64, N=128)
    (finding,) = [f for f in found.findings if f.rule == "coalescing"]
    first = finding.line
    assert "(x_ptr, y_ptr)" in finding.title and f"(so do lines {first + 1}, {first + 2}, {first + 3})" in finding.title


def test_what_limits_the_launch_comes_first():
    def lines(n, **meta):
        x = np.zeros(n, np.float32)
        return str(explained(add_kernel, (n // 1024,), x, x, x, n, BLOCK=1024, target="cuda:90a", **meta)).split("\n")

    first = lines(1 << 24)
    assert re.fullmatch(r"predicted: [\d.]+ us on H200, bound by DRAM", first[1])
    assert re.match(r" +Each by itself takes: DRAM \d\d%, L2 \d\d%, ", first[2])
    assert "64 of 64 warps fit on a processor" in first[3] and "programs were run" in first[4]
    assert "starting the kernel takes longer than its work" in lines(1 << 12)[1]


def test_gains_are_no_more_than_there_is_to_gain():
    """Nothing makes the start of a kernel shorter, and a busy unit needs no more programs."""
    small = explained(K.columns, (2,), np.zeros((512, 64), np.float32), K.floats(512), 64, BLOCK=256, target="cuda:90a")
    assert small.bound == "launch" and max(f.gain for f in small.findings) <= small.prediction.share_of_peak < 0.2
    x = np.zeros((2048, 8192), np.float32)
    busy = explained(slow_kernels.whole_row, (2048,), x, x.copy(), BLOCK=8192, target="cuda:90a", programs=4)
    finding = next(f for f in busy.findings if f.rule == "occupancy")
    assert finding.gain == min(0.15, 1 - busy.prediction.share_of_peak) and busy.part(busy.bound) > 0.8
    registers, programs, now = map(int, re.search(r"with (\d+) registers a thread, of now \d+, (\d+) programs fit "
                                                  r"instead of (\d+)", finding.remedy).groups())
    r = busy.resources
    assert now == r.occupancy.programs < programs
    assert programs == occupancy_of(registers, r.shared, r.warps, busy.target).programs


def test_a_loop_that_stages_do_not_pipeline():
    """Asking for more stages is no remedy where they were asked for: what the loop does besides is the reason."""
    x = np.zeros((4, 64, 64), np.float16)
    found = explained(K.added_in_turn, (4,), x, x.copy(), K.floats(4, 64, 64), np.zeros(4, np.int32), 4, N=64,
                      num_stages=4)
    finding = next(f for f in found.findings if f.rule == "pipeline")
    lines = dict(found.launch.text)
    assert "although num_stages=4 asks for it; it writes to memory" in finding.title
    assert "num_stages" not in finding.remedy and "write after the loop" in finding.remedy
    assert any(word in lines[int(re.search(r"line (\d+)\)", finding.title)[1])] for word in ("tl.store", "atomic"))


def test_columns_and_their_gain():
    n = 1 << 15
    found = explained(K.columns, (n // 256,), np.zeros((n, 64), np.float32), K.floats(n), 64, BLOCK=256)
    finding = next(f for f in found.findings if f.rule == "coalescing")
    assert finding.title.startswith("loads 32 sectors in a request where 4 would do (x_ptr)") and finding.gain > 0.1


def test_a_missing_promise_is_told_once():
    found = explained(add_kernel, (2,), *(K.floats(999) for _ in range(3)), 999, BLOCK=512)
    (finding,) = [f for f in found.findings if f.rule == "vector width"]
    lines = [s.line for s in found.accesses.sites]
    assert "would move 4 if `n` were a multiple of 16" in finding.title
    assert f"lines {lines[1]}, {lines[2]}" in finding.title


def test_a_run_of_neighbours_that_is_moved_in_pieces():
    """A copy in f32 has the layout of f16 tiles of its shape: each thread holds 32 bytes, and stores 16 at a time. The
    result of the dot, which is converted for its store, has a layout of its own."""
    x, out = K.floats(64, 64, dtype=np.float16), K.floats(64, 64)
    found = explained(K.squared, (1,), x, out, out, N=64)
    stores = {(r.vector, r.run, r.excess) for r in found.requests if r.kind == "store"}
    assert stores == {(4, 8, 2), (4, 4, 1)}
    assert any("holds 8 neighbours and moves 4" in f.title for f in found.findings)


def test_masked_lanes_and_idle_processors():
    found = explained(softmax_kernel, (2,), K.floats(2, 600), K.floats(2, 600), 600, 600, 600, BLOCK=1024)
    assert {"masked lanes", "grid"} <= set(rules(found))


def test_products_without_tensor_cores_and_without_pipelines():
    assert "pipeline" in rules(of_product(num_stages=1)) and "pipeline" not in rules(of_product())


SIZE = "the host cannot describe its tensor before the launch, because the size"


@pytest.mark.parametrize(("how", "where", "why", "remedy"), [
    ("loaded size", "left = a.load([i, k])", f"{SIZE} is loaded in the kernel (line ROWS)", "pass it as an argument"),
    ("size of a program", "left = a.load([i, k])", f"{SIZE} differs between programs", "the same for all programs"),
    ("xor", "left = a.load([i, k])", f"{SIZE} is computed by `xor`", "pass it as an argument"),
    ("loaded bound", "for k in", "a bound of the loop is loaded", "pass it as an argument"),
    ("loaded place", "for k in", "places that it loads from are loaded in the same iteration", "the loop's index"),
    ("stores", "for k in", "the loop may write what it loads, or synchronizes, in every iteration", "store behind"),
    ("early store", "for k in", "memory is written before the loop", "store behind it"),
    ("sort", "tl.sort(total)", "`sort` lets all threads exchange elements", "in another kernel"),
    ("16 warps", "for k in", "it has 16 warps", "num_warps=4 or 8"),
])
def test_why_a_loop_has_no_producer_warp(how, where, why, remedy):
    a, c = np.zeros((256, 256), np.float16), K.floats(256, 256)
    found = explained(K.product_unlike, (2, 2), a, a, c, np.full(256, 128, np.int32), 256, 256, 256, target="cuda:90a",
                      programs=1, HOW=how, B=128, BK=64, num_warps=16 if how == "16 warps" else 4)
    line_of = lambda text: next(n for n, line in found.launch.text if text in line)
    (finding,) = [f for f in found.findings if f.rule == "producer warp"]
    title = f"the loop has no producer warp that loads by TMA: {why}"
    assert title.replace("ROWS", str(line_of("rows = tl.load"))) in finding.title
    assert finding.line == line_of(where) and remedy in finding.remedy


def test_rows_that_a_producer_warp_loads():
    halves = [np.zeros((256, 64), np.float16) for _ in range(2)]
    found = explained(K.shifted_products, (4,), K.floats(256, 64), *halves, K.floats(256), 256, target="cuda:90a",
                      programs=1, D=64, B=64, num_stages=2)
    assert found.timeline.loops[0].how == "producer warp" and "removed" not in rules(found)
    assert {r.how for r in found.requests if "row_ptr" in r.tensors} == {"TMA"}


@pytest.mark.parametrize(("how", "target"), [("quotient", "cuda:90a"), ("loaded size", "cuda:80")])
def test_loops_with_a_producer_warp_or_without_tma_are_no_finding(how, target):
    a, c = np.zeros((256, 256), np.float16), K.floats(256, 256)
    found = explained(K.product_unlike, (2, 2), a, a, c, np.full(256, 256, np.int32), 256, 256, 256, target=target,
                      programs=1, HOW=how, B=128, BK=64)
    assert "producer warp" not in rules(found)
    assert (found.timeline.loops[0].how == "producer warp") == (how == "quotient")


def test_nothing_to_say_of_a_good_copy():
    n = 1 << 20
    found = explained(K.unmasked, (n // 1024,), np.zeros(n, np.float32), np.zeros(n, np.float32), BLOCK=1024)
    assert rules(found) == []


# -- the function ------------------------------------------------------------------------------------------------------


def test_targets_and_devices():
    assert [p.device for p in of_product("cuda:90a").roofline.predictions] == ["H100", "H200"]
    here = of_product("cpu")
    assert [p.device for p in here.roofline.predictions] == ["this CPU"] and here.requests == () and here.device is None
    assert here.prediction.seconds > 0 and here.bound in ("DRAM", "arithmetic", "launch")
    assert "on this CPU" in here.text() and "this CPU" in here.html()
    x = K.floats(64)
    found = tritium.explain(K.unmasked, (2,), x, x.copy(), BLOCK=32, target="cuda:75", devices=["T4", "H200"])
    assert [p.device for p in found.roofline.predictions] == ["T4", "H200"]


def test_grid_functions_tuners_and_heuristics():
    a = K.floats(64, 64, dtype=np.float16)
    grid = lambda meta: (tritium.cdiv(64, meta["BLOCK_M"]) * tritium.cdiv(64, meta["BLOCK_N"]),)
    found = explained(tuned_kernel, grid, a, a, a.copy(), *(64,) * 3, *(64, 1) * 3, ACTIVATION="", PRECISION=None)
    assert found.launch.grid == (1, 1, 1) and "the first of 7 configurations" in found.launch.note
    sized = tritium.heuristics({"BLOCK": lambda args: 64})(add_kernel)
    assert explained(sized, (1,), K.floats(64), K.floats(64), K.floats(64), 64).launch.constants["BLOCK"] == 64


def test_torch_tensors_and_descriptors():
    torch = pytest.importorskip("torch")
    x = torch.zeros(16, 8, dtype=torch.bfloat16)
    found = explained(K.columns, (1,), x.t(), torch.zeros(8, dtype=torch.bfloat16), 1, BLOCK=8)
    assert found.accesses.tensor("x_ptr").strides == (1, 8) and found.accesses.tensor("x_ptr").dtype == "bf16"


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: tritium.explain(len, (1,), target="cpu"), TypeError, "explain takes a kernel"),
    (lambda: tritium.explain(add_kernel, (1,), target="cpu"), TypeError, "missing"),
    (lambda: explained(add_kernel, (0,), *(K.floats(4),) * 3, 4, BLOCK=4), ValueError, "has no programs"),
    (lambda: explained(add_kernel, (1,), *(K.floats(4),) * 3, 4, BLOCK=4, devices=["H999"]), ValueError, "H999"),
    (lambda: explained(add_kernel, (1,), *(K.floats(4),) * 3, 4, BLOCK=4, num_wraps=8), KeyError, "num_wraps"),
    (lambda: explained(add_kernel, (1,), *(K.floats(4),) * 3, 4, BLOCK=5), Exception, "power of 2"),
    (lambda: explained(add_kernel, (1,), *(K.floats(4),) * 3, 4, BLOCK=4, programs=0), ValueError, "at least 1"),
])  # fmt: skip
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_comparing():
    found = of_product().compared(of_product(num_warps=8))
    assert ("warps", "4", "8") in found.comparison.figures and "ttgir" in found.comparison.diffs
    assert "comparison" in found.text() and 'id="compare"' in found.html()


# -- the report and the page -------------------------------------------------------------------------------------------


def test_the_report():
    found = explained(K.columns, (2,), K.floats(256, 64), K.floats(256), 64, BLOCK=128)
    said = found.text()
    assert str(found) == said and len(repr(found)) < 120 and found.name in repr(found)  # print is what comes to mind
    line = found.accesses.sites[0].line
    assert re.search(rf"{line}\s+load x_ptr\s+0%\s+0\s+threads\s+1 of 4\s+32\s+4\s+8 KiB\s+1 KiB", said)
    assert "1. warning: line" in said and "predicted" in said and "occupancy" in said and reports.LEGEND in said


def test_the_report_without_rich(monkeypatch):
    found = explained(K.unmasked, (1,), K.floats(32), K.floats(32), BLOCK=32, target="cpu")
    with_rich = found.text()
    monkeypatch.setitem(sys.modules, "rich", None)
    plain = found.text()
    assert "load x_ptr" in plain and plain.replace(" ", "") != with_rich.replace(" ", "")
    assert reports.plain("t", ("a", "b"), [("1", "22")]) == "t\na  b\n1  22\n"


def facts_of(page):
    return json.loads(re.search(r'id="facts">(.*?)</script>', page, re.S)[1])


def test_the_page_stands_alone(tmp_path):
    found = of_product("cuda:90a")
    page = found.html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page and len(page) < 2_000_000
    drawn = re.sub(r'id="facts">.*?</script>', "", page, flags=re.S)
    assert not re.search(r'(?:src|href)="(?!#)|url\(|@import|https?://', drawn)
    facts = facts_of(page)
    assert facts["grid"] == [4, 4, 1] and [t["name"] for t in facts["tensors"]] == ["a_ptr", "b_ptr", "c_ptr"]
    assert len(facts["programs"]) == 16 and facts["stages"][0]["name"] == "python"
    assert "TMA" in page and "producer warp" in page and "Roofline" in page


def test_text_of_the_kernel_cannot_leave_its_place():
    """Neither a string in the source nor one in a stage ends the script that holds the facts."""
    found = explained(K.unmasked, (1,), K.floats(32), K.floats(32), BLOCK=32, target="cpu")
    evil = "x = '</script><script>alert(1)</script><!--'"
    page = dataclasses.replace(found, stages=(Stage("python", (evil,), (1,)),)).html()
    assert "<script>alert" not in page and facts_of(page)["stages"][0]["lines"] == [evil]


def test_notebooks_show_the_page():
    found = explained(K.unmasked, (1,), K.floats(32), K.floats(32), BLOCK=32, target="cpu")
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "&lt;!DOCTYPE html&gt;" in shown and "<script" not in shown


@triton.jit
def scaled_rows(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + i, mask=i < columns)
    tl.store(out_ptr + tl.program_id(0) * columns + i, 2 * x, mask=i < columns)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_measured_time_and_its_point(framework):
    """Views keep their strides, and arguments stay as they are."""
    x, out = np.ones((8, 100), np.float32)[:, :80], np.zeros((8, 80), np.float32)
    if framework == "torch":
        torch = pytest.importorskip("torch")
        x, out = torch.from_numpy(x), torch.from_numpy(out)
    found = tritium.explain(scaled_rows, (8,), x, out, 100, 80, BLOCK=128, target="cpu", measure=True)
    assert 0 < found.roofline.measured < 1 and float(out.sum()) == 0
    assert "measured" in found.text() and "Measured on this machine" in found.html()


def test_kernels_on_the_cpu_are_measured_beside_a_gpu(monkeypatch):
    x = np.ones(64, np.float32)
    beside_a_gpu.install(monkeypatch)
    monkeypatch.setattr(testing, "clock", testing._HostClock)
    found = tritium.explain(scaled_rows, (1,), x, x.copy(), 0, 64, BLOCK=64, target="cpu", measure=True)
    assert 0 < found.roofline.measured < 1


def test_the_measured_point_is_drawn():
    x = np.ones(1 << 10, np.float32)
    roof = tritium.explain(scaled_rows, (1,), x, x.copy(), 0, 1024, BLOCK=1024, target="cuda:90a").roofline
    assert "measured" not in charts.roofline(roof)
    assert 'class="measured"' in charts.roofline(dataclasses.replace(roof, measured=1e-5))


def test_only_this_machine_is_measured():
    x = np.ones(64, np.float32)
    with pytest.raises(ValueError, match=r"explain cannot measure a kernel for .*: this machine runs "):
        tritium.explain(scaled_rows, (1,), x, x.copy(), 0, 64, BLOCK=64, target="gfx942", measure=True)
