"""The papers, item by item: reproduced, improved, refuted, or not to be had; `python -m papers`."""
