import torch

# Test processes run side by side, and importing some libraries (numba, through dcor) sets torch
# back to all cores whatever OMP_NUM_THREADS says; small networks are then ten times slower.
torch.set_num_threads(1)
