"""What the package says in words of Python comes out of the shell in words of the shell."""

import ast
from pathlib import Path

import pandas as pd
import pytest

from skactive import campaign as package
from skactive.cli import _in_shell, _parse, main

OPTIONS = {
    "start": "c.db --pool pool.csv --id id --target kind",
    "ask": "c.db",
    "tell": "c.db a.csv",
    "status": "c.db",
}
PARAMETERS = ("frame", "path", "id", "target", "ids", "labels", "model", "query", "limits")


def said_by_the_package():
    """All that errors and warnings of campaigns begin with, with names in the place of values."""
    found = set()
    for path in sorted(Path(package.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"CampaignError", "warn"} and node.args:
                parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else [node.args[0]]
                found.add("".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts))
    return found


@pytest.mark.parametrize("command", OPTIONS)
def test_no_message_of_a_campaign_names_a_parameter_of_python(command):
    messages = said_by_the_package()
    assert len(messages) > 40
    options = vars(_parse(command, OPTIONS[command].split()))
    for message in messages:
        text = _in_shell(message, command, options)
        for name in PARAMETERS:
            assert f"`{name}`" not in text, message


@pytest.mark.parametrize(
    ("command", "said", "words"),
    [
        ("start", "`score`='variance' is not for it.", "--score 'variance' is not for it."),
        ("start", "`labels` must hold labels.", "--labels must hold labels."),
        ("ask", "`max_per_group` must leave `n_instances`=5 rows.", "--max-per-group must leave -n 5 rows."),
        ("ask", "`limits.groups` must be a column of the table", "--group-by must be a column of the table"),
        ("ask", "`frame`: no file\n matches x", "the table: no file matches x"),
        ("status", "`patience` must be positive.", "--patience must be positive."),
        ("tell", "a mark in the column `skip`.", "a mark in the column `skip`."),
    ],
)
def test_parameters_become_options(command, said, words):
    assert _in_shell(said, command, vars(_parse(command, OPTIONS[command].split()))) == words


def test_errors_and_notes_of_commands_name_options(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"id": ["a", "b", "c", "d"], "x": [1, 2, 3, 4], "kind": None})
    frame.to_csv("pool.csv", index=False)
    assert main(["start", "c.db", *OPTIONS["start"].split()[1:], "--first", "uniform", "--model", "logistic"]) == 0
    frame.assign(x=[1, 2, 3, 5]).to_csv("pool.csv", index=False)
    assert main(["ask", "c.db"]) == 2
    error = capsys.readouterr().err
    assert "the table must be the table of the campaign" in error
    assert "--take-changes" in error
    Path("a.csv").write_text("id,kind\na,moss\n")
    assert main(["tell", "c.db", "a.csv"]) == 2
    assert "--unasked.\n" in capsys.readouterr().err
    assert main(["tell", "none.db", "a.csv"]) == 2
    assert "`skactive start`" in capsys.readouterr().err
