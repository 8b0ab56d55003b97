"""Audit the scores of any model: how unfair they are, how sure that is, and for whom.

A logistic regression, trained without regard to fairness, predicts who earns more than 50 000
dollars, on census rows that it has not seen. The audit needs only its scores, the outcomes and the
sensitive features. Writes audit.csv, audit.json and audit.png into demo-output/.
"""

from pathlib import Path

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from equipoise import audit, load_dataset

train, test = load_dataset("adult", part="train"), load_dataset("adult", part="test")
model = make_pipeline(
    make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="unknown"),
                OneHotEncoder(handle_unknown="ignore"),
            ),
            make_column_selector(dtype_exclude="number"),
        ),
    ),
    LogisticRegression(max_iter=1000),
)
model.fit(train.X, train.y)

found = audit(model.predict_proba(test.X)[:, 1], test.y, test.A)
print(found)

folder = Path("demo-output")
folder.mkdir(exist_ok=True)
found.to_frame().to_csv(folder / "audit.csv", index=False)
(folder / "audit.json").write_text(found.to_json(), encoding="utf-8")
found.plot().savefig(folder / "audit.png", dpi=150)
print("\nWritten: audit.csv, audit.json and audit.png in demo-output/")
