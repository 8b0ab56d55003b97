"""Files scored with boosted trees: the scores are the model's own, notes say what LightGBM does."""

import numpy as np
import pandas as pd
import pytest

from equipoise import FairBoostingClassifier, FairBoostingRegressor
from equipoise.runs.scoring import score_file
from tests.composing import composed

ROWS = 400
TREES = {"strength": 0, "rounds": 15, "random_state": 0}
FEATURES = ["hours", "member", "gap", "job", "risk"]
RISKS = ["low", "mid", "high"]


def people(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "hours": rng.normal(40, 10, n).round(2),
            "member": rng.random(n) < 0.5,
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "job": rng.choice(["cook", "nurse", "clerk"], n),
            "risk": pd.Categorical(rng.choice(RISKS, n), RISKS, ordered=True),
        }
    )


def outcome(frame):
    """What every column tells something about, missing values of ``gap`` included."""
    risk = frame["risk"].cat.codes
    told = frame["hours"] / 10 + 2 * frame["member"] + frame["gap"].fillna(2) - risk
    return told + 2 * (frame["job"] == "cook") + np.random.default_rng(9).normal(size=len(frame))


@pytest.fixture(scope="module")
def model():
    frame = people()
    y = outcome(frame)
    return FairBoostingClassifier(**TREES).fit(frame[FEATURES], y > y.median())


def scores(model, frame):
    return model.predict_proba(frame[FEATURES])[:, 1]


@pytest.mark.parametrize("rows", [65_536, 64])
def test_scores_are_those_of_the_model(tmp_path, model, rows):
    frame = people(seed=1)
    frame.iloc[:, ::-1].to_parquet(tmp_path / "new.parquet")
    out = tmp_path / "s.parquet"
    report = score_file(model, tmp_path / "new.parquet", out, threshold=0.4, rows=rows)
    found = pd.read_parquet(out)
    np.testing.assert_allclose(found["score"], scores(model, frame), rtol=1e-12)
    assert found["decision"].tolist() == (scores(model, frame) > 0.4).astype(int).tolist()
    assert (report.scored, report.problems, report.notes) == (ROWS, (), ())


def test_what_the_trees_have_not_seen_is_counted_and_what_is_said_of_it_is_true(tmp_path, model):
    frame = people(seed=1).astype({"member": object, "risk": object})
    frame.loc[:1, "hours"] = None
    frame.loc[2, "member"] = None
    frame.loc[3:5, "gap"] = None  # known from fit
    frame.loc[6, "job"] = None
    frame.loc[7:8, "job"] = "pilot"
    frame.loc[9, "risk"] = None
    frame.loc[10, "risk"] = "unheard of"
    frame.to_csv(tmp_path / "new.csv", index=False)
    report = score_file(model, tmp_path / "new.csv", tmp_path / "s.csv", rows=64)
    never = "where every row had one at fit"
    assert report.notes == (
        f"rows without a value in 'hours', {never}: 2; LightGBM treats it as 0",
        f"rows without a value in 'member', {never}: 1; LightGBM treats it as 0",
        f"rows without a value in 'job', {never}: 1; they are scored as having no category",
        f"rows without a value in 'risk', {never}: 1; LightGBM treats it as the lowest category",
        "rows with a category in 'job' not seen at fit, such as 'pilot': 2; they are treated as "
        "missing",
        "rows with a category in 'risk' not seen at fit, such as 'unheard of': 1; LightGBM treats "
        "it as the lowest category",
    )
    # The same file with what is said to stand in: the scores are the same.
    frame.loc[:1, "hours"] = 0.0
    frame.loc[2, "member"] = False
    frame.loc[7:8, "job"] = None
    frame.loc[9:10, "risk"] = "low"
    frame.to_csv(tmp_path / "stand-ins.csv", index=False)
    score_file(model, tmp_path / "stand-ins.csv", tmp_path / "t.csv", rows=64)
    found, expected = (pd.read_csv(tmp_path / name) for name in ("s.csv", "t.csv"))
    assert found["problem"].isna().all()
    np.testing.assert_array_equal(found["score"], expected["score"])
    known = people(seed=1).drop(index=range(11))
    np.testing.assert_allclose(found["score"][11:], scores(model, known), rtol=1e-12)


def test_a_row_that_can_not_be_scored_is_reported_not_dropped(tmp_path, model):
    frame = people(seed=1).astype({"hours": object})
    frame.loc[3, "hours"] = "forty"
    frame.to_csv(tmp_path / "new.csv", index=False)
    report = score_file(model, tmp_path / "new.csv", tmp_path / "s.csv")
    assert (report.rows, report.scored) == (ROWS, ROWS - 1)
    assert report.problems == ((4, "column 'hours' must hold a number, got 'forty'"),)


@pytest.mark.filterwarnings("ignore:X has the sensitive column:UserWarning")
def test_predictions_of_numbers_and_averages_of_seeds(tmp_path):
    frame = people()
    frame.to_parquet(tmp_path / "new.parquet")
    y = outcome(frame)
    regressor = FairBoostingRegressor(**TREES).fit(frame[FEATURES], y)
    frontier = composed(
        predictor="boosting",
        boosting={"rounds": 20, "batch_size": 64},
        evaluate_every_rounds=5,
        strengths=(0.9,),
        seeds=2,
        ensemble=True,
        task="regression",
        random_state=0,
    ).fit(frame[FEATURES], y, sensitive_features=frame[["job", "hours"]])
    averages = frontier.table().query("averaged == 2 and on_front")
    average = frontier.fitted_curve().model(averages.index[0])
    assert average.averaged_seeds_ == (0, 1)
    for model, out in ((regressor, tmp_path / "one.parquet"), (average, tmp_path / "two.parquet")):
        report = score_file(model, tmp_path / "new.parquet", out)
        found = pd.read_parquet(out)["score"]
        np.testing.assert_allclose(found, model.predict(frame[FEATURES]), rtol=1e-12)
        assert report.notes == ()
