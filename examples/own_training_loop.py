"""SBPPenalty in a plain PyTorch loop: five added lines, marked ``# (n)``.

The data are simulated, so the dependence of the best score without a penalty is known:
``data.truth``. The sensitive attributes are mixed: age is continuous, group has three levels.
"""

import torch
from torch import nn

from equipoise import SBPPenalty, SensitiveTable, load_dataset
from equipoise.metrics import auc, measure

STRENGTH, ITERATIONS, BATCH = 0.95, 400, 500

data = load_dataset("synthetic")
held_out = 2_000  # rows to assess on, not to train on; the rows are in random order
attributes = SensitiveTable.from_data(data.A)

torch.manual_seed(0)
x = torch.tensor(data.X.to_numpy(), dtype=torch.float32)
y = torch.tensor(data.y.to_numpy(), dtype=torch.float32)
a = torch.from_numpy(attributes.encode())  # (1) categories one-hot, continuous columns scaled

network = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)  # never the penalty's parameters
penalty = SBPPenalty(notion="independence", steps=2)  # (2) has its own critic and optimizer
task_loss = nn.BCEWithLogitsLoss()

for _ in range(ITERATIONS):
    rows = torch.randint(held_out, len(x), (BATCH,))
    score = network(x[rows]).squeeze(-1)
    loss = task_loss(score, y[rows])
    dependence = penalty(score, a[rows])  # (3) trains the critic, returns the estimated dependence
    loss = (1 - STRENGTH) * loss + STRENGTH * dependence  # (4) the paper's weighting
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

network.eval()
penalty.eval()  # (5) from here on a call does not train the critic
with torch.no_grad():
    score = network(x[:held_out]).squeeze(-1)

utility = float(auc(score, data.y[:held_out]))
best, fair = data.truth.plain_utility, data.truth.fair_utility("independence")
print(f"AUC {utility:.3f}; best possible {best:.3f}, best possible under independence {fair:.3f}")
for column in attributes.take(range(held_out)).columns:
    print(
        f"KS-GSP {column.name}: {float(measure('KS-GSP', score, column)):.3f}, "
        f"of the best score without the penalty {data.truth.ks_gsp(column.name):.3f}"
    )
