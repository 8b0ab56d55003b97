import torch

from equipoise.training import TrainingData


def simulate(n=240, seed=0):
    """Rows with a binary outcome, one continuous and one binary attribute.

    In double precision, where rounding does not grow over a few iterations into what looks like
    a difference between two ways of training.
    """
    generator = torch.Generator().manual_seed(seed)
    age = torch.randn(n, generator=generator)
    group = (torch.rand(n, generator=generator) < 0.4).float()
    x = torch.randn(n, 4, generator=generator) + torch.stack([age, group, age * 0, age * 0], 1)
    y = (x.sum(1) + torch.randn(n, generator=generator) > 0).float()
    return TrainingData(
        x=x.double(),
        target=y.double(),
        outcome=y[:, None].double(),
        outcome_class=y.long(),
        attribute=torch.stack([age, group], 1).double(),
    )
