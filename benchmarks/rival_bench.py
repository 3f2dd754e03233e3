"""pytest-benchmark's own sampler on the calls that benchmarks/detection_gpu.py hands it."""


def test_call(benchmark, call):
    benchmark(call)
