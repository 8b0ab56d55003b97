"""Every registered library of trees is enrolled where a test asks for ``library``."""

import pytest

from equipoise.predictors.boosting import LIBRARIES


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request):
    return request.param
