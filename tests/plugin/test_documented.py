"""What the documentation and the workflows tell to type exists."""

import re
from pathlib import Path

import pytest

from kernelpin.claims import Claims
from kernelpin.cli import main
from kernelpin.kernel_name import FAMILIES

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "examples/**/*.md", ".github/workflows/*.yml", "tox.ini")
    for path in ROOT.glob(pattern)
)
named = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
COMMAND = re.compile(r"\bkernelpin ((?:show|diff|folds|record|baselines [a-z]+)\b)([^`\n#|]*)")


@pytest.fixture(scope="module")
def options(request):
    parser = request.config._parser
    return {name for group in parser._groups for it in group.options for name in it.names()}


@named
def test_each_option_of_pytest_exists(page, options):
    told = set(re.findall(r"--kernelpin-[a-z-]+[a-z]", page.read_text(encoding="utf-8")))
    assert told <= options


@named
def test_each_command_and_its_options_exist(page, capsys):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command, rest in COMMAND.findall(text):
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), "--help"])
        help_text = capsys.readouterr().out
        assert ended.value.code == 0, command
        ours = rest.split(" -- ")[0].split("…")[0]
        for flag in re.findall(r"(?<=\s)--?[a-z][a-z-]*", ours):
            assert re.search(rf"{flag}\b", help_text), f"kernelpin {command}: {flag}"


@named
def test_each_link_to_a_file_leads_somewhere(page):
    if page.suffix != ".md":
        return
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_page_for_newcomers_names_every_claim_and_every_family():
    told = (ROOT / "docs" / "your-own-tests.md").read_text()
    claims = [name for name in dir(Claims) if not name.startswith("_")]
    assert len(claims) > 10
    assert [name for name in claims if f".{name}(" not in told] == []
    assert [family for family in FAMILIES if f"`{family}`" not in told] == []
