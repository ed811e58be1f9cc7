"""The code on the front page runs, as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_python_and_console_blocks_run(tmp_path):
    # One process, like a reader's session; as a file, since processes import the main module again.
    script = tmp_path / "readme.py"
    code = blocks("python")
    assert len(code) >= 5
    # A cluster's processes import this file: everything that works has to stand behind the guard.
    indented = "\n".join("    " + line for block in code for line in block.splitlines())
    script.write_text(
        "if __name__ == '__main__':\n" + indented + "\n    assert detector.labels_.sum().compute() == 200\n",
        encoding="utf-8",
    )
    run([sys.executable, "-W", "error::DeprecationWarning:streamfit", str(script)], tmp_path)
    commands = [
        line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ streamfit")
    ]
    assert len(commands) >= 6
    (tmp_path / "features.zarr").rename(tmp_path / "first.zarr")
    for command in commands:
        run([sys.executable, "-m", *shlex.split(command, comments=True)], tmp_path)
    assert (tmp_path / "scores.npy").exists()


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
