"""What the laws need: every method, the settings it declares to support, rows to train on."""

import itertools
from dataclasses import dataclass

import numpy as np

from equipoise.critic import CriticSettings
from equipoise.datasets import make_synthetic
from equipoise.estimators.fitting import read_classes, read_numbers, training_data
from equipoise.methods import METHODS, parse_method
from equipoise.notions import Notion
from equipoise.predictors.network import NetworkRecipe
from equipoise.tables import AttributeInputs, SensitiveTable
from equipoise.training import OptimizerSettings, TrainingSettings

TASKS = {"classification": "binary", "regression": "squared"}


@dataclass(frozen=True)
class Setting:
    """A method, and a problem it declares to support."""

    method: str
    notion: str
    task: str

    def __str__(self):
        return f"{self.method}-{self.notion}-{self.task}"

    @property
    def declared(self):
        return parse_method(self.method)

    @property
    def capabilities(self):
        return self.declared.capabilities

    def attributes(self, A):
        """The richest sensitive features that the method supports, of age and group."""
        can = self.capabilities
        if can.mixed:
            return A
        if can.discrete and can.many_groups:
            return A[["group"]]
        if can.discrete:
            return A[["group"]].assign(group=(A["group"] == "a").astype(int))
        return A[["age"]]

    def recipe(self, *, density_ratio="none", **training):
        sgd = OptimizerSettings(kind="sgd", learning_rate=0.05, momentum=0.2)
        return NetworkRecipe(
            notion=Notion.parse(self.notion),
            method=self.method,
            density_ratio=density_ratio,
            critic=CriticSettings(optimizer=training.pop("critic", sgd), hidden=(16, 16)),
            training=TrainingSettings(**({"batch_size": 100, "optimizer": sgd} | training)),
            hidden=(16,),
        )


def supported_settings(methods):
    for method, notion, task in itertools.product(methods.values(), Notion, TASKS):
        can = method.capabilities
        notions = {"independence": can.independence, "separation": can.separation}
        outcomes = {"classification": can.classes, "regression": can.numbers}
        if notions[notion] and outcomes[task]:
            yield Setting(method.name, str(notion), task)


SETTINGS = list(supported_settings(METHODS))
#: By how a method works: a penalty beside the task loss, losses of its own, or no training at all.
PENALTIES = [setting for setting in SETTINGS if setting.declared.build]
OBJECTIVES = [setting for setting in SETTINGS if setting.declared.objective]
TRAINED = [name for name, method in METHODS.items() if method.solve is None]


def inputs(setting, drawn, trained_on):
    """What a model sees of drawn rows: X, and A where its method needs it to predict."""
    x = drawn.X.to_numpy(np.float32)
    if not setting.capabilities.needs_attribute:
        return x
    tables = [SensitiveTable.from_data(setting.attributes(rows.A)) for rows in (trained_on, drawn)]
    return np.column_stack([x, AttributeInputs.of(tables[0]).encode(tables[1])])


def simulated(setting, n, *, seed, double=False, weights=None, unknown=None):
    """Rows of the synthetic family for one setting: training data, table, outcome."""
    drawn = make_synthetic(n, task=setting.task, random_state=seed)
    A = setting.attributes(drawn.A).copy()
    if unknown is not None:
        A = A.astype({"group": object} if "group" in A else {})
        A.loc[unknown, :] = None
    table = SensitiveTable.from_data(A, missing="skip" if unknown is not None else "error")
    y = drawn.y.to_numpy()
    outcome = read_classes(y) if setting.task == "classification" else read_numbers(y)
    data = training_data(inputs(setting, drawn, drawn), outcome, table, weights)
    if double:
        data = data._map(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    return data, table, y
