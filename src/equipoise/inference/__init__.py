"""Inference: one number type, bootstrap intervals, permutation tests, certificates."""

from equipoise.inference.bootstrap import basic_interval as basic_interval
from equipoise.inference.bootstrap import bootstrap as bootstrap
from equipoise.inference.certificate import Certificate as Certificate
from equipoise.inference.certificate import certify as certify
from equipoise.inference.estimate import Estimate as Estimate
from equipoise.inference.estimate import holm as holm
from equipoise.inference.gap import gap_estimates as gap_estimates
from equipoise.inference.groups import GroupEstimates as GroupEstimates
from equipoise.inference.groups import group_estimates as group_estimates
from equipoise.inference.permutation import permutation_test as permutation_test
