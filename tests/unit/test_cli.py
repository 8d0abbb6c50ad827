import json
import re

import pytest
import tallystick
from tallystick import _doctor, cli, methods


def run(capsys, *arguments):
    code = cli.main(arguments)
    return code, *capsys.readouterr()


def test_methods_are_filtered_and_printed_as_json(capsys):
    code, out, _ = run(capsys, "methods", "--mark", "verified", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["name"] for row in rows] == [row.name for row in methods.table() if row.mark == "verified"]


def test_methods_by_a_row_of_the_catalogue(capsys):
    row = next(row for row in methods.table() if row.name == "gigpo")
    code, out, _ = run(capsys, "methods", "--seed-id", row.seeds[0])
    assert code == 0
    assert any(re.match(rf"gigpo +{row.mark} +credit ", line) for line in out.splitlines())
    assert run(capsys, "methods", "--seed-id", "none-such") == (0, "", "")


def test_an_error_of_our_tree_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "site-packages" / "tallystick" / "cli.py"))
    code, out, err = run(capsys, "bench")
    assert (code, out) == (2, "")
    assert err == (
        "tallystick bench: the benchmarks and their peers live in a source checkout: run `make bench` there\n"
    )


def test_a_command_is_required(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([])
    assert stopped.value.code == 2


def test_a_new_run_and_one_that_goes_on_are_not_asked_for_at_once(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["train", "--out", "one", "--resume", "two"])
    assert stopped.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_ctrl_c_is_one_line(capsys, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(_doctor, "report", interrupted)
    assert run(capsys, "doctor") == (130, "", "tallystick doctor: stopped\n")


def test_doctor_finds_java_where_the_games_do(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'of this home' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert any(re.match("java +of this home$", line) for line in _doctor.report().splitlines())


def test_doctor_names_what_is_live_and_what_is_missing(capsys, monkeypatch):
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert tallystick.__version__ in out
    assert f"{tallystick.num_threads()} of" in out
    present = _doctor.version
    monkeypatch.setattr(_doctor, "version", lambda name: None if name in ("ray", "rich") else present(name))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    lines = _doctor.report().splitlines()
    assert any(
        line.startswith("[ray]") and line.endswith("missing ray: pip install 'tallystick[ray]'") for line in lines
    )
    assert any(line.startswith("[lab]") and "missing rich: pip install 'tallystick[lab]'" in line for line in lines)
    assert any(line.startswith("java") and "not found" in line for line in lines)
