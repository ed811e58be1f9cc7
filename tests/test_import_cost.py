"""What a fresh process imports: ``import streamfit`` and ``streamfit --help`` have to stay quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("sklearn", "pyod", "torch", "distributed", "zarr", "bokeh", "numba", "pandas", "pyarrow", "scipy", "dask")

STATEMENTS = {
    "import": "import streamfit",
    "face": "import streamfit; dir(streamfit); streamfit.errors.BudgetError",
    "options": "import streamfit; streamfit.BatchWise(batch_size=10), streamfit.StreamOptions()",
    "help": "from streamfit.cli.app import app; app(['--help'], standalone_mode=False)",
    "version": "from streamfit.cli.app import app; app(['--version'], standalone_mode=False)",
    "fit-help": "from streamfit.cli.app import app; app(['fit', '--help'], standalone_mode=False)",
    "detectors": "from streamfit.cli.app import app; app(['detectors'], standalone_mode=False)",
}


@pytest.mark.parametrize("statement", [pytest.param(code, id=name) for name, code in STATEMENTS.items()])
def test_no_heavy_package_is_imported(statement):
    report = f"{statement}\nimport sys\nprint('imported', *sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported"


def test_every_public_name_is_there():
    import streamfit

    missing = [name for name in streamfit.__all__ if not hasattr(streamfit, name)]
    assert not missing
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = streamfit.nothing
