"""``python -m experiments``: what is finished is written without training, errors are one line."""

import pytest
from made_up_results import made_up_results

from experiments.__main__ import main
from experiments.paper.plan import TABLES, cells_of, targets
from experiments.paper.results import pack
from experiments.peers.run import PEERS

PLACES = 52


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Table 12 finished under both protocols, packed as results are kept."""
    folder = tmp_path_factory.mktemp("kept") / "results"
    pack(folder, made_up_results(cells_of("table12")).values())
    return folder


@pytest.fixture
def ran(capsys):
    """Run a command line and return what it printed."""

    def run(*words):
        main([str(word) for word in words])
        return capsys.readouterr().out

    return run


def finished(results, out, target):
    return ("reproduce", target, "--results", results, "--out", out, "--finished-only")


def test_a_table_from_kept_results(results, tmp_path, ran):
    before = {path.name: path.read_bytes() for path in results.iterdir()}
    said = ran(*finished(results, tmp_path / "out", "table12"))
    first, *_, last = said.splitlines()
    assert first == "Table 12. Scenario III, regression"
    assert last == f"page: {tmp_path / 'out' / 'page.md'}"
    # What the paper has for SBP stands beside ours.
    assert "| Crime, MAE ≤ 0.12 | SP | racepctblack | SBP | **0.225 (0.007)** | " in said
    for name in ("page.md", "tables/table12.csv", "figures/figure7.png"):
        assert (tmp_path / "out" / name).is_file()
    assert {path.name: path.read_bytes() for path in results.iterdir()} == before


def test_what_is_not_finished_is_said(results, tmp_path, ran):
    page = tmp_path / "out" / "page.md"
    said = ran(*finished(results, tmp_path / "out", "figure1"))
    assert said == f"Figure 1. Scenario I, independence: not run\npage: {page}\n"
    assert not (tmp_path / "out" / "figures" / "figure1.png").exists()
    picture = tmp_path / "out" / "figures" / "figure7.png"
    said = ran(*finished(results, tmp_path / "out", "figure7"))
    assert said == f"Figure 7. Scenario III: {picture}\npage: {page}\n"
    assert picture.is_file()
    said = ran(*finished(results, tmp_path / "out", "all"))
    assert f"of {PLACES} places (4 of them are run)." in said.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("tabel2",), ("target", "'tabel2'", "did you mean 'table2'?")),
        (("table2", "--finished-only", "--results", "nowhere"), ("results", "'nowhere'")),
        (("table2", "--workers", "0"), ("workers", "at least 1", "got 0")),
        (("table2", "--workers", "0", "--finished-only"), ("workers", "at least 1", "got 0")),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(words, parts, tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        ran("reproduce", *words)
    message = str(ended.value)
    assert message.startswith("error: ") and "\n" not in message
    assert all(part in message for part in parts)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_folder_is_named(results, tmp_path, ran):
    records = tmp_path / "records.json"
    for text, part in (
        ((results / "records.json").read_text("utf-8"), "'snapshots.parquet' beside it"),
        ("[1,", "line 1 column 4"),
    ):
        records.write_text(text, "utf-8")
        with pytest.raises(SystemExit) as ended:
            ran(*finished(tmp_path, tmp_path / "out", "table12"))
        assert f"'{records}'" in str(ended.value) and part in str(ended.value)
        assert not (tmp_path / "out").exists()


def test_results_of_another_size_are_not_mixed(results, tmp_path, ran):
    with pytest.raises(SystemExit, match="full run, got a quick one"):
        ran("reproduce", "table12", "--results", results, "--out", tmp_path, "--quick")


def test_help_names_what_can_be_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert "table2 ... table12, figure1 ... figure11, scenario1" in words
    assert set(TABLES) | {"all", "ours", "rivals", "deviations"} <= set(targets())
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in ("reproduce", "boosting", "peers", "theory", "pages"))


def test_a_peer_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["peers", "--only", "plane"])
    assert "plain" in capsys.readouterr().err
    assert set(PEERS) == {"plain", "exponentiated_gradient", "fairgbm"}
