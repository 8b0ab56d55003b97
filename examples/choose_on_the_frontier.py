"""Train the whole curve in one run, then take the model you want from it.

Predicts from census rows who earns more than 50 000 dollars, with scores that should depend little
on age and sex. Writes frontier.csv and frontier.png into demo-output/.
"""

from pathlib import Path

from equipoise import FairClassifier, FairFrontier, load_dataset
from equipoise.errors import InputError

# Largest difference between a group and all others, beyond chance: 0.15 is 15 points.
BUDGET = {"age": 0.2, "sex": 0.15}

data = load_dataset("adult")
# Relationship has the values Husband and Wife, which reveal the sex. Some countries are too rare to
# be in every part of the rows.
X = data.X.drop(columns=["relationship", "native_country"])
A = data.A[["age", "sex"]]

frontier = FairFrontier(
    FairClassifier(iterations=240), strengths=(0.0, 0.5, 0.8, 0.9, 0.95), seeds=2, random_state=0
).fit(X, data.y, sensitive_features=A)

table = frontier.table()
print(f"{len(table)} snapshots of {len(frontier.members())} members,", end=" ")
print(f"{table['on_front'].sum()} on a front")
for name in A:
    print(f"hypervolume of AUC against gap {name}: {frontier.hypervolume(attribute=name):.3f}")

print("\nPlain training, for comparison:")
plain = table[table["strength"] == 0].sort_values("utility").iloc[-1]
print(f"  AUC {plain['utility']:.3f}", end="")
print("".join(f", gap {name} {plain[f'gap {name}']:.3f}" for name in A))

print(f"\nThe best model with a gap of at most {BUDGET}:\n")
chosen = frontier.select(max_gap=BUDGET)
print(chosen)

print("\nIf no model is within the limits, the error names the nearest:")
try:
    frontier.select(max_gap=0.001, min_utility=0.9)
except InputError as refusal:
    print(f"  {refusal}")

folder = Path("demo-output")
folder.mkdir(exist_ok=True)
table.to_csv(folder / "frontier.csv")
frontier.plot(attribute="sex").savefig(folder / "frontier.png", dpi=150)
print("\nWritten: frontier.csv and frontier.png in demo-output/")
