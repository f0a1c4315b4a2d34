"""What the Python frameworks do for each image: Pillow decodes, NumPy crops and flips."""

import glob
import os
import random

import numpy as np
from PIL import Image

SIZE = 224


def paths():
    return sorted(glob.glob(os.environ["IPUFEED_PEERS_IMAGES"] + "/*.jpg"))


def load(path):
    with Image.open(path) as file:
        image = np.asarray(file.convert("RGB"))
    top = random.randrange(image.shape[0] - SIZE + 1)
    left = random.randrange(image.shape[1] - SIZE + 1)
    image = image[top : top + SIZE, left : left + SIZE]
    if random.random() < 0.5:
        image = image[:, ::-1]
    return image.astype(np.float32) / 255
