"""The picture of the guide to several outputs: ``python docs/images/score_map.py`` writes score_map.png."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "examples" / "paper"))

import several_outputs

from skactive import sample_posterior, scores


def main() -> None:
    """An image, its classes, and the score of each of its pixels."""
    torch.manual_seed(0)
    images, classes = several_outputs.shapes(60)
    net = several_outputs.segmenter().fit(images[:30], classes[:30])
    shown = next(i for i in range(30, 60) if len(np.unique(classes[i])) == 3)
    bald = scores.bald(sample_posterior(net, 50, np.random.default_rng(0))(images[shown : shown + 1]))
    figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.7), layout="constrained")
    for ax, (title, values, colours) in zip(
        axes,
        [
            ("the image", images[shown, 0], "gray"),
            ("the class of each pixel", classes[shown], "viridis"),
            ("BALD of each pixel", bald[0], "magma"),
        ],
        strict=True,
    ):
        picture = ax.imshow(values, cmap=colours)
        ax.set(title=title, xticks=[], yticks=[])
    figure.colorbar(picture, ax=axes[-1], label="nats")
    path = HERE / "score_map.png"
    figure.savefig(path)
    with Image.open(path) as drawn:
        small = drawn.convert("RGB").quantize(256)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
