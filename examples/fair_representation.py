"""A fair representation for any model, and a test of what it still reveals.

FairEncoder puts the penalty on a hidden layer instead of the score. A model trained on its output
gets columns that say less about age and sex. How much they still say depends on the probe: boosted
trees find far more than a linear model, so use both.
"""

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from equipoise import FairEncoder, load_dataset

train, test = load_dataset("adult"), load_dataset("adult", part="test")
sensitive = ["age", "sex"]
questions = {
    "income (wanted)": (train.y, test.y),
    "sex": (train.A["sex"] == "Male", test.A["sex"] == "Male"),
    "age above 37": (train.A["age"] > 37, test.A["age"] > 37),
}
probes = {
    "linear": LogisticRegression(max_iter=1_000),
    "boosted trees": HistGradientBoostingClassifier(max_iter=30, random_state=0),
}

print("AUC on the test part of probes trained on the representation; 0.5 is guessing")
print(f"{'':10}{'question':>18}" + "".join(f"{name:>16}" for name in probes))
for strength in (0.0, 0.9):
    encoder = FairEncoder(
        strength=strength,
        encoder_hidden=(64, 4),  # four columns: a narrow representation can hold less about A
        iterations=200,
        random_state=0,
    )
    encoder.fit(train.X, train.y, sensitive_features=train.A[sensitive])
    inside, outside = encoder.transform(train.X), encoder.transform(test.X)
    for question, (answer, truth) in questions.items():
        found = [
            roc_auc_score(truth, probe.fit(inside, answer).predict_proba(outside)[:, 1])
            for probe in probes.values()
        ]
        print(f"{strength:<10g}{question:>18}" + "".join(f"{value:16.3f}" for value in found))
