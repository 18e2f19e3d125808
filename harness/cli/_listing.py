"""A list of records for a person: one line each where there is room, two where there is not."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from harness.cli._app import console, visible

_GAP = 2


def print_listing(titles: Sequence[str], rows: Sequence[Sequence[str]], *, first: int) -> None:
    """Print rows under their titles; ids are never broken, so that they can be copied.

    Args:
        titles: Of all columns.
        rows: Their cells; text of a model may be in them.
        first: How many columns stand in the first of two lines, where all of them do not fit into one.
    """
    out = console()
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(titles, *shown, strict=True)]
    if sum(widths) + _GAP * len(widths) <= out.width:
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
        for title in titles:
            table.add_column(title, no_wrap=True)
        for row in shown:
            table.add_row(*(Text(cell) for cell in row))
        out.print(table)
        return
    out.print(Text(_line(titles[:first], widths), style="bold"), soft_wrap=True)
    for row in shown:
        out.print(Text(_line(row[:first], widths)), soft_wrap=True)
        rest = " · ".join(cell for cell in row[first:] if cell)
        if rest:
            out.print(Text(f"  {rest}", style="dim"), soft_wrap=True)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=False))
    return (" " * _GAP).join(padded).rstrip()
