"""A PyTorch DataLoader with two worker processes: rows of a table, augmented.

python -m ipufeed.benchmark examples/loaders/torch_loader.py --set workers=2
"""

import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Pictures of 3 x 32 x 32 with noise that is drawn for each look at one."""

    def __len__(self):
        return 20_000

    def __getitem__(self, index):
        picture = torch.full((3, 32, 32), index / len(self))
        return picture + 0.1 * torch.randn_like(picture), index % 10


def make_loader(batch_size: int = 64, workers: int = 2):
    return DataLoader(
        Noisy(),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        drop_last=True,
    )
