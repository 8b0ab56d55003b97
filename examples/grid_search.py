"""Choose a strength by cross-validation, with scikit-learn's metadata routing.

AUC alone would always choose strength 0. So each validation fold also measures dependence on sex,
and the search takes the best AUC among the strengths within a budget of dependence.
"""

from functools import partial

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from equipoise import FairClassifier, SensitiveTable, load_dataset
from equipoise.metrics import measure

BUDGET = 0.15


def dependence(y: pd.Series, score: np.ndarray, *, sensitive_features: pd.DataFrame) -> float:
    """Return KS-GSP of the score by sex on one fold; it does not depend on y."""
    return float(measure("KS-GSP", score, SensitiveTable.from_data(sensitive_features)["sex"]))


def best_within(budget: float, results: dict[str, np.ndarray]) -> int:
    """Return the position of the best AUC among the candidates within the budget."""
    within = -results["mean_test_dependence"] <= budget
    if not within.any():
        raise ValueError(f"no strength keeps KS-GSP within {budget}; add larger ones")
    return int(np.where(within, results["mean_test_auc"], -np.inf).argmax())


data = load_dataset("adult")
sample = data.X.sample(4_000, random_state=0).index
X, y, A = data.X.loc[sample], data.y.loc[sample], data.A.loc[sample]

# FairClassifier encodes categories itself, but a pipeline can do it first. Here rare categories are
# pooled, since a fold may lack them, and relationship is dropped, since Husband reveals the sex.
pooled = OneHotEncoder(min_frequency=50, handle_unknown="infrequent_if_exist", sparse_output=False)
categories = X.select_dtypes("category").columns.drop("relationship")
columns = ColumnTransformer(
    [("categories", pooled, categories), ("proxy", "drop", ["relationship"])],
    remainder="passthrough",
)

# The search and the pipeline pass sensitive_features on to those who request it.
with sklearn.config_context(enable_metadata_routing=True):
    # One network for each candidate is enough to compare strengths; the default averages several.
    model = FairClassifier(members=1, iterations=250, random_state=0)
    model.set_fit_request(sensitive_features=True)
    scorer = make_scorer(dependence, response_method="predict_proba", greater_is_better=False)
    search = GridSearchCV(
        Pipeline([("columns", columns), ("model", model)]),
        {"model__strength": [0.0, 0.5, 0.9]},
        scoring={"auc": "roc_auc", "dependence": scorer.set_score_request(sensitive_features=True)},
        refit=partial(best_within, BUDGET),
        cv=2,
    )
    search.fit(X, y, sensitive_features=A)

table = pd.DataFrame(
    {
        "strength": search.cv_results_["param_model__strength"],
        "AUC": search.cv_results_["mean_test_auc"],
        "KS-GSP sex": -search.cv_results_["mean_test_dependence"],
    }
)
print(table.round(3).to_string(index=False))
# The strength was chosen on these folds, so assess the model on other rows before use.
print(f"chosen within KS-GSP <= {BUDGET}: {search.best_params_}")
