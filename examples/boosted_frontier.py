"""Train boosted trees and networks on one curve, then take the better one within each limit.

Predicts from census rows who earns more than 50 000 dollars, with scores that should depend little
on age and sex. Needs lightgbm: pip install "equipoise[boosting]".
"""

from equipoise import FairBoostingClassifier, FairClassifier, FairFrontier, load_dataset

LIMITS = (0.15, 0.2, 0.4, 0.7)

data = load_dataset("adult")
# Relationship has the values Husband and Wife, which reveal the sex. Some classes of work and some
# countries are too rare for so few rows.
X = data.X.drop(columns=["relationship", "workclass", "native_country"]).iloc[:6000]
y, A = data.y.iloc[:6000], data.A[["age", "sex"]].iloc[:6000]

frontier = FairFrontier(
    [FairClassifier(iterations=300), FairBoostingClassifier(rounds=60, learning_rate=0.1)],
    strengths=(0.0, 0.7, 0.9),
    seeds=1,
    evaluate_every=[100, 10],
    random_state=0,
).fit(X, y, sensitive_features=A)

table = frontier.table()
for family, rows in table.groupby("predictor", sort=False):
    print(f"{family}: {len(rows)} snapshots, {rows['on_front'].sum()} on a front,", end=" ")
    print(f"best AUC {rows['utility'].max():.3f}")

print("\nBest within a limit on the gap by age and by sex:")
for limit in LIMITS:
    best = frontier.select(max_gap=limit, draws=20)
    print(f"  {limit:g}: AUC {best.rows[0].validation:.3f}, {best.predictor} ({best.origin})")

print(f"\nThe best with at most {LIMITS[0]:g}:\n")
print(frontier.select(max_gap=LIMITS[0]))
