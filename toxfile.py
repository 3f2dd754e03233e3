"""A tox runner whose environments share one installation.

tox ties an environment's folder to the environment's name, and reinstalls when another name
meets it: with `env_dir` alone, `tox run -e perf` after `-e tests` would fetch torch again.
"""

from __future__ import annotations

from tox.plugin import impl
from tox.tox_env.info import Info
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class _NamelessInfo(Info):
    """The record of what is installed, without the name of the environment that installed it."""

    def compare(self, value, section, sub_section=None):
        if section == "ToxEnv":
            value = {**value, "name": "shared"}
        return super().compare(value, section, sub_section)


class SharedRunner(VirtualEnvRunner):
    """A virtualenv that every environment with the same `env_dir`, deps and extras may use."""

    @staticmethod
    def id() -> str:
        return "kernelpin-shared"

    @property
    def cache(self) -> Info:
        return _NamelessInfo(self.env_dir)


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    register.add_run_env(SharedRunner)
