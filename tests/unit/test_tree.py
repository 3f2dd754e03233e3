"""The dispatch tree that messages and `kernelpin show` draw."""

from __future__ import annotations

import re
from textwrap import dedent

from hypothesis import given, settings
from hypothesis import strategies as st
from small_trace import call, kernel, label, memcpy, memset, op, small_trace, step

from kernelpin.render import kernel_labels, shapes_of, tree

GEMM = "nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT"
ADD = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<float>>(int)"


def drawn(text: str) -> list[str]:
    return dedent(text).strip("\n").splitlines()


def test_an_op_is_drawn_with_the_ops_that_launched_and_their_kernels():
    linear = op(
        "aten::linear",
        op("aten::t", op("aten::transpose")),
        op("aten::addmm", kernel(GEMM, 18.2), kernel(ADD, 2.1)),
        shapes=[[16, 4096], [1, 4096], []],
        dtypes=["c10::BFloat16", "c10::BFloat16", ""],
    )
    trace = small_trace(linear)
    (root,) = trace.ops("aten::linear")
    assert tree(root, mark={root.kernels[1]}) == drawn("""
        aten::linear  bf16[16,4096] × bf16[1,4096]
        └─ aten::addmm
           ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  18.20 µs
           └─ elementwise_kernel<add>                 2.100 µs   ← unexpected
    """)
    assert tree(root, ops=True) == drawn("""
        aten::linear  bf16[16,4096] × bf16[1,4096]
        ├─ aten::t
        │  └─ aten::transpose
        └─ aten::addmm
           ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  18.20 µs
           └─ elementwise_kernel<add>                 2.100 µs
    """)


def test_a_step_is_drawn_with_what_was_launched_in_it():
    trace = small_trace(
        step(label("forward", op("aten::mm", memset(), kernel(GEMM, 18.0))), memcpy("HtoD", 5.0)),
        step(op("aten::mm", kernel(GEMM))),
    )
    assert tree(trace.steps[0]) == drawn("""
        ProfilerStep#2
        ├─ forward
        │  └─ aten::mm
        │     ├─ Memset                                  1.000 µs
        │     └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  18.00 µs
        └─ Memcpy HtoD                                   5.000 µs
    """)


def test_a_trace_without_steps_is_one():
    assert tree(small_trace(op("aten::mm", kernel(GEMM))).steps[0])[0] == "the whole trace"


def test_runs_that_look_the_same_are_drawn_once_with_the_time_of_one():
    layer = op("aten::linear", op("aten::addmm", kernel(GEMM, 3.0)))
    slow = op("aten::linear", op("aten::addmm", kernel(GEMM, 5.0)))
    many = op("aten::foreach", *[kernel(ADD, us) for us in (1.0, 2.0, 9.0)])
    trace = small_trace(label("model", layer, layer, slow, many))
    assert tree(trace.ops("model")[0]) == drawn("""
        model
        ├─ aten::linear × 3
        │  └─ aten::addmm
        │     └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
        └─ aten::foreach
           └─ elementwise_kernel<add> × 3                2.000 µs
    """)


def test_a_run_of_offenders_is_marked_once_and_no_other_kernel_of_their_name():
    trace = small_trace(op("aten::sum", *[kernel(ADD, 1.0)] * 50))
    (root,) = trace.ops("aten::sum")
    assert tree(root, mark=root.kernels[2:]) == drawn("""
        aten::sum
        ├─ elementwise_kernel<add> × 2   1.000 µs
        └─ elementwise_kernel<add> × 48  1.000 µs   ← unexpected
    """)


def test_ops_and_calls_can_be_marked_each_in_its_own_words():
    trace = small_trace(
        op("aten::item", op("aten::to"), memcpy("DtoH", 2.0), call("cudaStreamSynchronize"))
    )
    (item,) = trace.ops("aten::item")
    wait = item.calls("cudaStreamSynchronize")[0]
    (to,) = trace.ops("aten::to")
    assert tree(item, mark={wait: "waits", to: "odd\nname"}) == drawn("""
        aten::item
        ├─ aten::to                          ← odd\\nname
        ├─ Memcpy DtoH            2.000 µs
        └─ cudaStreamSynchronize             ← waits
    """)


def test_branches_without_a_mark_are_cut_to_one_line_where_there_are_marks():
    trace = small_trace(
        label(
            "model",
            op("aten::linear", op("aten::mm", memset(), kernel(GEMM))),
            op("aten::relu", kernel(ADD, 1.0)),
            op("aten::linear", op("aten::mm", kernel(GEMM))),
        )
    )
    relu = trace.ops("aten::relu")[0].kernels
    assert tree(trace.ops("model")[0], mark=relu) == drawn("""
        model
        ├─ aten::linear  … (1 kernel)
        ├─ aten::relu
        │  └─ elementwise_kernel<add>  1.000 µs   ← unexpected
        └─ aten::linear  … (1 kernel)
    """)


