import os

import torch

# Test processes run side by side, and importing some libraries (numba, through dcor) sets torch
# back to all cores whatever OMP_NUM_THREADS says; small networks are then ten times slower.
# `make test-portable` asks for two.
torch.set_num_threads(int(os.environ.get("EQUIPOISE_TEST_THREADS", "1")))
