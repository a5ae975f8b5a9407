"""The pages say only what is true: commands run, links lead somewhere, settings exist."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cortex.home import Home
from cortex.settings.keys import setting_keys
from cortex.version import __version__
from harness import PATIENCE_S, ROOT, Sandbox

PAGES = sorted(
    path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if ".venv" not in path.parts
)
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def readme_commands() -> list[str]:
    """Return the `./cortex` lines of the README, in order, comments cut off."""
    blocks = [
        body for kind, body in FENCE.findall((ROOT / "README.md").read_text()) if kind == "sh"
    ]
    lines = [line.split("  #")[0].strip() for body in blocks for line in body.splitlines()]
    return [line for line in lines if line.startswith("./cortex")]


@pytest.mark.e2e
def test_commands_of_the_readme_run_as_written(box: Sandbox) -> None:
    commands = readme_commands()
    assert len(commands) >= 8
    for command in commands:
        following = command.endswith("-f")
        process = subprocess.Popen(
            shlex.split(command),
            cwd=ROOT,
            env=box.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if following:  # `logs -f` ends when the person says so
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
            process.terminate()
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert following or process.returncode == 0, f"{command}: {stderr}"
    assert box.daemon_pid() is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_named_in_a_page_exist(page: Path) -> None:
    known = {(key.section, key.name) for key in setting_keys()}
    for section, name in re.findall(r"`\[(\w+)\] (\w+)[ `=]", page.read_text()):
        assert (section, name) in known, f"{page.name} names [{section}] {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_a_page_exist(page: Path) -> None:
    for name in re.findall(r"`((?:tests|benchmarks|scripts|docs)/[\w./-]+)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_changelog_has_a_place_for_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{__version__}]" in text or "## [Unreleased]" in text


def test_homes_in_the_readme_are_the_homes_we_use(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text()
    for platform in ("linux", "darwin"):
        monkeypatch.setattr("sys.platform", platform)
        home = Home.from_environ({"HOME": "/home/me"})
        assert home.root.replace("/home/me", "~") in text
