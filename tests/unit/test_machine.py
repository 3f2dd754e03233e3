"""Which GPU, in what state, and who else is on it: with an NVML of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelpin import machine
from kernelpin.machine import Gpu, State, card, gpu, kin
from kernelpin.machine.card import Card

UUID = "3f2a7c1e-0000-1111-2222-333344445555"
H200 = SimpleNamespace(
    name="NVIDIA H200",
    total_memory=150_109_880_320,
    multi_processor_count=132,
    major=9,
    minor=0,
    uuid=UUID,
)
VERSIONS = {"cuda": "13.0", "torch": "2.11.0+cu130", "triton": "3.6.0"}


class NVMLError(Exception):
    pass


class FakeNvml:
    """A driver's NVML: `cards` by UUID, each a dict of answers; what it lacks is unsupported."""

    NVMLError = NVMLError

    def __init__(self, cards, driver="580.159.03"):
        self.cards, self.driver = cards, driver

    def nvmlSystemGetDriverVersion(self):
        return self.driver

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.cards:
            raise NVMLError("not found")
        return self.cards[uuid]

    def __getattr__(self, question):
        if not question.startswith("nvmlDeviceGet"):
            raise AttributeError(question)

        def answer(handle, *arguments):
            if question not in handle:
                raise NVMLError("not supported")
            found = handle[question]
            return found(*arguments) if callable(found) else found

        return answer


def process(pid, used=None):
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


def h200(**answers):
    return {
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetMaxClockInfo": lambda clock: {1: 1980}[clock],
        "nvmlDeviceGetClockInfo": lambda clock: {1: 1965}[clock],
        "nvmlDeviceGetCurrentClocksEventReasons": 0,
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetMigMode": [0, 0],
        **answers,
    }


def find(uuid=UUID, **answers):
    return Card.find(FakeNvml({f"GPU-{UUID}": h200(**answers)}), uuid)


# -- the GPU --------------------------------------------------------------------------------------


def test_a_gpu_is_what_cuda_and_nvml_say_of_it():
    assert gpu.gpu_from(H200, find(), VERSIONS) == Gpu(
        name="NVIDIA H200",
        slug="nvidia-h200",
        uuid=f"GPU-{UUID}",
        memory_bytes=150_109_880_320,
        sm_count=132,
        power_limit_w=700.0,
        mig=None,
        driver="580.159.03",
        cuda="13.0",
        torch="2.11.0+cu130",
        triton="3.6.0",
        compute_capability=(9, 0),
        sm_clock_max_mhz=1980,
    )


def test_without_nvml_the_gpu_is_what_cuda_says():
    found = gpu.gpu_from(H200, Card.find(None, UUID), VERSIONS)
    assert (found.slug, found.uuid) == ("nvidia-h200", f"GPU-{UUID}")
    assert (found.power_limit_w, found.mig, found.driver) == (None, None, "")
    assert str(found) == "NVIDIA H200, 150 GB, 132 SMs, CUDA 13.0, torch 2.11.0+cu130, triton 3.6.0"


def test_nvml_that_answers_nothing_is_like_no_nvml():
    found = Card.find(FakeNvml({f"GPU-{UUID}": {}}), UUID)
    assert gpu.gpu_from(H200, found, VERSIONS).power_limit_w is None
    assert gpu.state_of(found, ()) == State()


@pytest.mark.parametrize("uuid", [UUID, f"GPU-{UUID}"])
def test_the_card_is_found_by_uuid_among_others(uuid):
    other = h200(nvmlDeviceGetEnforcedPowerLimit=600_000)
    nvml = FakeNvml({"GPU-another": other, f"GPU-{UUID}": h200()})
    assert Card.find(nvml, uuid).power_limit_w() == 700.0


def test_a_card_that_nvml_does_not_list_answers_nothing_but_the_driver():
    found = Card.find(FakeNvml({"GPU-another": h200()}), UUID)
    assert found.power_limit_w() is None
    assert found.driver() == "580.159.03"


def test_a_mig_slice_has_its_profile_its_own_processes_and_the_cards_clock():
    parent = h200(nvmlDeviceGetMigMode=[1, 1])
    slice_ = {
        "nvmlDeviceGetName": "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": parent,
        "nvmlDeviceGetComputeRunningProcesses": [process(77)],
    }
    found = Card.find(FakeNvml({f"MIG-{UUID}": slice_}), UUID)
    assert found.uuid == f"MIG-{UUID}"
    assert found.mig_profile("NVIDIA A100-SXM4-40GB") == "1g.5gb"
    assert found.sm_clock_mhz() == 1965
    assert found.processes() == {77: None}


def test_a_mig_slice_is_a_card_of_the_same_name():
    sliced = SimpleNamespace(**{**vars(H200), "name": "NVIDIA A100-SXM4-40GB MIG 2g.10gb"})
    found = gpu.gpu_from(sliced, Card.find(None, UUID), VERSIONS)
    assert (found.name, found.mig) == ("NVIDIA A100-SXM4-40GB", "2g.10gb")
    assert found.slug == "nvidia-a100-sxm4-40gb"


