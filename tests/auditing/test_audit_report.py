"""What an audit says: table, JSON, words and figure carry the same findings."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise.auditing import audit

FAST = {"draws": 40, "permutations": 99}


def people(n=1200):
    """Decisions at 0.5 that favour men and the middle-aged; three people of a rare group."""
    rng = np.random.default_rng(7)
    A = pd.DataFrame(
        {
            "age": rng.integers(18, 78, n),
            "sex": rng.choice(["F", "M"], n),
            "race": np.where(np.arange(n) < 3, "rare", rng.choice(["p", "q"], n)),
        }
    )
    y = rng.integers(0, 2, n)
    scores = 0.3 * rng.random(n) + 0.25 * y + 0.2 * (A["sex"] == "M") + 0.004 * (A["age"] - 18)
    return scores.to_numpy(), y, A


@pytest.fixture(scope="module")
def found():
    return audit(*people(), threshold=0.5, **FAST)


def words(audited):
    """The summary as one line, so that wrapping does not matter."""
    return " ".join(str(audited).split())


def test_the_summary_names_notion_attribute_and_the_worst_off(found):
    said = words(found)
    assert said.startswith("Audit of 1,200 scores by age, sex, race Independence: ")
    frame = found.to_frame().set_index(["metric", "attribute", "group"])
    low, high = (frame.loc[("selection rate", "sex", sex), "value"] for sex in "FM")
    missed, hit = (frame.loc[("true positive rate", "sex", sex), "value"] for sex in "FM")
    youngest = found.to_frame().query("metric == 'selection rate' and attribute == 'age'").iloc[0]
    assert youngest["group"].startswith("18 to ")
    gap = frame.loc[("gap", "sex", "all rows")]
    parts = (
        f"{share(low)} of people with sex = F and {share(high)} of those with sex = M are selected",
        f"Among people with the positive outcome, {share(missed)} of people with sex = F and "
        f"{share(hit)} of those with sex = M are selected",
        f"{share(youngest['value'])} of people with age {youngest['group']} and",
        f"beyond chance at any threshold: {gap['where']}",
        f"With 95 % confidence no group differs from all others by more than "
        f"{share(gap['high']).removesuffix(' %')} points",
        "Outcome y: binary, positive is 1 (the other is 0). Decision: score > 0.5, as given. A "
        "high score is taken as favourable. Utility: AUC ",
    )
    assert [part for part in parts if part not in said] == []
    assert max(len(line) for line in str(found).splitlines()) <= 100
    assert " ".join(found.summary().split()) == said


def share(value):
    return f"{100 * value:.1f} %".replace(".0 %", " %")


def test_a_group_of_three_is_shown_flagged_and_not_ranked(found):
    assert "Too few rows to judge by themselves: race = rare (3 in, 1197 out)." in words(found)
    assert "Fewer than 30 rows, not ranked: rare (3)." in found.to_html()
    frame = found.to_frame()
    rare = frame[(frame["attribute"] == "race") & (frame["group"] == "rare")]
    assert set(rare["note"]) == {"fewer than 30 rows"}
    by_race = frame[(frame["metric"] == "KS-GSP") & (frame["attribute"] == "race")].iloc[0]
    assert by_race["note"].endswith("1 of 3 groups with fewer than 30 rows")
    crossed = frame[(frame["attribute"] == "sex x race") & (frame["metric"] == "mean score")]
    assert crossed["n"].sum() == 1200
    assert {"F, rare", "M, rare"} <= set(crossed["group"])


def test_a_low_score_can_be_the_favourable_one():
    scores, y, A = people()
    found = audit(scores, y, A[["sex"]], threshold=0.5, favourable="low", **FAST)
    said = words(found)
    assert "A low score is taken as favourable." in said
    worst = [(verdict.rates.measure, verdict.rates.worst.group) for verdict in found.verdicts]
    assert worst == [("selection rate", "sex = M"), ("false positive rate", "sex = M")]
    assert "Among people with the negative outcome, " in said
    assert "of those with sex = F are flagged" in said


def test_combinations_without_rows_are_listed():
    scores, y, A = people()
    A = A.assign(race=np.where(A["sex"] == "F", "p", A["race"]))
    found = audit(scores, y, A[["sex", "race"]], **FAST)
    frame = found.to_frame()
    empty = frame[frame["n"] == 0]
    assert empty[["attribute", "group", "reason"]].values.tolist() == [
        ["sex x race", "F, q", "no row has this combination"],
        ["sex x race", "F, rare", "no row has this combination"],
    ]
    assert "No row has these combinations of sex x race: F, q; F, rare." in words(found)
    without = audit(scores, y, A[["sex", "race"]], intersections=False, **FAST)
    assert "sex x race" not in set(without.to_frame()["attribute"])


def test_rows_with_a_missing_attribute_become_a_group():
    scores, y, A = people()
    age = A["age"].astype(float).where(np.arange(1200) >= 100)
    found = audit(scores, y, {"age": age, "sex": A["sex"]}, missing_sensitive="skip", **FAST)
    frame = found.to_frame().set_index(["metric", "attribute", "group"])
    gone = frame.loc[("mean score", "age", "(missing)")]
    assert (gone["value"], gone["n"]) == (pytest.approx(scores[:100].mean()), 100)
    assert frame.loc[("KS-GSP", "age", "all rows"), "n"] == 1100
    assert frame.loc[("KS-GSP", "sex", "all rows"), "n"] == 1200
    assert frame.loc[("GDP", "age, sex", "all rows"), "n"] == 1100
    assert (
        f"100 rows have no age: they are left out of its numbers and shown as a group, with a mean "
        f"score of {gone['value']:.3f}."
    ) in words(found)
    complete = audit(scores[100:], y[100:], A[["age"]].iloc[100:], threshold=found.threshold)
    same = complete.to_frame().set_index(["metric", "attribute", "group"])["value"]
    for metric in ("KS-GSP", "SP", "GDP", "dCor|Y"):
        assert frame.loc[(metric, "age", "all rows"), "value"] == pytest.approx(
            same[(metric, "age", "all rows")], abs=1e-12
        )


def test_without_an_outcome_only_independence_is_assessed():
    scores, _, A = people()
    found = audit(100 * scores, None, A[["sex"]], **FAST)
    assert found.notions == ("independence",)
    assert set(found.to_frame()["notion"]) == {"independence"}
    said = words(found)
    assert "Outcome y: none given. Nothing is decided by a threshold; mean scores" in said
    assert "Only independence was assessed; separation was not possible without y." in said
    assert "The mean score is" in said and "for people with sex = F" in said
    assert "2 tests were made" in said and "one wrong finding among them is 5 %" in said
    assert {row.metric: row.reason for row in found.not_assessed}["SP"] == (
        "SP compares decisions and needs a threshold, or a binary y to find one, got neither"
    )
    decided = audit(100 * scores, None, A[["sex"]], threshold=50, **FAST)
    assert "SP" in set(decided.to_frame()["metric"])


@pytest.mark.parametrize(
    ("notion", "sentence"),
    [
        ("independence", "Only independence was assessed; separation was not asked for."),
        ("separation", "Only separation was assessed; independence was not asked for."),
    ],
)
def test_one_notion_alone(notion, sentence):
    scores, y, A = people()
    found = audit(scores, y, A[["sex"]], notion=notion, **FAST)
    whole = found.to_frame().query("group == 'all rows' and attribute != ''")
    assert set(whole["notion"]) == {notion}
    assert sentence in words(found)


def test_a_ratio_without_a_denominator_is_undefined_with_its_reason():
    scores, y, A = people()
    scores = np.where(A["sex"] == "M", 0.1 * scores, scores)
    references = {"sex": "M"}
    found = audit(scores, y, A[["sex"]], threshold=0.5, references=references, **FAST)
    row = found.to_frame().query("metric == 'SP'").iloc[0]
    assert np.isnan([row["value"], row["low"], row["high"]]).all()
    reason = (
        "the rate of positive decisions of sex = M in all rows is 0, so the ratio has no "
        "denominator"
    )
    assert row["reason"] == reason
    assert f"SP by sex is undefined: {reason}." in words(found)
    (written,) = [r for r in json.loads(found.to_json())["rows"] if r["metric"] == "SP"]
    assert (written["value"], written["low"], written["reason"]) == (None, None, reason)


def test_scores_that_tell_nothing_are_decided_never():
    _, y, A = people()
    said = words(audit(np.ones(1200), y, A[["sex"]], **FAST))
    assert "Decision: never positive, as no threshold tells the outcomes apart" in said
    assert "Every group has the same selection rate." in said


def test_forty_people_can_be_audited_and_are_told_how_little_that_says():
    scores, y, A = people(40)
    found = audit(scores, y, A[["age"]], **FAST)
    ranges = found.to_frame().query("metric == 'mean score'")["n"].tolist()
    assert sum(ranges) == 40 and len(ranges) == 2
    assert "Fewer than 30 rows, ranked all the same:" in found.to_html()
    gap = found.to_frame().query("metric == 'gap'").iloc[0]
    assert np.isnan(gap["value"]) and "30 rows inside and 30 outside" in gap["reason"]
    assert "age: too few rows to say whether the limit of 10 points is kept." in words(found)
    row = found.to_frame().query("metric == 'KS-GSP'").iloc[0]
    # With 40 rows the bound says next to nothing: no score of an age reaches more than 0.5.
    assert row["certificate"] > 0.4


def test_the_table_says_where_rows_were_left_out():
    rng = np.random.default_rng(0)
    age = rng.normal(size=21_000)
    scores = age + rng.normal(size=21_000)
    frame = audit(scores, None, {"age": age}, draws=5, permutations=9).to_frame()
    rows = frame.set_index("metric")
    assert rows.loc["dCor", ["n", "note"]].tolist() == [10_000, "computed on 10000 of 21000 rows"]
    assert rows.loc["HSIC", ["n", "note"]].tolist() == [2_000, "computed on 2000 of 21000 rows"]
    assert rows.loc["KS-GSP", "n"] == 21_000
    assert rows.loc["KS-GSP", "note"].startswith("drawn from binned scores")


def test_json_holds_the_table_the_settings_and_the_versions(found):
    content = json.loads(found.to_json())
    frame = pd.DataFrame(content["rows"]).astype(found.to_frame().dtypes.to_dict())
    pd.testing.assert_frame_equal(frame, found.to_frame())
    assert content["settings"] == {
        "notion": None,
        "threshold": 0.5,
        "positive": None,
        "outcome": None,
        "favourable": "high",
        "decision": "",
        "max_gap": 0.1,
        "references": {},
        "intersections": True,
        "level": 0.95,
        "draws": 40,
        "permutations": 99,
        "candidates": 1,
        "random_state": 0,
    }
    assert set(content["versions"]) >= {"python", "equipoise", "numpy", "torch"}
    assert content["threshold"] == 0.5
    assert content["n"] == 1200
    assert content["sensitive_features"][1].split()[:2] == ["age", "continuous"]
    assert [row["metric"] for row in content["not_assessed"]] == [
        row.metric for row in found.not_assessed
    ]


def test_repr_is_short(found):
    assert repr(found) == (
        f"<Audit of 1200 scores by age, sex, race: {len(found.rows)} numbers; print it for a "
        "summary>"
    )


def test_the_figure_has_a_panel_per_column_that_shows_every_group(found, tmp_path):
    figure = found.plot()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["Scores along age", "Scores by sex", "Scores by race"]
    by_race = [label.get_text() for label in figure.axes[2].get_yticklabels()]
    sizes = people()[2]["race"].value_counts()
    assert by_race == [f"{group}\n(n = {sizes[group]})" for group in ("rare", "q", "p")]
    figure.savefig(tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes()[:4] == b"\x89PNG"


def test_what_is_drawn_is_the_distribution_of_the_scores(found):
    scores, _, A = people()
    shares = found.histograms.groupby(["attribute", "group"], sort=False)["share"].sum()
    assert shares.to_numpy() == pytest.approx(1.0)
    of_men = found.histograms.query("group == 'M'").iloc[0]
    inside = scores[A["sex"] == "M"]
    quantiles = np.quantile(inside, [0.1, 0.25, 0.5, 0.75, 0.9])
    assert of_men[["q10", "q25", "q50", "q75", "q90"]].tolist() == pytest.approx(quantiles)
    assert found.bands["n"].sum() == 1200
    assert found.bands["position"].is_monotonic_increasing
    first = found.bands.iloc[0]
    youngest = scores[A["age"] <= np.quantile(A["age"], 1 / 25)]
    assert (first["n"], first["q50"]) == (len(youngest), pytest.approx(np.median(youngest)))


def test_many_groups_are_cut_to_the_largest_and_the_title_says_so():
    rng = np.random.default_rng(0)
    town = np.array([f"town {number:02d}" for number in rng.integers(0, 20, 800)])
    figure = audit(rng.random(800), None, {"town": town}, draws=5, permutations=9).plot()
    assert figure.axes[0].get_title() == "Scores by town, 12 largest of 20 groups"
    shown = {label.get_text().split("\n")[0] for label in figure.axes[0].get_yticklabels()}
    assert shown <= set(pd.Series(town).value_counts().index) and len(shown) == 12
