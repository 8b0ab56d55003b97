"""The examples run as a user runs them, and show what they claim to show."""

import csv
import importlib.util
import json
import re
import runpy
from pathlib import Path

import pytest
from sklearn.base import clone

from equipoise.datasets import make_synthetic

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Examples must not depend on the folder they are run from."""
    monkeypatch.chdir(tmp_path)


def output_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    return capsys.readouterr().out


def numbers_after(text: str, output: str) -> list[float]:
    """Numbers in the first line that starts with ``text``, behind it."""
    (line, *_) = [line for line in output.splitlines() if line.strip().startswith(text)]
    rest = line.strip().removeprefix(text)
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", rest)]


def test_every_example_has_a_test():
    tested = {"fair_regression.py", "fair_representation.py"}
    tested |= {"grid_search.py", "own_training_loop.py", "audit_scores.py"}
    tested |= {"choose_on_the_frontier.py", "boosted_frontier.py"}
    tested |= {"log_to_mlflow.py", "log_to_wandb.py"}
    assert {path.name for path in FOLDER.glob("*.py")} == tested


def test_own_training_loop(capsys):
    output = output_of("own_training_loop.py", capsys)
    utility, best, fair = numbers_after("AUC", output)
    assert fair < best
    assert fair - 0.05 < utility < best
    for column in ("age", "group"):
        mitigated, plain = numbers_after(f"KS-GSP {column}:", output)
        assert mitigated < 0.4 * plain


def test_the_loop_adds_five_marked_lines():
    source = (FOLDER / "own_training_loop.py").read_text("utf-8")
    marks = re.findall(r"# \((\d)\)", source)
    assert marks == ["1", "2", "3", "4", "5"]


def test_fair_regression(capsys):
    output = output_of("fair_regression.py", capsys)
    plain = numbers_after("0 ", output)  # MAE, R2, KS-GSP, dCor
    mitigated = numbers_after("0.9 ", output)
    assert mitigated[0] > plain[0] and mitigated[1] < plain[1]
    assert mitigated[2] < 0.75 * plain[2] and mitigated[3] < 0.75 * plain[3]


def test_fair_representation(capsys):
    output = output_of("fair_representation.py", capsys)
    rows = re.findall(r"^(0\.?\d*) +(.*?)  +([\d.]+) +([\d.]+)$", output, flags=re.MULTILINE)
    linear = {(float(s), question): float(value) for s, question, value, _ in rows}
    trees = {(float(s), question): float(value) for s, question, _, value in rows}
    assert len(rows) == 6
    for question in ("sex", "age above 37"):
        assert linear[0.9, question] < 0.6 < linear[0.0, question]
        # What the example is honest about: trees find more than a linear probe does.
        assert linear[0.9, question] < trees[0.9, question] < trees[0.0, question]
    assert trees[0.9, "income (wanted)"] > 0.7


def test_grid_search(capsys):
    output = output_of("grid_search.py", capsys)
    strengths = (0.0, 0.5, 0.9)
    table = {s: numbers_after(f"{s} ", output) for s in strengths}
    budget, chosen = re.search(
        r"within KS-GSP <= ([\d.]+): \{'model__strength': ([\d.]+)\}", output
    ).groups()
    within = [s for s in strengths if table[s][1] <= float(budget)]
    assert 0.0 not in within
    assert float(chosen) == max(within, key=lambda s: table[s][0])


def test_audit_scores(capsys):
    output = output_of("audit_scores.py", capsys)
    assert "age" in output and "race" in output and "sex" in output
    written = Path("demo-output")
    answer = json.loads((written / "audit.json").read_text("utf-8"))
    with (written / "audit.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(answer["rows"])
    # A logistic regression on Adult that never heard of fairness depends on sex, without doubt.
    (by_sex,) = [r for r in table if (r["metric"], r["attribute"]) == ("gap", "sex")]
    assert float(by_sex["low"]) > 0.3
    assert float(by_sex["p_value"]) <= 0.001
    assert (written / "audit.png").read_bytes().startswith(b"\x89PNG")


def test_choose_on_the_frontier(capsys):
    output = output_of("choose_on_the_frontier.py", capsys)
    with Path("demo-output/frontier.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 5 * 2 * 3  # strengths, seeds, snapshots
    within = [
        float(row["utility"])
        for row in table
        if float(row["gap age"]) <= 0.2 and float(row["gap sex"]) <= 0.15
    ]
    validation = re.search(r"  AUC [\d.]+ \(.*?\),\s+([\d.]+) on\s+validation", output)
    assert validation is not None
    assert float(validation.group(1)) == pytest.approx(max(within), abs=1e-4)
    plain = numbers_after("AUC", output.partition("Plain training")[2])
    assert plain[0] > max(within) and plain[1] > 0.5 and plain[2] > 0.25  # AUC, gaps by age and sex
    assert "If no model is within the limits, the error names the nearest:\n  " in output


def test_boosted_frontier(capsys):
    output = output_of("boosted_frontier.py", capsys)
    best = {}
    for family, snapshots in (("network", 9), ("boosting", 18)):
        found, kept, best[family] = numbers_after(f"{family}:", output)
        assert found == snapshots and 0 < kept <= found
        assert best[family] > 0.85
    chosen = re.findall(r"^  ([\d.]+): AUC ([\d.]+), (network|boosting) \(", output, re.MULTILINE)
    utilities = [float(utility) for _, utility, _ in chosen]
    assert [float(limit) for limit, _, _ in chosen] == [0.15, 0.2, 0.4, 0.7]
    assert {family for _, _, family in chosen} == {"network", "boosting"}
    assert utilities == sorted(utilities) and utilities[-1] == max(best.values())
    _, _, selection = output.partition("The best with at most 0.15:\n\n")
    assert re.match(r"age: (not )?within the limit of 15 points", selection)
    assert re.search(r"^Snapshot \d+ \(", selection, re.MULTILINE)


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_loggers_that_are_not_installed_are_asked_for(name):
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed here")
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(FOLDER / f"log_to_{name}.py"), run_name="__main__")
    assert re.fullmatch(
        rf"this example needs \w+, which is not installed; pip install {name}",
        str(stopped.value.code),
    )


class Calls:
    """In the place of a logger: remembers what it was told, as the loggers' methods are called."""

    def __init__(self):
        self.told = []

    def log_metrics(self, metrics, step):
        self.told.append((step, metrics))

    def log(self, data, step):
        self.told.append((step, data))


