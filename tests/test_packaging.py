"""The pins, the image and the project file agree with each other and with what is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import streamfit

ROOT = Path(__file__).parent.parent
CONSTRAINTS = (ROOT / "deploy/image/constraints.txt").read_text(encoding="utf-8")
PINS = [Requirement(line) for line in CONSTRAINTS.splitlines() if line and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DIRECT = [Requirement(text) for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]]
PYTHONS = ("3.11", "3.12", "3.13")


def pinned(python: str) -> dict[str, str]:
    """Version by name on one Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    chosen = [pin for pin in PINS if pin.marker is None or pin.marker.evaluate(environment)]
    names = [canonicalize_name(pin.name) for pin in chosen]
    assert len(names) == len(set(names)), "a package is pinned twice"
    return {name: next(iter(pin.specifier)).version for name, pin in zip(names, chosen, strict=True)}


def test_constraints_are_exact_pins_without_addresses_or_hashes():
    assert "://" not in CONSTRAINTS
    assert "--" not in CONSTRAINTS
    for pin in PINS:
        assert pin.url is None
        assert not pin.extras
        assert [spec.operator for spec in pin.specifier] == ["=="]


@pytest.mark.parametrize("python", PYTHONS)
def test_every_direct_dependency_is_pinned_inside_its_range(python):
    versions = pinned(python)
    for requirement in DIRECT:
        name = canonicalize_name(requirement.name)
        assert name in versions
        assert requirement.specifier.contains(versions[name])


def test_installed_versions_are_the_pinned_ones():
    expected = pinned(f"{sys.version_info.major}.{sys.version_info.minor}")
    different = {}
    for name, wanted in expected.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = "nothing"
        if installed != wanted:
            different[name] = f"{installed}, pinned {wanted}"
    assert not different


def test_classifiers_name_the_pythons_that_are_pinned():
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert tuple(named) == PYTHONS


def test_command_leads_to_main():
    from streamfit.__main__ import main

    assert PROJECT["scripts"] == {"streamfit": f"{main.__module__}:{main.__name__}"}


def test_version_is_told_by_a_fresh_process():
    done = subprocess.run(
        [sys.executable, "-m", "streamfit", "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == f"streamfit {streamfit.__version__}\n"


def test_image_runs_without_root_and_installs_the_pins():
    steps = [
        line.split(maxsplit=1)
        for line in (ROOT / "deploy/image/Dockerfile").read_text(encoding="utf-8").splitlines()
        if re.match(r"[A-Z]+ ", line)
    ]
    last = dict(steps)
    assert last["USER"] == "10001:10001"
    assert json.loads(last["ENTRYPOINT"]) == ["streamfit"]
    assert steps[0] == ["ARG", "BASE=python:3.11-slim"]
    copied = [path for instruction, value in steps if instruction == "COPY" for path in value.split()[:-1]]
    assert [path for path in copied if not (ROOT / path).exists()] == []