def test_a_card_in_mig_mode_that_cuda_shows_whole_has_an_unknown_slice():
    assert find(nvmlDeviceGetMigMode=[1, 1]).mig_profile("NVIDIA H200") == "unknown"


# -- its state ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "flags"),
    [
        (0x0, (False, False, False)),
        (0x1, (False, False, False)),  # idle
        (0x2, (False, False, False)),  # the user's own application clocks
        (0x4, (True, False, False)),
        (0x20, (False, True, False)),
        (0x40 | 0x8, (False, True, True)),
        (0x8, (False, False, True)),
        (0x80, (False, False, True)),
        (0x4 | 0x20, (True, True, False)),
    ],
)
def test_what_holds_the_clock_back_is_told_apart(bits, flags):
    state = gpu.state_of(find(nvmlDeviceGetCurrentClocksEventReasons=bits), ())
    assert (state.power_cap, state.thermal, state.hw_slowdown) == flags
    assert state.sm_clock_mhz == 1965


def test_an_older_driver_is_asked_by_its_older_name():
    answers = h200(nvmlDeviceGetCurrentClocksThrottleReasons=0x20)
    del answers["nvmlDeviceGetCurrentClocksEventReasons"]
    assert gpu.state_of(Card.find(FakeNvml({f"GPU-{UUID}": answers}), UUID), ()).thermal


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State(1980), None),
        (State(1500, power_cap=True), None),
        (State(1200, thermal=True), "thermal slowdown (SM 1200 MHz)"),
        (State(600, thermal=True, hw_slowdown=True), "hardware slowdown (SM 600 MHz)"),
        (State(None, thermal=True), "thermal slowdown"),
        (State(1980, strangers=(7,)), "another process on the GPU (pid 7)"),
        (State(1980, strangers=(7, 9)), "other processes on the GPU (pid 7, 9)"),
    ],
)
def test_what_disqualifies_is_said_in_words(state, reason):
    assert state.disqualifies == reason


# -- who is our own -------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_session(monkeypatch):
    monkeypatch.delenv(kin.SESSION, raising=False)
    monkeypatch.delenv(kin.GPU_PIDS, raising=False)
    monkeypatch.setattr(kin, "_learnt", set())


def test_this_process_and_its_ancestors_are_no_strangers():
    mine = [process(os.getpid()), process(os.getppid())]
    found = find(nvmlDeviceGetComputeRunningProcesses=mine)
    assert gpu.state_of(found, kin.own_pids()).strangers == ()


def test_anyone_else_is_a_stranger():
    found = find(nvmlDeviceGetComputeRunningProcesses=[process(os.getpid()), process(1)])
    assert gpu.state_of(found, kin.own_pids()).strangers == (1,)


@pytest.fixture
def sleeper():
    """Start a process that sleeps, with this process's environment; yields how."""
    started = []

    def start():
        code = "import time; print(flush=True); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        started.append(child)
        child.stdout.readline()
        return child.pid

    yield start
    for child in started:
        child.kill()
        child.stdout.close()
        child.wait()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_processes_of_one_test_run_know_each_other_by_its_mark(sleeper, monkeypatch):
    before = sleeper()
    machine.join_session()
    monkeypatch.setenv(kin.SESSION, os.environ[kin.SESSION])  # undone after the test
    after = sleeper()
    assert kin.is_kin(after)
    assert not kin.is_kin(before)
    found = find(nvmlDeviceGetComputeRunningProcesses=[process(before), process(after)])
    assert gpu.state_of(found, kin.own_pids()).strangers == (before,)
    monkeypatch.setenv(kin.SESSION, "another run")
    assert not kin.is_kin(after)


def test_a_session_once_joined_keeps_its_mark(monkeypatch):
    environ = {}
    machine.join_session(environ)
    mark = environ[kin.SESSION]
    machine.join_session(environ)
    assert environ == {kin.SESSION: mark}
    monkeypatch.setenv(kin.SESSION, "outer")
    inner = {}
    machine.join_session(inner)
    assert inner[kin.SESSION] == "outer"


def renumbered(*pids, ours, grows=256 << 20):
    """NVML in a container: host pids, of which `ours` grows when this process allocates."""
    held = [0]

    @contextmanager
    def allocated():
        held[0] = grows
        yield grows
        held[0] = 0

    def processes():
        return {pid: (1 << 30) + (held[0] if pid == ours else 0) for pid in pids}

    return processes, allocated


def test_in_a_container_our_number_is_the_one_whose_memory_grows():
    assert kin.pid_by_memory(*renumbered(900_001, 900_002, ours=900_002)) == 900_002
    assert kin.pid_by_memory(*renumbered(900_001, 900_002, ours=5)) is None


