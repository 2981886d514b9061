"""Trains a small neural network. Two forked processes load its data. Prints the loss after each pass."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(16)
torch.set_num_threads(1)


class Points(Dataset):
    def __init__(self, count):
        self.points = torch.randn(count, 784)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index], int(self.points[index, :10].argmax())


net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(net.parameters())
points = Points(8000)
for number in range(2):
    loss = 0
    for batch, classes in DataLoader(points, batch_size=200, num_workers=2):
        optimizer.zero_grad()
        step = nn.functional.cross_entropy(net(batch), classes)
        step.backward()
        optimizer.step()
        loss += step.item()
    print(number, f"{loss:.3f}")
