"""The workloads say why they cannot run, and find Liger where it is installed."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from fixtures import workloads
from fixtures.workloads import MODES, Unavailable, require_mode, workload


def test_compiled_on_a_cpu_needs_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Unavailable, match=r"needs a C\+\+ compiler"):
        require_mode("compiled", "cpu")


def test_liger_needs_one_of_two_packages(monkeypatch):
    monkeypatch.setattr(workloads.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="neither liger-kernel nor kernels is installed"):
        require_mode("liger", "cuda")


@pytest.mark.parametrize("mode", ["reduce-overhead", "liger"])
def test_gpu_modes_do_not_run_on_a_cpu(mode):
    with pytest.raises(Unavailable):
        require_mode(mode, "cpu")


def test_an_unknown_mode_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=f"unknown mode 'jit': known are {', '.join(MODES)}"):
        require_mode("jit", "cpu")


def test_an_unknown_workload_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match="no workload 'conv': known are matmul_add-64, "):
        workload("conv")


@pytest.mark.parametrize("fails", [False, True])
def test_liger_comes_from_the_hub_where_only_kernels_is_installed(monkeypatch, fails):
    """Against a stand-in for `kernels`: the hub itself is not reached here."""
    asked = []

    def get_kernel(name, version):
        asked.append((name, version))
        if fails:
            raise OSError("no network")
        return SimpleNamespace(layers=SimpleNamespace(LigerGEGLUMLP=lambda config: config))

    hub = ModuleType("kernels")
    hub.get_kernel = get_kernel
    monkeypatch.setitem(sys.modules, "kernels", hub)
    monkeypatch.setattr(
        workloads.importlib.util, "find_spec", lambda name: name == "kernels" or None
    )
    if fails:
        with pytest.raises(Unavailable, match="could not be loaded: no network"):
            workloads._liger_mlp(768, 3072)
    else:
        config = workloads._liger_mlp(768, 3072)
        assert (config.hidden_size, config.intermediate_size) == (768, 3072)
    assert asked == [("kernels-community/liger-kernels", 1)]
