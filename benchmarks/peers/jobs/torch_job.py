"""PyTorch: a DataLoader with two worker processes."""

import pillow
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler


class Images(Dataset):
    def __init__(self):
        self.paths = pillow.paths()

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(pillow.load(self.paths[index]))


def make_loader():
    images = Images()
    sampler = RandomSampler(images, replacement=True, num_samples=10**7)
    return DataLoader(
        images, batch_size=32, sampler=sampler, num_workers=2, drop_last=True
    )
