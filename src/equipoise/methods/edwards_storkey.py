"""A critic that predicts A censors what it sees (Edwards and Storkey 2015)."""

from __future__ import annotations

from equipoise.methods.declaration import CRITIC, Capabilities, Declaration
from equipoise.methods.shared.attribute_critic import AttributeCritic

#: The original censors a representation, and may reconstruct X from it as well; here the critic
#: sees the score, or with FairEncoder the representation, and nothing is reconstructed.
DECLARATION = Declaration(
    name="edwards_storkey",
    title="Censoring by a critic that predicts A",
    reference="Edwards and Storkey (2015), Censoring representations with an adversary, "
    "arXiv:1511.05897",
    summary="A critic predicts A from the score, and the predictor learns to make its log loss as "
    "large as that of knowing how frequent A is.",
    capabilities=Capabilities(
        separation=False, continuous=False, mixed=False, many_groups=False, numbers=False
    ),
    build=AttributeCritic,
    options=CRITIC,
)
