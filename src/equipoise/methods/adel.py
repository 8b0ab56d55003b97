"""A branch of the network predicts A, its gradient reversed (Adel et al. 2019)."""

from __future__ import annotations

from equipoise.methods.declaration import CRITIC, Capabilities, Declaration
from equipoise.methods.shared.attribute_critic import AttributeCritic

#: The original adds a hidden layer to a network and lets a branch from it predict A, its gradient
#: reversed. Here that layer is the last hidden one. Under separation the branch sees Y as well.
DECLARATION = Declaration(
    name="adel",
    title="Gradient reversal at a hidden layer",
    reference="Adel, Valera, Ghahramani and Weller (2019), One-network adversarial fairness, AAAI",
    summary="A critic predicts A from the last hidden layer, which learns by the reversed gradient "
    "to tell nothing of it.",
    capabilities=Capabilities(continuous=False, mixed=False, many_groups=False, numbers=False),
    build=AttributeCritic,
    options=CRITIC,
    sits_on="hidden",
)
