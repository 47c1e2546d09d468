"""Federated studies of sites that keep their records: approval, answers, quorum, release.

A coordinator writes a study, an officer signs it, a person at each site approves it, teachers
answer there, and only how many of them chose which class ever leaves. Names resolve on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0.dev0"

__all__ = [
    "Aggregator",
    "Asked",
    "Coordinator",
    "Policy",
    "Server",
    "ServerSettings",
    "SigningKey",
    "Site",
    "SiteStudy",
    "Study",
    "StudyRelease",
    "StudySite",
    "Window",
    "audit_lines",
    "codec_hash",
    "codes_study",
    "describe_inputs",
    "end_study",
    "frame_file",
    "inputs_file",
    "new_document",
    "read_release",
    "release_study",
    "released_masks",
]

_OFFERED = {
    "aggregator": "Aggregator",
    "approval": "Asked",
    "codes": "codec_hash codes_study released_masks",
    "coordinator": "Coordinator",
    "database": "audit_lines",
    "inputs": "describe_inputs frame_file inputs_file",
    "keys": "SigningKey",
    "releasing": "StudyRelease end_study read_release release_study",
    "settings": "Policy ServerSettings",
    "site": "Site",
    "site_folder": "SiteStudy",
    "study": "Server Study StudySite Window new_document",
}
_HOME = {name: home for home, names in _OFFERED.items() for name in names.split()}

if TYPE_CHECKING:
    from tacit_federation.aggregator import Aggregator
    from tacit_federation.approval import Asked
    from tacit_federation.codes import codec_hash, codes_study, released_masks
    from tacit_federation.coordinator import Coordinator
    from tacit_federation.database import audit_lines
    from tacit_federation.inputs import describe_inputs, frame_file, inputs_file
    from tacit_federation.keys import SigningKey
    from tacit_federation.releasing import StudyRelease, end_study, read_release, release_study
    from tacit_federation.settings import Policy, ServerSettings
    from tacit_federation.site import Site
    from tacit_federation.site_folder import SiteStudy
    from tacit_federation.study import Server, Study, StudySite, Window, new_document


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit_federation' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacit_federation.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
