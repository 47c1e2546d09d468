"""Hospitals that keep their records and answer over a network: studies, approval, quorum, release.

A coordinator writes a study, an officer signs it, a person at each site approves it, teachers
answer there, and only how many of them chose which class ever leaves. Needs `tacit[federation]`.
"""

import importlib
from typing import Any

from tacit.federation import _needed as _needed  # first: it says which extra is missing
from tacit.federation.aggregator import Aggregator
from tacit.federation.approval import Asked
from tacit.federation.approval import moment as moment
from tacit.federation.audit_log import lines as audit_lines
from tacit.federation.codes import check_codec as check_codec
from tacit.federation.codes import codec_hash, codes_study, released_masks
from tacit.federation.codes import slow_noise as slow_noise
from tacit.federation.coordinator import Coordinator
from tacit.federation.inputs import describe_inputs, frame_file, inputs_file
from tacit.federation.keys import SigningKey
from tacit.federation.keys import fingerprint as fingerprint
from tacit.federation.members import Invitation as Invitation
from tacit.federation.releasing import StudyRelease, end_study, read_release, release_study
from tacit.federation.releasing import release_csv as release_csv
from tacit.federation.sealing import read_answers as read_answers
from tacit.federation.settings import Policy, ServerSettings
from tacit.federation.site import Site
from tacit.federation.site_folder import SiteStudy
from tacit.federation.statements import notes_of as notes_of
from tacit.federation.study import AGGREGATORS as AGGREGATORS
from tacit.federation.study import Server, Study, StudySite, Window, new_document

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

# For the commands above: servers and pages import what a site's agent never needs.
_LATER = {
    "console_app": "console",
    "demonstrate": "demo",
    "records_of": "training",
    "serve_aggregator": "aggregator_service",
    "serve_coordinator": "service",
    "set_password": "sessions",
    "steward_page": "pages",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"tacit.federation.{_LATER[name]}"), name)
    raise AttributeError(f"module 'tacit.federation' has no attribute {name!r}")