def test_memory_that_did_not_grow_or_is_unknown_names_nobody():
    assert kin.pid_by_memory(*renumbered(900_001, ours=900_001, grows=0)) is None
    _, allocated = renumbered(ours=1)
    assert kin.pid_by_memory(lambda: {900_001: None}, allocated) is None


def test_the_number_once_learnt_is_no_stranger_and_is_handed_down(monkeypatch):
    processes, allocated = renumbered(900_001, 900_002, ours=900_002)
    monkeypatch.setattr(kin, "_allocated", allocated)
    kin.learn_own_pid(processes)
    assert 900_002 in kin.own_pids()
    environ = {}
    machine.join_session(environ)
    assert environ[kin.GPU_PIDS] == "900002"
    monkeypatch.setattr(kin, "_learnt", set())
    monkeypatch.setenv(kin.GPU_PIDS, environ[kin.GPU_PIDS])
    assert 900_002 in kin.own_pids()


def test_the_only_process_on_the_gpu_is_us(monkeypatch):
    _, allocated = renumbered(900_001, ours=900_001, grows=0)
    monkeypatch.setattr(kin, "_allocated", allocated)
    kin.learn_own_pid(lambda: {900_001: None})
    assert 900_001 in kin.own_pids()


def test_nothing_is_allocated_where_nvml_lists_our_own_pid(monkeypatch):
    monkeypatch.setattr(kin, "_allocated", lambda: pytest.fail("allocated"))
    kin.learn_own_pid(lambda: {os.getpid(): None, 900_001: None})
    kin.learn_own_pid(dict)


@given(st.text(alphabet="0123456789, x-", max_size=30))
def test_numbers_handed_down_in_any_form_never_crash(text):
    before = os.environ.get(kin.GPU_PIDS)
    os.environ[kin.GPU_PIDS] = text
    try:
        assert os.getpid() in kin.own_pids()
    finally:
        if before is None:
            del os.environ[kin.GPU_PIDS]
        else:
            os.environ[kin.GPU_PIDS] = before


# -- none at all ----------------------------------------------------------------------------------


def fake_torch(monkeypatch, *, cuda="13.0", available=False, warn=None):
    def is_available():
        if warn:
            import warnings

            warnings.warn(warn, stacklevel=1)
        return available

    torch = SimpleNamespace(
        __version__="2.11.0",
        version=SimpleNamespace(cuda=cuda, hip=None),
        cuda=SimpleNamespace(is_available=is_available),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)


def fake_driver(monkeypatch, nvml):
    monkeypatch.setattr(card, "nvml", lambda: nvml)


def test_a_torch_without_cuda_is_the_reason(monkeypatch):
    fake_torch(monkeypatch, cuda=None)
    assert machine.why_no_gpu() == "torch 2.11.0 is built without CUDA"
    assert machine.current_gpu() is None
    assert machine.describe() == "no GPU: torch 2.11.0 is built without CUDA"


def test_no_torch_is_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert machine.why_no_gpu().startswith("torch is not installed")


def test_no_driver_is_the_reason(monkeypatch):
    fake_torch(monkeypatch)
    fake_driver(monkeypatch, None)
    assert machine.why_no_gpu() == "no NVIDIA driver found, or it shows no device"


def test_a_hidden_gpu_is_the_reason(monkeypatch):
    fake_torch(monkeypatch)
    fake_driver(monkeypatch, FakeNvml({f"GPU-{UUID}": h200()}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine.why_no_gpu() == "CUDA_VISIBLE_DEVICES='' hides the 1 GPUs that the driver shows"
    assert not machine.gpu_present()


def test_an_old_driver_is_the_reason_in_torchs_words(monkeypatch):
    fake_torch(monkeypatch, warn="The NVIDIA driver on your system is too old")
    fake_driver(monkeypatch, FakeNvml({f"GPU-{UUID}": h200()}))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.why_no_gpu().endswith(
        "driver shows: The NVIDIA driver on your system is too old"
    )
    assert machine.gpu_present()


def test_there_is_no_reason_where_there_is_a_gpu(monkeypatch):
    fake_torch(monkeypatch, available=True)
    assert machine.why_no_gpu() == ""


# -- the lock -------------------------------------------------------------------------------------


def test_one_gpu_has_one_lock_whatever_its_index(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu.tempfile, "gettempdir", lambda: str(tmp_path))
    assert machine.lock_path(f"GPU-{UUID}") == machine.lock_path(f"GPU-{UUID}")
    assert machine.lock_path(f"GPU-{UUID}") != machine.lock_path("GPU-another")
    assert machine.lock_path(f"GPU-{UUID}").parent == tmp_path


def test_a_second_process_waits_for_the_lock(tmp_path, monkeypatch):
    from filelock import Timeout

    monkeypatch.setattr(gpu.tempfile, "gettempdir", lambda: str(tmp_path))
    with machine.device_lock("GPU-1"):
        with pytest.raises(Timeout):
            machine.device_lock("GPU-1", timeout_s=0.01).acquire()
        machine.device_lock("GPU-2", timeout_s=0.01).acquire().lock.release()
