"""A frontier of regressors is measured by what their loss says, and by nothing else."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import d2_absolute_error_score, r2_score
from small_frontiers import rows

from equipoise import FairAdjuster, FairBoostingRegressor, FairFrontier, FairRegressor, load
from equipoise.errors import InputError
from equipoise.frontier.comparison import ComparedRun, compare
from equipoise.report.frontier_page import RunFacts, frontier_page
from equipoise.report.model_card import model_card, to_markdown
from equipoise.storage import Contents, read_model_file, write_model_file

D2 = "D2 absolute error"
SMALL = {"strengths": (0.0, 0.9), "seeds": 1, "random_state": 7}


def network(loss):
    return FairRegressor(
        loss=loss, hidden=(4,), critic_hidden=(4,), iterations=200, learning_rate=0.01, device="cpu"
    )


def trees(loss):
    return FairBoostingRegressor(loss=loss, rounds=20)


def skewed():
    """Rows with an outcome of which a few values are large: its mean is far above its median."""
    data = rows("regression")
    return data.X, np.exp(data.y.to_numpy()), data.A


def fit(estimator, **options):
    X, y, A = skewed()
    return FairFrontier(estimator, **{**SMALL, **options}).fit(X, y, sensitive_features=A)


@pytest.fixture(scope="module")
def absolute():
    return fit(network("absolute"), evaluate_every=20)


@pytest.mark.parametrize("make", [network, trees])
@pytest.mark.parametrize(
    ("loss", "name", "share"),
    [
        ("absolute", D2, d2_absolute_error_score),
        ("squared", "R2", r2_score),
        ("huber", "R2", r2_score),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_utility_is_the_one_of_the_loss(make, loss, name, share, weighted):
    X, y, A = skewed()
    weights = 1.0 + np.arange(len(y)) % 3 if weighted else None
    frontier = FairFrontier(make(loss), evaluate_every=20, **SMALL)
    frontier.fit(X, y, sensitive_features=A, sample_weight=weights)
    assert frontier.utility_ == name
    number = int(np.flatnonzero(frontier.table()["on_front"])[0])
    model = frontier.fitted_curve().model(number)
    assert model.health_.utility == name

    def expected(positions, of=share):
        given = None if weights is None else weights[positions]
        return of(y[positions], model.predict(X.iloc[positions]), sample_weight=given)

    split = frontier.split_
    found = frontier.table().loc[number, "utility"]
    assert found == pytest.approx(expected(split.validation), abs=1e-9)
    assert model.health_.held_out_utility == found
    assert model.health_.training_utility == pytest.approx(expected(split.train), abs=1e-5)
    assert model.score(X, y, weights) == pytest.approx(
        r2_score(y, model.predict(X), sample_weight=weights)
    )


def test_select_picks_and_reports_by_the_share_of_absolute_error(absolute):
    X, y, _ = skewed()
    table, validation, test = absolute.table(), absolute.split_.validation, absolute.split_.test
    selection = absolute.select(max_gap=1.0, draws=20, allow_useless=True)
    row = selection.rows[0]
    assert row.metric == D2 and row.validation == table["utility"].max()
    predicted = selection.model.predict(X)
    assert row.validation == pytest.approx(
        d2_absolute_error_score(y[validation], predicted[validation]), abs=1e-9
    )
    assert row.test == pytest.approx(d2_absolute_error_score(y[test], predicted[test]), abs=1e-9)
    assert row.low < row.test < row.high <= 1
    assert f"{D2} " in str(selection)
    assert absolute.plot(attribute="age").axes[0].get_ylabel() == f"{D2} (validation rows)"


def test_an_interval_is_that_of_drawn_rows(absolute):
    """The draws of the report, one by one with scikit-learn's function."""
    _, y, _ = skewed()
    selection = absolute.select(max_gap=1.0, draws=30, level=0.8, allow_useless=True)
    row, test = selection.rows[0], absolute.split_.test
    predicted = selection.model.predict(skewed()[0].iloc[test])
    random, n, drawn = np.random.default_rng(0), len(test), []
    for _ in range(30):
        at = random.integers(n, size=n)
        drawn.append(d2_absolute_error_score(y[test][at], predicted[at]))
    least, most = np.quantile(drawn, [0.1, 0.9], method="weibull")
    assert (row.low, row.high) == pytest.approx((2 * row.test - most, 2 * row.test - least))