def trained_with(example, network=None, **options):
    """A small frontier fitted with the callback of an example, and what the logger was told."""
    logger = Calls()
    data = make_synthetic(600, random_state=5)
    small = {"hidden": (8,), "critic_hidden": (8,), "batch_size": 50, **(network or {})}
    frontier = clone(example["FRONTIER"]).set_params(evaluate_every=10, **options)
    frontier.set_params(**{f"estimator__{name}": value for name, value in small.items()})
    callback = example["log_to"](logger)
    return frontier.fit(data.X, data.y, sensitive_features=data.A, callback=callback), logger.told


def test_mlflow_is_told_every_number_of_every_evaluation():
    example = runpy.run_path(str(FOLDER / "log_to_mlflow.py"), run_name="example")
    frontier, told = trained_with(example, {"iterations": 30})
    assert [step for step, _ in told] == [10, 20, 30]
    last = frontier.table().query("iteration == 30").set_index("member")
    expected = {
        f"{name}/member {member}": value
        for name in ("utility", "threshold", *(c for c in last if c[:2] in ("ga", "KS", "SP")))
        for member, value in last[name].dropna().items()
    }
    for name in ("task", "penalty"):
        losses = getattr(frontier.history_, name)[-1]
        expected |= {f"{name}/member {member}": loss for member, loss in enumerate(losses)}
    assert told[-1][1] == expected
    # What MLflow takes as the name of a metric.
    assert all(re.fullmatch(r"[/\w.\- ]*", name) for name in expected)


def test_wandb_is_told_and_training_ends_when_nothing_improves():
    example = runpy.run_path(str(FOLDER / "log_to_wandb.py"), run_name="example")
    # Without a penalty, at a large rate, a network soon learns its 360 rows by heart.
    options = {"strengths": (0.0,), "seeds": 1, "metrics": ["KS-GSP"]}
    frontier, told = trained_with(example, {"learning_rate": 0.02}, **options)
    new = [numbers["new_on_a_front"] for _, numbers in told]
    patience = example["PATIENCE"]
    assert len(told) < 200 and new[-patience:] == [0] * patience
    assert all(any(new[n : n + patience]) for n in range(len(new) - patience))
    assert frontier.history_.iterations.tolist() == [step for step, _ in told]
    assert all(re.fullmatch(r"[a-zA-Z_]\w*", name) for name in told[0][1])
