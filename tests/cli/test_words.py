"""What the package says in words of Python comes out of the shell in words of the shell."""

import ast
from pathlib import Path

from skactive import campaign as package
from skactive.cli import _in_shell, _parse

OPTIONS = {"start": "c.db --pool pool.csv --id id --target kind", "ask": "c.db", "tell": "c.db a.csv", "status": "c.db"}
PARAMETERS = ("frame", "path", "id", "target", "ids", "labels", "model", "query", "limits")


def in_shell(command, said):
    return _in_shell(said, command, vars(_parse(command, OPTIONS[command].split())))


def said_by_the_package():
    """All that errors and warnings of campaigns begin with, with names in the place of values."""
    for path in sorted(Path(package.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"CampaignError", "warn"} and node.args:
                parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else [node.args[0]]
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


def test_no_message_of_a_campaign_names_a_parameter_of_python():
    messages = set(said_by_the_package())
    assert len(messages) > 40
    texts = [in_shell(command, message) for command in OPTIONS for message in messages]
    assert [text for text in texts if any(f"`{name}`" in text for name in PARAMETERS)] == []


def test_parameters_become_options():
    for command, said, words in [
        ("start", "`score`='variance' is not for it.", "--score 'variance' is not for it."),
        ("start", "`labels` must hold labels.", "--labels must hold labels."),
        ("ask", "`max_per_group` must leave `n_instances`=5 rows.", "--max-per-group must leave -n 5 rows."),
        ("ask", "`limits.groups` must be a column of the table", "--group-by must be a column of the table"),
        ("ask", "`frame`: no file\n matches x", "the table: no file matches x"),
        ("tell", "`withdraw` it: a mark in the column `skip`.", "`skactive withdraw` it: a mark in the column `skip`."),
    ]:
        assert in_shell(command, said) == words
