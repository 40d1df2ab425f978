"""The dashboard's layout, as W&B's own package would send it, and what is said without W&B."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from seq2seq.cli import dashboard as command
from seq2seq.dashboard import SECTIONS, make_workspace


def test_the_workspace_has_the_sections_and_their_panels_in_order():
    sent = make_workspace("me", "seq2seq")._to_model().model_dump(by_alias=True)
    bank = sent["spec"]["section"]["panelBankConfig"]["sections"]
    assert [section["name"] for section in bank] == list(SECTIONS)
    assert {"Quality", "Loss", "Optimisation", "Throughput", "Samples"} <= set(SECTIONS)
    assert sent["spec"]["section"]["settings"]["xAxis"] == "trainer/global_step"
    assert (sent["entity"], sent["project"]) == ("me", "seq2seq")
    for section, panels in zip(bank, SECTIONS.values(), strict=True):
        assert section["isOpen"]
        for panel, expected in zip(section["panels"], panels, strict=True):
            assert_shows(panel, expected)


def assert_shows(panel: dict, expected) -> None:
    kinds = {"curves": "Run History Line Plot", "media": "Media Browser", "table": "Weave"}
    assert panel["viewType"] == kinds[expected.kind]
    config = panel["config"]
    if expected.kind == "table":
        assert f"'{expected.keys[0]}'" in str(config)
    elif expected.kind == "media":
        assert config["mediaKeys"] == list(expected.keys)
    else:
        assert config["metrics"] == list(expected.keys)
        assert config["metricRegex"] == expected.pattern
        assert config["chartTitle"] == expected.title
        assert config["xAxis"] == "trainer/global_step"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the command without W&B; gives its exit code, output and errors."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_ENTITY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dashboard", *options])
        try:
            command.main()
        except SystemExit as stop:
            return int(stop.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


def test_a_dry_run_says_what_there_would_be(run):
    code, printed, errors = run("--dry-run")
    assert (code, errors) == (0, "")
    for name, panels in SECTIONS.items():
        assert f"{name}\n" in printed
        for panel in panels:
            assert panel.title in printed
    assert printed.endswith("nothing was sent (--dry-run)\n")


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({}, "no key is configured (WANDB_API_KEY, wandb login)"),
        ({"WANDB_MODE": "offline"}, "WANDB_MODE=offline keeps all from being sent"),
        (
            {"WANDB_API_KEY": "x" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"},
            "127.0.0.1:9 cannot be reached",
        ),
        ({"WANDB_BASE_URL": "localhost:8080"}, "WANDB_BASE_URL=localhost:8080 is not an address"),
        ({"WANDB_BASE_URL": "http://x:99999"}, "WANDB_BASE_URL=http://x:99999 is not an address"),
    ],
)
def test_without_w_and_b_it_says_why_and_what_it_would_have_made(variables, why, run, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, printed, errors = run()
    assert code == 1
    assert "Throughput\n" in printed
    assert errors.startswith(f"error: no dashboard was made: {why}")
    assert ". W&B can only show runs that were uploaded" in errors
    assert "wandb sync" in errors
    assert errors.count("\n") == 1


def test_a_refusal_of_the_server_is_one_message(run, monkeypatch):
    def refuse(entity, project):
        made = make_workspace(entity, project)
        object.__setattr__(made, "save", lambda: (_ for _ in ()).throw(ValueError("no such one")))
        return made

    monkeypatch.setattr(command, "make_workspace", refuse)
    monkeypatch.setattr(command, "unavailable", lambda: None)
    code, _, errors = run("--entity", "me", "--project", "none")
    assert code == 1
    assert "W&B did not take the dashboard of project none: no such one" in errors


def test_a_key_without_a_user_and_an_empty_project_are_one_message(run, monkeypatch):
    monkeypatch.setattr(command, "unavailable", lambda: None)
    monkeypatch.setattr("wandb.Api", lambda: SimpleNamespace(default_entity=None))
    code, printed, errors = run()
    assert (code, printed) == (1, "")
    assert errors == (
        "error: this key belongs to no user or team: give --entity NAME\n"
    )
    code, _, errors = run("--project", "", "--dry-run")
    assert code == 2
    assert errors.startswith("error: --project is empty")


def test_a_missing_package_is_one_message(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    monkeypatch.setitem(sys.modules, "wandb_workspaces.reports.v2", None)
    code, _, errors = run("--dry-run")
    assert code == 1
    assert "pip install -e '.[dashboard]'" in errors
