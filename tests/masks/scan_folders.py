"""Small folders of generated scans, as hospitals have them, for runs of masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.masks import generated_volumes, save_mask

AFFINE = np.diag([1.5, 0.5, 2.0, 1.0])
SHAPE = (14, 17)


def write_folder(
    place: Path, count: int, seed: int, *, masks: bool = True, scans: bool = True, name: str = ""
) -> None:
    """Write images/ and labels/ of 2D scans; two scans a patient."""
    volumes = generated_volumes(count, SHAPE, n_classes=3, seed=seed, noise=0.05)
    for i, (image, mask) in enumerate(zip(volumes.images, volumes.masks or (), strict=True)):
        case = f"{name or place.name}{i // 2}_scan{i % 2}.nii.gz"
        for folder, values, wanted in (("images", image, scans), ("labels", mask, masks)):
            if wanted:
                (place / folder).mkdir(parents=True, exist_ok=True)
                save_mask(place / folder / case, values, AFFINE)


def settings(root: Path, **changes: Any) -> dict[str, Any]:
    """Return tables of a configuration for the folders of `make_hospital`."""
    raw: dict[str, Any] = {
        "method": "segmentation",
        "data": {
            "source": f"nifti:{root}/hospital",
            "public_source": f"nifti:{root}/public",
            "held_out_source": f"nifti:{root}/test",
            "name": "phantoms",
            "options": {
                "classes": ["background", "front", "back"],
                "grid": [16, 16],
                "masks_source": f"nifti:{root}/atlas",
                "patient_pattern": "([a-z]+[0-9]+)_",
            },
        },
        "privacy": {"epsilon": 8.0, "delta": 1e-3},
        "segmentation": {
            "n_teachers": 6,
            "each_alone": True,
            "student_steps": 3,
            "channels": [4, 8],
            "queries": 3,
        },
    }
    for section, values in changes.items():
        target = raw["data"]["options"] if section == "options" else raw[section]
        for key, value in values.items():
            if value is None:
                target.pop(key, None)
            else:
                target[key] = value
    return raw


def make_hospital(root: Path) -> Path:
    """Twelve private scans of six patients, four public ones, masks for the codec, a test set."""
    write_folder(root / "hospital", 12, 1)
    write_folder(root / "public", 4, 2, masks=False)
    write_folder(root / "atlas", 10, 3)
    write_folder(root / "test", 4, 4)
    return root
