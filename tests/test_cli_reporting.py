"""Tables and the line that is shown while something runs."""

from __future__ import annotations

import io
import logging
import re
import threading

import pytest
from rich.console import Console

from streamfit.reporting import tables
from streamfit.reporting import waiting as waiting_module
from streamfit.reporting.waiting import waiting


def test_records_leave_out_columns_without_values(capsys):
    tables.print_records([{"row": 3, "id": None, "score": 0.25}, {"row": 10, "id": None, "score": None}])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["row", "score"], ["3", "0.25"], ["10"]]


def test_no_records_print_nothing(capsys):
    tables.print_records([])
    assert capsys.readouterr().out == ""


def test_brackets_are_no_markup_and_long_lines_are_kept_in_a_pipe(capsys):
    path = "/data/[bold]" + "x" * 150
    tables.print_facts({"path": path}, title="[red]")
    title, line = capsys.readouterr().out.splitlines()
    assert title.rstrip() == "[red]"
    assert line.split() == ["path", path]


class Rows:
    """Tells that 100 rows more are done each time it is asked, from 1,000 on; knows nothing the first time."""

    def __init__(self):
        self.n_calls = 0
        self.asked_enough = threading.Event()

    def __call__(self):
        self.n_calls += 1
        if self.n_calls == 5:
            self.asked_enough.set()
        return None if self.n_calls == 1 else (1_000 + 100 * self.n_calls, 2_000)


def test_rows_are_drawn_on_a_terminal_and_gone_at_the_end(monkeypatch):
    monkeypatch.setattr(waiting_module, "_DRAW_SECONDS", 0.05)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    rows = Rows()
    with waiting("ingest", done=rows, unit_nbytes=lambda: 1e6, console=console):
        assert rows.asked_enough.wait(60)
    assert re.search(r"1,[3-9]00 rows \([6-9]\d%\), [\d,]+ rows/s, [\d,]+ MB/s, \d s left", screen.getvalue())
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K")


def test_rows_are_logged_where_there_is_no_terminal(monkeypatch, caplog):
    monkeypatch.setattr(waiting_module, "_LOG_SECONDS", 0.01)
    console = Console(file=io.StringIO(), force_terminal=False)
    rows = Rows()
    with caplog.at_level(logging.INFO, logger="streamfit"), waiting("ingest", done=rows, console=console):
        assert rows.asked_enough.wait(60)
    # The first rows were there before: they are no speed.
    assert caplog.messages[1] == "ingest: 1,200 rows (60%)."
    assert re.fullmatch(r"ingest: 1,300 rows \(65%\), [\d,]+ rows/s, \d s left\.", caplog.messages[2])
    assert console.file.getvalue() == ""


def test_nothing_is_left_of_rows_whose_number_is_not_known():
    rows = waiting_module.Counter()
    assert rows.last is None
    rows(50, None)
    so_far = {"unit": "rows", "n_new": 40, "seconds": 2.0}
    assert waiting_module._so_far(rows.last, **so_far, nbytes=None) == "50 rows, 20 rows/s"
    assert waiting_module._so_far((50, 250), **so_far, nbytes=4e6) == "50 rows (20%), 20 rows/s, 80 MB/s, 10 s left"
    assert waiting_module._so_far((250, 250), **so_far, nbytes=None) == "250 rows (100%), 20 rows/s, 0 s left"


def test_a_call_that_tells_no_rows_is_logged_too(monkeypatch, caplog):
    monkeypatch.setattr(waiting_module, "_LOG_SECONDS", 0.01)
    logged = threading.Event()
    monkeypatch.setattr(caplog.handler, "filters", [lambda _: logged.set() or True])
    with caplog.at_level(logging.INFO, logger="streamfit"), waiting("score", console=Console(file=io.StringIO())):
        assert logged.wait(60)
    assert re.fullmatch(r"score: still running after \d+ s\.", caplog.messages[0])


def test_the_thread_ends_with_an_error():
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), waiting("fit", console=Console(file=io.StringIO())):
        raise ZeroDivisionError
    assert threading.active_count() == before
