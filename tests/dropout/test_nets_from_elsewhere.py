"""Small nets of timm and torchvision, weights at random: right row by row and in law, or refused for a known reason."""

import pytest
import torch
from architectures import SIGMAS, compare, passes, quiet
from nets import Functions, assert_near
from torch import nn

DROP, SMALL = {"drop_rate": 0.2, "num_classes": 3}, {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2}
BOTH, FINE = DROP | {"drop_path_rate": 0.3}, {f"{kind}_drop_rate": 0.1 for kind in ("pos", "proj", "attn", "patch")}
WINDOWS = {"img_size": 32, "window_size": 4, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 2)}
TIMM = [  # names, pixels, options
    ("vit_tiny_patch16_224", 32, SMALL | BOTH | FINE),
    ("deit_tiny_distilled_patch16_224 beit_base_patch16_224", 32, SMALL | BOTH),
    ("cait_xxs24_224", 32, SMALL | BOTH | {"depth_token_only": 1, "init_values": 1.0}),
    ("xcit_nano_12_p16_224", 32, SMALL | BOTH | {"eta": 1.0}),
    ("eva02_tiny_patch14_224", 28, SMALL | BOTH | {"img_size": 28}),
    ("tnt_s_legacy_patch16_224", 32, BOTH | {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads_outer": 2}),
    ("swin_tiny_patch4_window7_224 swinv2_tiny_window8_256", 32, BOTH | WINDOWS),
    ("levit_128s eca_botnext26ts_256", 64, BOTH | {"img_size": 64}),
    ("edgenext_xx_small convnext_atto inception_next_atto", 32, BOTH | {"ls_init_value": 1.0}),
    ("mixer_s32_224 gmlp_ti16_224 visformer_tiny", 32, BOTH | {"img_size": 32}),
    ("resnet10t", 32, BOTH | {"drop_block_rate": 0.3}),
    ("seresnet18 nf_regnet_b0 efficientnet_lite0 mobilenetv3_small_050 rexnetr_200 regnetx_002", 32, BOTH),
    ("poolformerv2_s12 mambaout_femto starnet_s1 pvt_v2_b0 mobilevit_xxs", 32, BOTH),
    ("ghostnet_050 hgnetv2_b0 repvit_m1", 32, DROP),
]
SIZES, RATES = ([4, 4], 16, [2, 2], [2, 2], [4, 4]), {"dropout": 0.2, "attention_dropout": 0.1, "num_classes": 3}
TORCHVISION = {  # nets of 32 pixels by (models, ops)
    "VisionTransformer": lambda m, o: m.VisionTransformer(32, 8, 2, 2, 32, 32, **RATES),
    "SwinTransformer": lambda m, o: m.SwinTransformer(*SIZES, stochastic_depth_prob=0.5, **RATES),
    "StochasticDepth, row": lambda m, o: images(o.StochasticDepth(0.3, "row")),
    "DropBlock2d": lambda m, o: images(o.DropBlock2d(0.2, 3)),
    "squeezenet": lambda m, o: m.squeezenet1_1(num_classes=3),
    "mobilenet": lambda m, o: m.mobilenet_v3_small(num_classes=3),
    "shufflenet": lambda m, o: m.shufflenet_v2_x0_5(num_classes=3),
    "lraspp": lambda m, o: m.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None),
}
REFUSED = {"shufflenet": "must have a dropout layer", "lraspp": "must return one tensor.* OrderedDict"}
CASES = [(name, *rest) for names, *rest in TIMM for name in names.split()] + [(name, 32, {}) for name in TORCHVISION]


def images(drop):
    return nn.Sequential(nn.Conv2d(3, 8, 5, 4), drop, nn.Flatten(), nn.Linear(8 * 49, 3))


@pytest.fixture(scope="module")
def packages():
    """Both take seconds to load."""
    reason = "the extra `test-nets` brings timm and torchvision"
    with quiet():
        try:
            torchvision = pytest.importorskip("torchvision", reason=reason)
        except RuntimeError:  # a build for GPUs lacks its operators beside a torch for CPUs; no net here calls them
            for name in ("nms", "qnms"):
                torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float threshold) -> Tensor")
            import torchvision
        return torchvision, pytest.importorskip("timm", reason=reason)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "options"), CASES, ids=[case[0] for case in CASES])
def test_nets_from_elsewhere_are_drawn_row_by_row_with_the_moments_of_dropout_left_on(name, size, options, packages):
    torchvision, timm = packages
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(0)
        own = TORCHVISION.get(name, lambda models, ops: timm.create_model(name, **options))
        module, x = own(torchvision.models, torchvision.ops).eval(), torch.randn(3, 3, size, size)
        for weight in module.parameters():
            if weight.ndim > 1 and not weight.any():
                nn.init.normal_(weight, std=0.1)  # a head of zeros would leave nothing to see
        functions = Functions(module, n_draws=60)
        if name in REFUSED:
            with pytest.raises(ValueError, match=REFUSED[name]):
                functions(x)
            return
        draws = functions(x)
        assert float(draws.std(0).max()) > 0
        assert_near(functions.by_whole_passes(x), draws)
        assert_near(torch.cat([functions(row) for row in x.split(1)], 1), draws)
        found = compare(draws, passes(name, module, x, len(draws)))  # by chance: 1.4e-4, as there are 9 outputs
    assert max(found.z_mean, found.z_variance) <= SIGMAS, found
