"""Fairness methods, and what each of them supports."""

from equipoise.methods import (
    agarwal,
    attribute_critic,
    batch_penalties,
    con,
    hgr,
    icp,
    neu,
    sbp,
    scutari,
)
from equipoise.methods.declaration import METHODS as METHODS
from equipoise.methods.declaration import Capabilities as Capabilities
from equipoise.methods.declaration import Context as Context
from equipoise.methods.declaration import Declaration as Declaration
from equipoise.methods.declaration import Problem as Problem
from equipoise.methods.declaration import capability_table as capability_table
from equipoise.methods.declaration import methods_for as methods_for
from equipoise.methods.declaration import parse_method as parse_method
from equipoise.methods.declaration import refuse_unsupported as refuse_unsupported
from equipoise.methods.declaration import refuse_unused_options as refuse_unused_options
from equipoise.methods.declaration import register_method as register_method
from equipoise.methods.sbp import SBP as SBP

# To add a method, write its declaration and add it here. Tables show methods in this order.
for _declaration in (
    sbp.DECLARATION,
    sbp.WITHOUT_RATIO,
    con.DECLARATION,
    hgr.DECLARATION,
    batch_penalties.KDE,
    neu.DECLARATION,
    scutari.DECLARATION,
    agarwal.DECLARATION,
    attribute_critic.EDWARDS_STORKEY,
    attribute_critic.ADEL,
    batch_penalties.DCOV,
    batch_penalties.HSIC,
    batch_penalties.GDP,
    icp.DECLARATION,
):
    register_method(_declaration)
