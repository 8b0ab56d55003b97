"""Fairness methods: what each adds to a training step, and what each can do."""

from equipoise.methods import (
    adel,
    agarwal,
    con,
    dcov,
    edwards_storkey,
    gdp,
    hgr,
    hsic,
    icp,
    kde,
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

# To add a method, write its file and its line here.
for _declaration in (
    sbp.DECLARATION,
    sbp.WITHOUT_RATIO,
    *(each.DECLARATION for each in (con, hgr, kde, neu, scutari, agarwal, edwards_storkey)),
    *(each.DECLARATION for each in (adel, dcov, hsic, gdp, icp)),
):
    register_method(_declaration)