def test_report_and_model_card_call_it_by_its_name(absolute):
    selection = absolute.select(max_gap=1.0, draws=5, allow_useless=True)
    about = RunFacts(title="Pay", target="pay")
    page = frontier_page(absolute, selection, about)
    assert "of the absolute differences between pay and its median" in page
    assert D2 in page and "R2" not in page
    card = to_markdown(model_card(selection, about, absolute))
    assert "tabular-regression" in card and "Predicts pay" in card
    assert f"Strength trades {D2} for less dependence" in card and "R2" not in card


def test_a_saved_frontier_keeps_its_utility(absolute, tmp_path):
    absolute.save(tmp_path / "curve.equipoise")
    again = load(tmp_path / "curve.equipoise")
    assert again.utility_ == D2
    wish = {"max_gap": 1.0, "draws": 5, "allow_useless": True}
    assert again.select(**wish).rows == absolute.select(**wish).rows
    model = again.select(**wish).model
    model.save(tmp_path / "model.equipoise")
    assert load(tmp_path / "model.equipoise").health_.utility == D2


def test_a_frontier_that_was_measured_by_r2_stays_so(absolute, tmp_path):
    """Older versions did, with any loss; what a file calls R2 is R2."""
    path = tmp_path / "curve.equipoise"
    absolute.save(path)
    contents = read_model_file(path)
    document = {**contents.document, "rest": {**contents.document["rest"], "utility": "R2"}}
    write_model_file(path, Contents(document, contents.arrays))
    older = load(path)
    assert older.utility_ == "R2"
    X, y, _ = skewed()
    selection = older.select(max_gap=1.0, draws=5, allow_useless=True)
    test = older.split_.test
    expected = r2_score(y[test], selection.model.predict(X.iloc[test]))
    assert selection.rows[0].test == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("models", "losses"),
    [
        ([network("squared"), network("absolute")], ("'squared' (R2)", f"'absolute' ({D2})")),
        ([network("absolute"), trees("huber")], (f"'absolute' ({D2})", "'huber' (R2)")),
        ([network("absolute"), FairAdjuster(Ridge())], (f"'absolute' ({D2})", "'squared' (R2)")),
    ],
)
def test_losses_of_different_utility_cannot_compete(models, losses):
    with pytest.raises(InputError) as refusal:
        fit(models)
    for part in ("estimator must be a list of regressors", *losses, "fit a frontier of each"):
        assert part in str(refusal.value)


def test_losses_of_one_utility_compete():
    assert fit([network("squared"), trees("huber")]).utility_ == "R2"
    assert fit([network("absolute"), trees("absolute")]).utility_ == D2


def test_a_wrong_loss_is_refused_before_any_rows_are_read():
    with pytest.raises(InputError, match=r"loss must be .*'absolute'.* got 'l1'"):
        FairRegressor(loss="l1").fit(None, None)


def test_a_single_model_reports_the_share_on_rows_set_aside():
    X, y, A = skewed()
    model = network("absolute").set_params(random_state=0, early_stopping=50)
    model.fit(X, y, sensitive_features=A)
    assert model.health_.utility == D2 and model.health_.part == "set-aside"


def test_runs_of_different_utility_are_not_compared(absolute):
    runs = [ComparedRun("x", absolute, {}), ComparedRun("y", fit(network("squared")), {})]
    with pytest.raises(InputError, match=f"same utility, got {D2} of 'x' and R2 of 'y'.*loss"):
        compare(runs)
    other = ComparedRun("z", fit(network("absolute")), {})
    assert compare([runs[0], other], 1.0).utility == D2