def test_a_large_tree_keeps_its_marks_and_says_how_much_it_leaves_out():
    ops = [op(f"aten::op{i}", kernel(f"kernel_{i}")) for i in range(100)]
    trace = small_trace(label("model", *ops))
    (marked,) = trace.ops("aten::op70")[0].kernels
    lines = tree(trace.ops("model")[0], mark={marked}, limit=6)
    assert lines == drawn("""
        model
        ├─ aten::op0  … (1 kernel)
        ├─ aten::op1  … (1 kernel)
        ├─ aten::op2  … (1 kernel)
        ├─ … 67 more (67 kernels)
        ├─ aten::op70
        │  └─ kernel_70  2.000 µs   ← unexpected
        └─ … 29 more (29 kernels)
    """)


def test_a_lone_branch_that_is_left_out_is_named_not_counted():
    ops = [op(f"aten::op{i}", kernel(f"kernel_{i}")) for i in range(4)]
    trace = small_trace(label("model", *ops))
    (marked,) = trace.ops("aten::op1")[0].kernels
    assert tree(trace.ops("model")[0], mark={marked}, limit=3) == drawn("""
        model
        ├─ aten::op0  … (1 kernel)
        ├─ aten::op1
        │  └─ kernel_1  2.000 µs   ← unexpected
        └─ … 2 more (2 kernels)
    """)


def test_names_are_shortened_and_numbered_where_that_makes_them_alike():
    long = "nvjet_sm90_tst_192x128_64x5_2x1_v_bz_coopB_{}_bias_and_more_words_to_fill_it_TNT"
    one, two = long.format("aaa"), long.format("bbb")
    assert kernel_labels([one], 40) == {one: "nvjet_sm90_tst_192x128_…_to_fill_it_TNT"}
    labels = [
        "nvjet_sm90_tst_192x128_…_to_fill_it_TNT #1",
        "nvjet_sm90_tst_192x128_…_to_fill_it_TNT #2",
    ]
    assert list(kernel_labels([one, two, one], 40).values()) == labels
    trace = small_trace(op("aten::mm", kernel(one), kernel(two), kernel(two)))
    assert tree(trace.ops("aten::mm")[0], width=40) == drawn("""
        aten::mm
        ├─ nvjet_sm90_tst_192x128_…_to_fill_it_TNT #1      2.000 µs
        └─ nvjet_sm90_tst_192x128_…_to_fill_it_TNT #2 × 2  2.000 µs
    """)


def test_names_with_control_characters_stay_on_their_line():
    trace = small_trace(op("two\nlines \x1b[31m", kernel("ker\rnel\x07")))
    lines = tree(trace.roots[0])
    assert lines[0] == "two\\nlines \\x1b[31m"
    assert "\r" not in lines[1]
    assert "\x07" not in lines[1]


def test_shapes_are_those_of_tensors_only():
    def shapes(dims, types):
        return shapes_of(small_trace(op("o", shapes=dims, dtypes=types)).roots[0])

    assert shapes([[2, 3], [], []], ["float", "Scalar", "ScalarList"]) == "fp32[2,3]"
    assert shapes([[], [4]], ["c10::Half", "long int"]) == "fp16[] × i64[4]"
    assert shapes([[[2], [3]], []], ["TensorList", "Scalar"]) == "2 tensors"
    assert shapes([[1]] * 9, ["c10::Float8_e4m3fn"] * 9).endswith(" × …")
    assert shapes(None, None) == ""


def test_a_tree_deeper_than_python_recurses_is_drawn():
    inside = kernel(GEMM)
    for depth in range(3000):
        inside = op(f"level{depth}", inside)
    lines = tree(small_trace(inside).roots[0], limit=None)
    assert len(lines) == 3001
    assert max(map(len, lines)) < 300


def test_colour_changes_nothing_but_the_colour():
    trace = small_trace(op("aten::mm", kernel(GEMM), kernel(ADD)))
    (root,) = trace.roots
    plain = tree(root, mark=root.kernels[1:])
    colored = tree(root, mark=root.kernels[1:], color=True)
    assert [re.sub(r"\x1b\[[\d;]*m", "", line) for line in colored] == plain
    assert "\x1b[1;31m← unexpected\x1b[0m" in colored[2]


parts = st.recursive(
    st.sampled_from([kernel(GEMM), kernel(ADD), memset(), op("aten::t")]),
    lambda inner: st.lists(inner, max_size=4).map(lambda x: op("aten::f", *x)),
    max_leaves=40,
)


@settings(max_examples=50)
@given(parts, st.data())
def test_every_kernel_is_drawn_and_every_mark_shown_once_for_each_run(part, data):
    trace = small_trace(op("root", part))
    (root,) = trace.roots[:1]
    marked = data.draw(st.sets(st.sampled_from(root.kernels))) if root.kernels else set()
    lines = tree(root, limit=None)
    counts = [int(m[1]) if (m := re.search(r" × (\d+)  ", line)) else 1 for line in lines]
    assert len(lines) <= len(root.ops()) + len(root.kernels) + 1
    assert sum(counts) >= min(len(root.kernels), 1)
    noted = tree(root, mark=marked, limit=None)
    assert any("←" in line for line in noted) == bool(marked)
    assert sum(line.endswith("← unexpected") for line in noted) <= len(marked)
