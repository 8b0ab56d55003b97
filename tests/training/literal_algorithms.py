"""Algorithms 1 and 2 of the paper, transcribed line by line for one model, in plain PyTorch.

Deliberately naive: one model, a Python loop, torch's own layers and its own optimizer. The only
additions to Algorithms 1 and 2 are the paper's own objective (1 - strength) L_M + strength L_F
(section 5) and the standardized score that our critic sees (marked).
"""

import torch
from torch import nn

from equipoise.networks import StackedBatchNorm, StackedLinear


def unstack(stack, member):
    """Copy one member of a stacked network into ordinary layers."""
    layers = []
    for layer in stack.layers:
        if isinstance(layer, StackedLinear):
            plain = nn.Linear(layer.weight.shape[2], layer.weight.shape[1]).to(layer.weight)
            plain.weight.data = layer.weight.data[member].clone()
            if layer.bias is None:  # before a normalization, which takes it out again
                plain.bias.data.zero_()
            else:
                plain.bias.data = layer.bias.data[member].clone()
        elif isinstance(layer, StackedBatchNorm):
            plain = nn.BatchNorm1d(layer.weight.shape[1], eps=1e-3).to(layer.weight)
        else:
            plain = nn.ReLU()
        layers.append(plain)
    return nn.Sequential(*layers)


def standardized(s):  # addition: what the critic sees does not shrink with the score
    return (s - s.mean(0)) / torch.sqrt(s.var(0, unbiased=False) + 1e-6)


def train_literally(
    h,
    D,
    batches,
    x,
    a,
    y,
    *,
    strength,
    iterations,
    critic_steps,
    learning_rate,
    momentum,
    beta=None,
):
    """Algorithm 1 (beta is None) or 2 (beta(a_index, y_index) given); returns h."""
    optimizer_h = torch.optim.SGD(h.parameters(), lr=learning_rate, momentum=momentum)
    optimizer_D = torch.optim.SGD(D.parameters(), lr=learning_rate, momentum=momentum)

    def R_F(s, i, j):
        context = [] if beta is None else [y[i][:, None]]
        real = torch.cat([standardized(s), a[i], *context], 1)
        drawn = torch.cat([standardized(s), a[j], *context], 1)
        D_real, D_drawn = torch.sigmoid(D(real))[:, 0], torch.sigmoid(D(drawn))[:, 0]
        weight = 1.0 if beta is None else beta(j, i)
        return torch.mean(torch.log(D_real) + weight * torch.log(1 - D_drawn))

    for _ in range(iterations):
        rows, resampled = batches.spread(batches.draw())
        i, j = rows[0], resampled[0]
        for _ in range(critic_steps):
            s = torch.sigmoid(h(x[i])).detach()
            optimizer_D.zero_grad()
            (-R_F(s, i, j)).backward()
            optimizer_D.step()
        s = torch.sigmoid(h(x[i]))
        R = nn.functional.binary_cross_entropy(s[:, 0], y[i])
        optimizer_h.zero_grad()
        ((1 - strength) * R + strength * R_F(s, i, j)).backward()
        optimizer_h.step()
    return h
